"""Result folders of the SPEED-Bench harness give the one scenario they were written from."""

import json
from pathlib import Path

import numpy as np
import pytest

from specadvisor.engines.specdec_bench import read_specdec_bench
from specadvisor.errors import InputError

SAMPLES = Path(__file__).parents[1] / "data" / "specdec_bench"


def test_a_folder_gives_the_scenario() -> None:
    (run,) = read_specdec_bench(SAMPLES)
    np.testing.assert_allclose(run.survival.s, [0.80, 0.62, 0.47], atol=1e-12)
    assert run.survival.acceptance_length(3) == pytest.approx(2.89, abs=1e-12)
    assert (run.k, run.steps, run.kind) == (3, 2000, "eagle3")
    assert run.settings["gpu"] == "NVIDIA H200"
    assert any("prefill" in note for note in run.survival.notes)


def test_specbench_results_have_categories() -> None:
    (run,) = read_specdec_bench(SAMPLES / "specbench_results.json")
    assert run.category_lengths == {"writing": pytest.approx(2.89)}


def test_without_a_histogram_the_joint_rates_are_used_and_gaps_filled(tmp_path: Path) -> None:
    # Lengths 2 and 3 never occurred: whoever emits 2 tokens emits 4.
    (tmp_path / "acceptance_rate.json").write_text(json.dumps([{"Joint_Acceptance_Rate": {"1": 1.0, "4": 0.25}}]))
    (run,) = read_specdec_bench(tmp_path)
    np.testing.assert_allclose(run.survival.s, [0.25, 0.25, 0.25])


def test_the_histogram_of_a_run_that_never_accepted_all_keeps_k(tmp_path: Path) -> None:
    (tmp_path / "acceptance_rate.json").write_text(json.dumps({"Acceptance_Length_Histogram": {"1": 3, "2": 1}}))
    (tmp_path / "configuration.json").write_text(json.dumps({"block_size": 8, "speculative_algorithm": "DFLASH"}))
    (run,) = read_specdec_bench(tmp_path)
    assert run.k == 7
    np.testing.assert_allclose(run.survival.s, [0.25, 0, 0, 0, 0, 0, 0])


def test_appended_runs_are_kept_apart(tmp_path: Path) -> None:
    entries = [{"Acceptance_Length_Histogram": {"1": 1, "2": 1}}, {"Acceptance_Length_Histogram": {"2": 5}}]
    (tmp_path / "acceptance_rate.json").write_text(json.dumps(entries))
    first, second = read_specdec_bench(tmp_path)
    assert float(first.survival.s[0]) == 0.5
    assert float(second.survival.s[0]) == 1.0


@pytest.mark.parametrize("text", ["{", "[]", "[1]", '[{"Acceptance_Length_Histogram": {"one": 1}}]', "[{}]"])
def test_unreadable_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "acceptance_rate.json").write_text(text)
    with pytest.raises(InputError):
        read_specdec_bench(tmp_path)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"acceptance_rate\.json"):
        read_specdec_bench(tmp_path)
