from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd
import pytest

from specadvisor.errors import InputError


def test_one_tidy_row_per_point(small):
    table = small.sweep(["eagle3", "ngram"], [0, 1, 3], [1, 64], [1024, 8192])
    assert len(table) == 2 * 2 + 2 * 2 * 2 * 2
    assert not table.duplicated(["drafter", "k", "concurrency", "context_tokens"]).any()
    assert {"throughput_tok_s", "tpot_s", "round_s", "draft_s"} <= set(table.columns)


def test_rows_agree_with_the_evaluation(small):
    table = small.sweep("eagle3", [3], [16], [4096], acceptance="alpha:0.7")
    at = small.evaluate("eagle3", 3, 16, 4096, acceptance="alpha:0.7")
    row = table.iloc[0]
    assert row.throughput_speedup == pytest.approx(float(at.throughput_speedup.mid))
    assert row.round_s == pytest.approx(float(at.round_s))
    assert row.throughput_speedup_low < row.throughput_speedup < row.throughput_speedup_high


def test_plain_rows_are_the_reference(small):
    table = small.sweep("eagle3", [0, 2], [1, 64], [2048])
    plain = table[table.k == 0]
    assert set(plain.drafter) == {"none"}
    np.testing.assert_allclose(plain.throughput_speedup, 1.0)
    speculating = table[table.k == 2].reset_index(drop=True)
    ratio = speculating.throughput_tok_s / plain.reset_index(drop=True).throughput_tok_s
    np.testing.assert_allclose(speculating.throughput_speedup, ratio)


def test_a_k_that_only_some_take_has_rows_for_those_only(small):
    table = small.sweep(["dflash", "ngram"], [16], [1], [2048])
    assert set(table.drafter) == {"ngram"}


@pytest.mark.parametrize("wrong", [{"k": -1}, {"k": [99]}, {"concurrency": 0}, {"context": -5}, {"concurrency": []}])
def test_axes_that_mean_nothing_are_refused(small, wrong):
    with pytest.raises(InputError):
        small.sweep("eagle3", **wrong)


def test_an_executor_gives_the_same_table(small):
    kinds = ["eagle3", "dflash", "ngram"]
    alone = small.sweep(kinds, [0, 2, 5], [1, 32], [1024])
    with ProcessPoolExecutor(1) as pool:
        spread = small.sweep(kinds, [0, 2, 5], [1, 32], [1024], executor=pool)
    pd.testing.assert_frame_equal(alone, spread)
