"""``specadvisor acceptance``: priors, fit, show."""

import csv
import io
import json
from pathlib import Path

import pytest

from specadvisor.cli.app import main
from specadvisor.ids import DRAFTERS

SAMPLES = Path(__file__).parents[1] / "data" / "specdec_bench"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        main(["acceptance", *arguments])
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_priors_of_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "priors", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["kind"] for row in rows] == list(DRAFTERS)
    for row in rows:
        assert 1 <= float(row["length_3_low"]) <= float(row["length_3"]) <= float(row["length_3_high"]) <= 4


def test_priors_of_a_mix_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "priors", "eagle-3", "--workload", "coding:0.7,chat:0.3", "--temperature", "1", "-f", "json")
    data = json.loads(out)
    assert data["schema_version"] == 1
    assert data["rows"][0]["kind"] == "eagle3"


def test_rows_behind_a_prior_have_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "priors", "mtp", "--workload", "rag", "--rows", "-f", "json")
    rows = json.loads(out)["rows"]
    assert rows
    assert all(row["kind"] == "mtp" for row in rows)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--histogram", "400,360,300,940"),
        ("--cumulative", "0.8,0.62,0.47"),
        ("--conditional", "0.8,0.775,0.758064516"),
        ("--al", "2.89@3"),
        ("--rate", "0.63@3"),
        ("--accepted", "3780", "--drafted", "6000", "-k", "3"),
        ("--accepted", "1600,1240,940", "--drafted", "2000"),
        (str(SAMPLES),),
        (str(SAMPLES / "specbench_results.json"),),
    ],
)
def test_every_form_fits_the_same_scenario(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    code, out, _ = run(capsys, "fit", *arguments, "-d", "eagle3", "-f", "csv")
    rows = {int(row["k"]): row for row in csv.DictReader(io.StringIO(out))}
    assert code == 0
    assert float(rows[3]["length"]) == pytest.approx(2.89, abs=0.01)
    assert len(rows) == 8


def test_a_catalogue_file_is_fitted_row_by_row(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("id,kind,k,length,category\na,eagle3,3,2.4,coding\nb,mtp,,2.0,chat\n")
    code, out, err = run(capsys, "fit", str(mine), "-f", "csv")
    assert code == 0
    assert {row["name"] for row in csv.DictReader(io.StringIO(out))} == {"a"}
    assert "b: not fitted" in err


def test_the_table_shows_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "fit", "--al", "2.5@3", "-d", "eagle3", "--k-max", "9")
    assert "a_j =" in out
    assert "trained depth" in out


def test_show_lists_sources_and_rows_with_the_rule(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "show", "-f", "csv")
    sources = list(csv.DictReader(io.StringIO(out)))
    assert len(sources) > 100
    assert all(row["address"] for row in sources)
    _, out, _ = run(capsys, "show", "2401.15077", "-f", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 56
    assert sum("chain" in row["left_out"] for row in rows) == 13


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit",),
        ("fit", "--al", "4.5@3"),
        ("fit", "--al", "2.5"),
        ("fit", "--cumulative", "0.5,0.6"),
        ("fit", "--conditional", "0.5,x"),
        ("fit", "--alpha", "1.2"),
        ("fit", "nowhere"),
        ("show", "nonsense"),
        ("priors", "eagle9"),
        ("priors", "--rows"),
        ("priors", "--workload", "cooking"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("specadvisor: ")
    assert err.count("\n") == 1


def test_output_goes_to_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "priors.csv"
    code, out, _ = run(capsys, "priors", "-f", "csv", "-o", str(file))
    assert (code, out) == (0, "")
    assert file.read_text().startswith("kind,")
