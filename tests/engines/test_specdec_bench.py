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


HISTOGRAM = {"Acceptance_Length_Histogram": {"1": 5, "2": 3, "4": 2}}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (HISTOGRAM | {"Category_AL": ["writing"]}, "Category_AL"),
        (HISTOGRAM | {"Category_AL": "abc"}, "Category_AL"),
        (HISTOGRAM | {"Category_AL": {"writing": "much"}}, "Category_AL of writing"),
        ({"Joint_Acceptance_Rate": {"100000000": 0.5}}, "from 1 to 1025"),
        ({"Acceptance_Length_Histogram": {"100000000": 5}}, "from 1 to 1025"),
        ({"Acceptance_Length_Histogram": {"1": None}}, "Acceptance_Length_Histogram or"),
        ({"Acceptance_Length_Histogram": [1, 2]}, "table of length"),
        ({"Acceptance_Length_Histogram": {"1": float("inf")}}, "finite"),
    ],
)
def test_tables_that_are_none_are_refused_by_name(tmp_path: Path, entry: dict[str, object], reason: str) -> None:
    (tmp_path / "acceptance_rate.json").write_text(json.dumps([entry]))
    with pytest.raises(InputError, match=reason):
        read_specdec_bench(tmp_path)


def test_a_category_without_requests_is_left_out(tmp_path: Path) -> None:
    categories = {"Category_AL": {"writing": None, "math": "2.5", "qa": float("nan")}}
    (tmp_path / "acceptance_rate.json").write_text(json.dumps([HISTOGRAM | categories]))
    assert read_specdec_bench(tmp_path)[0].category_lengths == {"math": 2.5}


@pytest.mark.parametrize("drafts", [0, 2, -3, float("inf"), "many", 2.5, True])
def test_a_draft_length_below_what_was_accepted_is_refused(tmp_path: Path, drafts: object) -> None:
    (tmp_path / "acceptance_rate.json").write_text(json.dumps([HISTOGRAM]))
    (tmp_path / "configuration.json").write_text(json.dumps([{"draft_length": drafts}]))
    with pytest.raises(InputError, match="draft_length"):
        read_specdec_bench(tmp_path)


def test_a_block_may_be_filled_whole(tmp_path: Path) -> None:
    (tmp_path / "acceptance_rate.json").write_text(json.dumps([HISTOGRAM]))
    for block, k in ((3, 3), (4, 3), (8, 7)):
        (tmp_path / "configuration.json").write_text(json.dumps([{"block_size": block, "draft_length": None}]))
        assert read_specdec_bench(tmp_path)[0].k == k


def test_json_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "acceptance_rate.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested too deeply"):
        read_specdec_bench(tmp_path)
