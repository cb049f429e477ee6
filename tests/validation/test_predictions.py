from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

from specadvisor.errors import InputError
from specadvisor.validation import Validation, validate
from specadvisor.validation.groups import groups_of
from specadvisor.validation.predict import COLUMNS, predict
from specadvisor.validation.setup import load_of
from specadvisor.validation.sweeps import read_sweeps

from .conftest import CONFIGS, DATA

FOLDERS = tuple(str(folder) for folder in CONFIGS)


def rows(sweeps: pd.DataFrame, case: str, **changes: object) -> pd.DataFrame:
    """The rows of one case, with columns changed."""
    return sweeps[sweeps.case_id == case].reset_index(drop=True).assign(**changes)


def test_every_row_is_predicted_or_says_why_not(checked: Validation, sweeps: pd.DataFrame) -> None:
    predictions = checked.predictions
    assert list(predictions.columns) == list(COLUMNS)
    assert len(predictions) == len(sweeps)
    assert not checked.unpredicted
    assert np.all(predictions.predicted_throughput_speedup > 0)
    assert np.all(predictions.low <= predictions.predicted_throughput_speedup)
    assert np.all(predictions.predicted_throughput_speedup <= predictions.high)


def test_the_advice_is_one_of_the_groups_options(checked: Validation, sweeps: pd.DataFrame) -> None:
    chosen = checked.predictions.groupby("group_id").chosen_k
    assert chosen.nunique().max() == 1
    first = chosen.first()
    for name, group in groups_of(sweeps).items():
        assert int(first[name]) in group.options


def test_no_speedup_exceeds_its_tokens_per_round(checked: Validation) -> None:
    predictions = checked.predictions
    assert np.all(predictions.acceptance_length <= predictions.k + 1 + 1e-9)
    assert np.all(predictions.predicted_tpot_speedup < 1.6 * predictions.acceptance_length)


def test_the_whole_table_takes_less_than_ten_seconds(sweeps: pd.DataFrame) -> None:
    start = time.process_time()
    predict(sweeps, FOLDERS)
    assert time.process_time() - start < 10


def test_better_than_every_naive_policy(checked: Validation) -> None:
    """The shipped parameters saw these sweeps; docs/accuracy.md has the leave-family-out figures."""
    for name in ("all", "acceptance known", "acceptance unknown", "acceptance known, 3 or more k"):
        regret = checked.scores[name].regret
        for policy in ("always off", "k = 3", "k = 5", "largest k"):
            assert regret["recommended"]["mean"] < regret[policy]["mean"], (name, policy)


def test_rows_of_plain_decoding_are_the_implied_option(sweeps: pd.DataFrame) -> None:
    table = rows(sweeps, "tr-qwen3-32b-eagle3-mt-bench")
    plain = table[table.k == 1].assign(k=0, throughput_speedup=1.0, tpot_speedup=1.0)
    both = validate(pd.concat([plain, table]), CONFIGS, draws=0)
    assert len(both.predictions) == len(table)


@pytest.mark.parametrize(
    ("column", "value"),
    [("survival", "1.7;0.2"), ("survival", "a;b"), ("concurrency", 0), ("context", -5.0), ("temperature", -1.0)],
)
def test_one_bad_row_does_not_spoil_its_neighbours(sweeps: pd.DataFrame, column: str, value: object) -> None:
    table = rows(sweeps, "tr-qwen3-32b-eagle3-mt-bench")
    table[column] = table[column].astype(object)
    table.loc[0, column] = value
    result = predict(read_sweeps(table), FOLDERS)
    assert (result.reason[1:] == "").all()
    assert result.reason[0] or column in ("context", "temperature")


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("gpu", "gtx_9999", "GPU"),
        ("target_config", "absent.json", "absent.json"),
        ("drafter_kind", "oracle", "oracle"),
        ("engine", "ollama", "ollama"),
        ("weight_format", "int3", "int3"),
        ("tree", "bush", "bush"),
        ("tp", 3, "tp"),
    ],
)
def test_what_is_unknown_becomes_a_reason(sweeps: pd.DataFrame, column: str, value: object, reason: str) -> None:
    table = rows(sweeps, "tr-qwen3-32b-eagle3-mt-bench", **{column: value})
    result = predict(table, FOLDERS)
    assert result.reason.str.contains(reason, regex=False).all()
    assert result.predicted_throughput_speedup.isna().all()
    assert (result.chosen_k == 0).all()


def test_blank_columns_have_stated_defaults(sweeps: pd.DataFrame) -> None:
    blank = rows(sweeps, "tr-qwen3-32b-eagle3-mt-bench", isl=np.nan, osl=np.nan, context=np.nan, survival="", accept_len=np.nan)
    result = predict(blank, FOLDERS)
    assert result.warnings.str.contains("1024 assumed").all()
    assert result.acceptance_source.str.startswith("catalogue prior").all()
    assert load_of(next(blank.itertuples())).context == 1024


def test_open_loop_is_named_as_another_question(sweeps: pd.DataFrame) -> None:
    result = predict(rows(sweeps, "mg-gb10-rate-sweep"), FOLDERS)
    assert result.warnings.str.contains("open-loop").all()


def test_acceptance_measured_once_serves_the_whole_case(sweeps: pd.DataFrame) -> None:
    table = rows(sweeps, "tr-qwen3-32b-eagle3-mt-bench")
    once = predict(table, FOLDERS, "once")
    here = (table.concurrency == table.concurrency.min()) & (table.k == table.k.max())
    assert (once.acceptance_source[~here].str.contains("at k = 6, concurrency 1")).all()
    assert once.groupby("k").acceptance_length.nunique().max() == 1
    table.loc[~here, ["survival"]] = ""
    table.loc[~here, ["accept_len"]] = np.nan
    again = predict(table, FOLDERS, "once")
    pd.testing.assert_series_equal(once.predicted_throughput_speedup, again.predicted_throughput_speedup)


def test_a_row_without_acceptance_takes_that_of_its_group(sweeps: pd.DataFrame) -> None:
    table = rows(sweeps, "tr-qwen3-32b-eagle3-mt-bench")
    one = table[table.concurrency == 8].reset_index(drop=True)
    one.loc[one.k != 6, ["survival"]] = ""
    one.loc[one.k != 6, ["accept_len"]] = np.nan
    assert predict(one, FOLDERS).acceptance_source.str.startswith("measured list").all()


def test_an_anchor_moves_the_other_loads_only(sweeps: pd.DataFrame) -> None:
    table = rows(sweeps, "tr-qwen3-32b-eagle3-mt-bench")
    plain = validate(table, CONFIGS, draws=0).predictions
    faster = table.assign(throughput_speedup=table.throughput_speedup.where(table.concurrency > 1, 2.8))
    anchored = validate(faster, CONFIGS, anchor_per_series=True, draws=0)
    moved = anchored.predictions.predicted_throughput_speedup / plain.predicted_throughput_speedup
    assert (moved[table.concurrency == 1] == 1.0).all()
    assert (moved[table.concurrency > 1] > 1.05).all()
    assert anchored.scores["all"].groups == table[table.concurrency > 1].group_id.nunique()


def test_a_wrong_mode_is_an_input_error() -> None:
    with pytest.raises(InputError, match="row, once"):
        validate(DATA / "dev.csv", CONFIGS, acceptance="twice")  # type: ignore[arg-type]
