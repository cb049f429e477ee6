from __future__ import annotations

import csv
import io
import json

import pytest

from specadvisor.advise.advisor import Advisor
from specadvisor.errors import InputError
from specadvisor.ranges import Range
from specadvisor.report.console import plain, show
from specadvisor.report.data import SCHEMA_VERSION, option_rows
from specadvisor.report.markdown import markdown
from specadvisor.report.numbers import milliseconds, span, times, tokens
from specadvisor.report.tables import Lines, Table, recommendation_blocks
from specadvisor.report.writers import csv_text, json_text, write


@pytest.fixture(scope="module")
def answer():
    return Advisor("qwen3-8b", "h200_sxm").recommend([1, 64], drafters=["eagle3", "ngram"])


def test_numbers_as_a_reader_wants_them():
    assert times(Range(1.31, 1.524, 1.74)) == "1.52x (1.31-1.74)"
    assert [milliseconds(s) for s in (0.123, 0.0123, 0.00123)] == ["123", "12.3", "1.23"]
    assert [tokens(v) for v in (12345.6, 45.67)] == ["12,346", "45.7"]
    assert span([0, 3, 4, 5, 7]) == "0, 3-5, 7"


def test_plain_text_aligns_words_left_and_numbers_right():
    table = Table("T", ("name", "n"), (("a", "1"), ("long", "22")), ("name",))
    assert plain([table, Lines("L", ("x",))]) == "T\n  name   n\n  a      1\n  long  22\n\nL\n  - x\n"


def test_markdown_escapes_its_own_separator():
    text = markdown([Table("T", ("a", "b"), (("x|y", "1"),), ("a",)), Lines("L", ("z",))])
    assert text == "## T\n\n| a | b |\n| --- | ---: |\n| x\\|y | 1 |\n\n## L\n\n- z\n"


def test_json_carries_its_version_and_no_nan(answer):
    data = json.loads(json_text(answer.to_dict()))
    assert data["schema_version"] == SCHEMA_VERSION
    assert data["deployment"]["model"] == "qwen3-8b"
    assert data["plain"][0]["ttft_s"] is None
    assert {"best", "schedule", "guidelines", "drafters", "memory", "warnings", "assumptions", "ranking"} <= data.keys()
    assert len(data["guidelines"][0]["guidelines"]) == 5


def test_csv_has_one_row_per_option_and_units_in_its_names(answer):
    rows = list(csv.DictReader(io.StringIO(csv_text(option_rows(answer.ranking)))))
    assert len(rows) == len(answer.ranking)
    assert {"throughput_tok_s", "tpot_s", "round_s", "throughput_speedup_low"} <= rows[0].keys()
    assert rows[0]["ttft_s"] == ""


def test_csv_text_and_file_are_the_same(answer, tmp_path):
    assert answer.to_csv(tmp_path / "a.csv") == (tmp_path / "a.csv").read_text() == answer.to_csv()


def test_a_frame_holds_the_same_ranking(answer):
    frame = answer.to_frame()
    assert len(frame) == len(answer.ranking)
    assert frame.drafter.tolist() == [o.drafter for o in answer.ranking]


def test_the_report_begins_with_the_answer(answer):
    blocks = recommendation_blocks(answer)
    assert blocks[0].lines == answer.headline
    assert "Guidelines at concurrency 1," in answer.table()
    every = recommendation_blocks(answer, all_guidelines=True)
    assert len(every) == len(blocks) + 1


def test_files_are_whole_or_not_there(tmp_path):
    write(tmp_path / "new" / "a.json", "text")
    assert (tmp_path / "new" / "a.json").read_text() == "text"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a.json"]
    (tmp_path / "file").write_text("kept")
    with pytest.raises(InputError, match="output"):
        write(tmp_path / "file" / "b.json", "text")
    assert (tmp_path / "file").read_text() == "kept"


def test_a_terminal_gets_colours_and_unbroken_numbers(answer, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    show(recommendation_blocks(answer))
    text = capsys.readouterr().out
    assert "\x1b[" in text
    assert times(answer.chosen(0).throughput_speedup) in text
