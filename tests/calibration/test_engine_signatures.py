"""The fakes have the recorded signatures of the real packages, and the checker that recorded them notices what changed."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from fake_engines.loading import loaded

from specadvisor.calibration.collectives import ALL_REDUCES, measure_all_reduce
from specadvisor.calibration.engine_attention import KERNELS, check_kernel
from specadvisor.calibration.engine_moe import MOE_KERNELS, check_moe_kernel
from specadvisor.calibration.engine_weights import W4A16_KERNELS, check_weight_kernel

ROOT = Path(__file__).parents[2]
RECORDED = json.loads((ROOT / "tests" / "data" / "engine_signatures.json").read_text())
CALLS = [call for package in RECORDED["packages"] for call in package["calls"]]
# SGLang's own Marlin has the signature of sgl-kernel's, which the fake stands for; torch's fake is held to what is passed.
FAKED = [c for c in CALLS if not c["call"].startswith(("sglang.kernels", "torch"))]
NAMES = [c["call"] for c in FAKED]


@pytest.fixture(autouse=True)
def fakes() -> Iterator[Any]:
    with loaded() as kernels:
        yield kernels


@pytest.fixture(scope="module")
def checker() -> Any:
    spec = spec_from_file_location("engine_signatures", ROOT / "benchmarks" / "engine_signatures.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("call", FAKED, ids=NAMES)
def test_fakes_have_the_real_parameters(call: dict[str, Any]) -> None:
    module, name = call["call"].split(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    given = [f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in inspect.signature(found).parameters.values()]
    assert [p for p in given if p != "self"] == call["parameters"]


def test_what_is_passed_is_what_was_recorded(fakes: Any) -> None:
    import torch

    for kernel in KERNELS:
        for kv_format in kernel.formats:
            check_kernel(torch, kernel, 64, kv_format)
    for weights in W4A16_KERNELS:
        check_weight_kernel(torch, weights)
    check_moe_kernel(torch, MOE_KERNELS[0])
    for engine in ALL_REDUCES:
        measure_all_reduce(engine, 2, (8192,))
    assert {name: sorted(given) for name, given in fakes.passed.items()} == {c["call"]: c["passed"] for c in FAKED}


def test_every_record_has_its_origin() -> None:
    for package in RECORDED["packages"]:
        name, version = package["version"].split()
        assert name.replace("_", "-") in package["distributions"] and version[0].isdigit() and package["licence"]
        assert all(set(c["passed"]) <= {p.lstrip("*") for p in c["parameters"]} for c in package["calls"])


SOURCE = """
try:
    from fast import kernel
except ImportError:
    def kernel(q, k, *, scale=1.0): ...

class Wrapper:
    @overload
    def run(self, q): ...
    def run(self, q, *args, out=None): ...
"""


@pytest.mark.parametrize(
    ("name", "passed", "wrong"),
    [
        ("kernel", ["q", "scale"], ""),
        ("kernel", ["q", "page_table"], "no parameter page_table"),
        ("Wrapper.run", ["q", "out", "args"], ""),
        ("Wrapper.plan", [], "Wrapper.plan is not defined in engine/ops.py"),
        ("other", [], "engine does not have other"),
    ],
)
def test_the_checker_notices_what_changed(tmp_path: Path, checker: Any, name: str, passed: list[str], wrong: str) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "ops.py").write_text(SOURCE)
    (tmp_path / "engine" / "__init__.py").write_text("from .ops import Wrapper, kernel\n")
    assert checker.problem(tmp_path, {"call": f"engine:{name}", "defined": "engine/ops.py", "passed": passed})[0] == wrong


def test_a_package_that_lost_a_function_ends_with_1(tmp_path: Path, checker: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "flash_attn").mkdir()
    (tmp_path / "flash_attn" / "__init__.py").write_text("")
    (tmp_path / "flash_attn-3.0.dist-info").mkdir()
    (tmp_path / "flash_attn-3.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.4\nName: flash_attn\nVersion: 3.0\n")
    assert checker.main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out.split(maxsplit=3)
    assert printed == ["flash_attn", "3.0", "flash_attn:flash_attn_func", "flash_attn does not have flash_attn_func\n"]
