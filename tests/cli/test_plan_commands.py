"""Every command that the measurement plan prints runs as it is printed."""

import json
import shlex

import pytest


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt_llm", "llama_cpp"])
@pytest.mark.parametrize("acceptance", [(), ("-a", "eagle3=al:2.6@5"), ("--acceptance=ngram=al:1.6@3",)])
def test_every_command_of_the_plan_runs_as_printed(run, engine: str, acceptance: tuple[str, ...]) -> None:
    weights = ("--weights", "q4_k_m") if engine == "llama_cpp" else ()
    typed = ("recommend", "-m", "qwen3-8b", "-g", "rtx_4090", *weights, "--engine", engine, "-c", "1,4", *acceptance)
    outcome = run(*typed, "-d", "eagle3", "-d", "ngram", "--format", "json")
    assert outcome.code == 0, outcome.err
    plan = json.loads(outcome.out)["measurement_plan"]
    for line in plan:
        words = shlex.split(line[line.index("specadvisor ") :])
        assert run(*words[1:]).code == 0, line
