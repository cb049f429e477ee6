"""``acceptance fit`` and ``show`` of files and of lookups: many rows, rows left out, numbers that none can be."""

import json
import time
from pathlib import Path

import pytest

from specadvisor.acceptance import fit_acceptance
from specadvisor.cli.app import main
from tests.cli.test_acceptance_command import run


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    return err


def test_a_length_that_is_no_number_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for bad in ("nan@3", "inf@3", "2.5@", "2.5@x"):
        assert "--al" in refused(capsys, "fit", "--al", bad)
    assert "as --rate says" in refused(capsys, "fit", "--rate", "0.5@3", "-k", "5")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kind,k,length\neagle3,3,-3\n", "length"), ("kind,k,length\neagle3,0,2\n", "k"),
        ("kind,k,length\neagle3,2.5,2\n", "k"), ("kind,k,length,length\neagle3,3,2,2.5\n", "columns"),
        ("kind,k,length\neagle3,3,2,9\n", "cells"), ("kind,k,length,hit_share\nngram,3,2,0\n", "hit_share"),
        ("kind,length,positions,positions_kind\nmtp,,0.5;0.6,cumulative\n", "never rise"),
        ("kind,length,positions,positions_kind\nmtp,,0.5;60,conditional\n", "between 0 and 1"),
        ("kind,k,length\neagle3,3,nan\n", "length"), ("kind,k,length,temperature\neagle3,3,2,-1\n", "temperature"),
    ],
)  # fmt: skip
def test_a_row_with_a_number_that_none_can_be_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(text)
    for command in ("fit", "show"):
        assert reason in refused(capsys, command, str(file))


def test_a_file_without_a_usable_row_is_refused_with_the_reason(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("id,kind,k,length\na,eagle3,3,4.5\nb,mtp,,2.0\n")
    err = refused(capsys, "fit", str(file))
    assert "All 2 are left out; a: more tokens a round than k + 1" in err


def test_json_has_the_model_and_the_notes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("id,kind,k,length\na,eagle3,3,2.4\nb,mtp,,2.0\n")
    code, out, err = run(capsys, "fit", str(file), "-f", "json")
    data = json.loads(out)
    assert (code, err) == (0, "")
    assert [fit["name"] for fit in data["fits"]] == ["a"]
    assert "a_j =" in data["fits"][0]["model"][0]
    assert data["notes"] == ["b: not fitted (no list, and no length with its k)"]
    assert data["rows"][2]["k"] == 3


def test_ten_thousand_rows_of_one_id_are_kept_apart_in_seconds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("id,kind,k,length\n" + "".join(f"a,eagle3,3,{1 + i % 500 / 200}\n" for i in range(10_000)))
    start = time.process_time()
    code, out, _ = run(capsys, "show", str(file), "-f", "csv")
    assert code == 0
    assert out.count("\n") == 10_001
    code, out, _ = run(capsys, "fit", str(file))
    assert code == 0
    assert "a (row 10000)" in out
    assert time.process_time() - start < 15


def test_a_lookup_shows_its_chance_of_a_match_and_its_length_given_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """vLLM pull request 24344: AL 4.59 per draft that fired, 2.96 over all rounds, so P(hit) = 1.96 / 3.59."""
    stated = ("fit", "--al", "4.59@5", "-d", "ngram", "--hit", "0.546")
    _, out, _ = run(capsys, *stated)
    assert "P(hit) = 0.55" in out
    assert "AL(5) given a match = 4.59" in out
    assert "easy rounds" not in out
    _, out, _ = run(capsys, *stated, "-f", "json")
    data = json.loads(out)
    assert data["rows"][4]["length"] == pytest.approx(2.96, abs=0.01)
    assert data["rows"][4]["length_given_match"] == pytest.approx(4.59)
    assert (data["fits"][0]["hit"], data["fits"][0]["hit_stated"]) == (0.546, True)
    _, out, _ = run(capsys, "fit", "--conditional", "0.4,0.8,0.8", "-d", "suffix")
    assert "P(hit) = 0.50" in out
    assert "implied" in out
    assert "looks text up" in refused(capsys, "fit", "--al", "2.5@3", "-d", "eagle3", "--hit", "0.4")
    assert "at most 1" in refused(capsys, "fit", "--al", "2.5@3", "-d", "ngram", "--hit", "1.5")
    file = tmp_path / "mine.csv"
    file.write_text("kind,k,length,positions,positions_kind,hit_share\nngram,3,,0.8;0.7;0.6,cumulative,0.5\n")
    _, out, _ = run(capsys, "show", str(file), "-f", "csv")
    assert "length_given_match" in out
    assert ",0.5,3.1," in out


def test_rounds_with_a_match_are_counted_without_the_chance_of_one() -> None:
    """Before any data a lookup's usual run starts with its chance of a match; given one, positions start alike."""
    few = fit_acceptance(histogram=[2, 2, 2, 4], kind="ngram", hit=0.4)
    given_match = few.survival.conditional[0] / 0.4
    assert few.kind == "ngram"
    assert few.survival.rounds == 25
    assert abs(given_match - few.survival.conditional[1]) < 0.1
    assert few.survival.sigma > fit_acceptance(histogram=[2, 2, 2, 4]).survival.sigma


def test_what_a_flat_fit_says(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "fit", "--al", "2.5@3")
    assert "a_j = 0.691 at every position" in out
    assert "flat drafters" not in out


def test_numbers_beside_a_file_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("kind,k,length\neagle3,3,2\n")
    assert "not both" in refused(capsys, "fit", str(file), "--alpha", "0.5")


def test_speed_benchs_categories_are_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    shown = [
        run(capsys, "priors", "mtp", "--workload", name, "-f", "csv")[1].splitlines()[1]
        for name in ("stem", "humanities", "qa")
    ]
    assert shown[0] == shown[1] == shown[2]


def test_the_form_of_recommend_reads_a_lookups_two_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    from specadvisor.advise.acceptance_input import parse_acceptance

    curve = parse_acceptance("hit:0.546,4.59@5", "ngram")
    assert curve.hit == 0.546
    assert float(curve.acceptance_length(5)) == pytest.approx(1 + 0.546 * 3.59)
    with pytest.raises(SystemExit):
        main(["recommend", "--model", "qwen3-8b", "--gpu", "h100_sxm", "-d", "eagle3", "-a", "hit:0.5,2.5@3"])
    assert "looks text up" in capsys.readouterr().err
