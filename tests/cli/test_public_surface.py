"""What ``import specadvisor as sa`` offers: a change here is a change for users."""

from __future__ import annotations

import pytest

import specadvisor as sa


def test_every_public_name_is_there():
    for name in sa.__all__:
        assert getattr(sa, name) is not None
    assert set(sa.__all__) == set(dir(sa))


def test_the_names():
    required = {
        "Tuner",
        "Survival",
        "Anchor",
        "calibrate",
        "fit_acceptance",
        "validate",
        "Advisor",
        "load_model",
        "load_gpu",
        "kernels",
        "Recommendation",
        "InputError",
        "DoesNotFit",
        "Range",
        "__version__",
    }
    assert required <= set(sa.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'advise_me'"):
        sa.advise_me  # noqa: B018


def test_the_readme_way_works():
    model = sa.load_model("qwen3-8b")
    gpu = sa.load_gpu("h200_sxm")
    advisor = sa.Advisor(model, gpu, engine="vllm", tp=1, ep=1, dp=1)
    assert float(advisor.step(1, 1, 1024).total_s) > 0
    rec = advisor.recommend(concurrency=[1, 8, 64], input_tokens=1024, output_tokens=512, workload="coding", temperature=0.0)
    assert rec.best and rec.ranking and rec.schedule and rec.guidelines and rec.memory and rec.assumptions
    assert "--speculative-config" in rec.flags("vllm")
    assert float(sa.kernels.gemm_s(gpu, 16, 4096, 4096)) > 0
