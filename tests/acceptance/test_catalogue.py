"""The catalogue: every row has a source, rules leave out what must not enter a fit, the tables follow from the rows."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from specadvisor.acceptance.build_priors import build
from specadvisor.acceptance.catalogue import load_rows, load_sources, read_rows, targets_by_kind
from specadvisor.acceptance.kinds import intercept_of
from specadvisor.acceptance.lists import shape_lists, usable_lists
from specadvisor.acceptance.rules import left_out, reasons
from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError
from specadvisor.ids import DRAFTERS, WORKLOADS


def test_every_row_has_an_id_a_source_and_how_it_was_obtained() -> None:
    rows, sources = load_rows(), load_sources()
    assert len(rows) == 2129
    assert len({row.id for row in rows}) == len(rows)
    assert {row.source for row in rows} == set(sources)
    assert all(source.address for source in sources.values())
    assert {row.how for row in rows} <= {"printed", "digitised", "by eye", "via note", "secondary"}


def test_rows_of_the_priors_are_possible_and_within_the_ids() -> None:
    out = left_out(load_rows())
    for row in load_rows():
        if row.id not in out:
            assert row.kind in DRAFTERS
            assert row.workload in WORKLOADS


def test_the_named_anomalies_are_left_out_by_their_rule() -> None:
    out = left_out(load_rows())
    count = Counter(out.values())
    assert set(count) <= set(reasons())
    eagle1 = [row for row in load_rows() if row.kind == "eagle" and row.tree and row.positions]
    assert len(eagle1) == 13
    assert {out[row.id] for row in eagle1} == {"tree_length_with_chain_list"}
    assert count["length_above_bound"] == 2
    assert {row.rate for row in load_rows() if "-" in row.rate} == {"0.85-0.90", "0.033-0.051", "0.67-0.85"}
    assert all(out[row.id] for row in load_rows() if "-" in row.rate)
    assert all(row.id in out for row in load_rows() if row.positions_kind == "unknown")
    conflicting = [row for row in load_rows() if out.get(row.id) == "conflicting_duplicate"]
    assert {row.source for row in conflicting} >= {"sgl-cookbook-qwen3.5", "spec-bench-leaderboard"}


def test_lists_that_shape_the_kinds_never_increase() -> None:
    lists = usable_lists(load_rows())
    assert len(lists) > 35
    for row in lists:
        assert row.survival is None or np.all(np.diff(row.survival) <= 1e-9), row.id


def test_lists_with_gaps_and_lengths_at_several_k_shape_kinds_too() -> None:
    """DFlash 2 blog: .883, .853, .8536 at 7, .8648 at 15 printed; four-token heads: AL 1.88, 2.57, 3.12 at k = 1, 2, 3."""
    gapped = [row for row in usable_lists(load_rows()) if row.survival is None]
    (flat,) = [row.conditional for row in gapped if row.kind == "dflash2" and row.drafter == "DFlash 2"]
    assert flat is not None
    assert np.isnan(flat[3])
    assert intercept_of(flat) == pytest.approx(intercept_of(np.array([0.883, 0.853, 0.853, 0.853, 0.855])), abs=0.1)
    heads = [found for found in shape_lists(load_rows(), ["medusa"]) if found.kind == "medusa"]
    assert len(heads) == 3
    np.testing.assert_allclose(heads[0].conditional, [0.88, 0.69 / 0.88, 0.55 / 0.69])
    assert not [found for found in shape_lists(load_rows()) if found.kind == "medusa"]


def test_a_newer_generation_is_filed_under_its_own_kind() -> None:
    assert {row.kind for row in load_rows() if "EAGLE3.1" in row.drafter} == {"eagle3_1"}


def test_the_shipped_tables_are_what_the_command_computes() -> None:
    """Text equal, numbers to 0.02: the last digit of an estimate may differ between linear algebra libraries."""
    for name, text in build().items():
        shipped = _cells((profiles_dir() / "acceptance" / name).read_text(encoding="utf-8"))
        computed = _cells(text)
        assert len(shipped) == len(computed), name
        for mine, theirs in zip(shipped, computed, strict=True):
            assert mine == pytest.approx(theirs, abs=0.02) if isinstance(mine, float) else mine == theirs, name


def _cells(text: str) -> list[str | float]:
    def cell(value: str) -> str | float:
        try:
            return float(value)
        except ValueError:
            return value

    return [cell(value) for line in text.splitlines() if not line.startswith("#") for value in line.split(",")]


def test_a_users_file_in_the_same_columns(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("# mine\nkind,k,length,category\neagle-3,3,2.4,coding\n")
    (row,) = read_rows(path)
    assert (row.kind, row.k, row.length, row.workload) == ("eagle3", 3, 2.4, "coding")


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "kind,k,length\neagle3,three,2\n", "kind,length,positions\nmtp,,0.5;x\n"])
def test_a_broken_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(InputError):
        read_rows(path)


def test_targets_by_kind_are_those_of_the_rows() -> None:
    expected: dict[str, set[str]] = {}
    for row in load_rows():
        expected.setdefault(row.kind, set()).add(row.target.lower())
    assert targets_by_kind() == expected
