"""Great Expectations over a data frame of rows."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from databus.core.expectations import Expectation
from databus.records.quality.great_expectations_context import great_expectations, remove_docs_sites
from databus.records.quality.judged_expectations import ExpectationOutcome

if TYPE_CHECKING:
    import pandas as pd

_ROW_BY_ROW = ("ColumnMapExpectation", "ColumnPairMapExpectation", "MulticolumnMapExpectation")
_ACROSS_ROWS = ("unique", "increasing", "decreasing", "z_scores", "outliers")


def judge_frame(
    expectations: Sequence[Expectation], frame: pd.DataFrame, *, how: str, complete: bool
) -> list[ExpectationOutcome]:
    """Judge expectations over rows.

    Args:
        expectations: what is expected.
        frame: the rows.
        how: what these rows are, in words.
        complete: whether these are all rows; else an expectation of more than single rows is refused.
    """
    gx = great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    try:
        asset = context.data_sources.add_pandas("rows").add_dataframe_asset("rows")
        batch = asset.add_batch_definition_whole_dataframe("rows").get_batch({"dataframe": frame})
        return [_judged(batch, expectation, how, complete=complete) for expectation in expectations]
    finally:
        remove_docs_sites(context)


def _judged(batch: Any, expectation: Expectation, how: str, *, complete: bool) -> ExpectationOutcome:
    from great_expectations.exceptions import GreatExpectationsError
    from great_expectations.expectations.registry import get_expectation_impl

    try:
        kind = get_expectation_impl(expectation.type)
    except GreatExpectationsError:
        return ExpectationOutcome(expectation, False, how, error=f"Great Expectations has no {expectation.type}")
    single = any(base.__name__ in _ROW_BY_ROW for base in kind.__mro__)
    if not complete and (not single or any(word in expectation.type for word in _ACROSS_ROWS)):
        return ExpectationOutcome(
            expectation, False, how, error=f"it needs all rows of the run, and only a {how} was read"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas' and its own, of how it computes
            found = batch.validate(kind(**dict(expectation.kwargs))).to_json_dict()
    except (GreatExpectationsError, ValueError, TypeError, KeyError) as error:
        return ExpectationOutcome(expectation, False, how, error=f"{type(error).__name__}: {error}")
    found = json.loads(json.dumps(found, default=str))
    return ExpectationOutcome(
        expectation, bool(found["success"]), how, found["result"], _exception(found["exception_info"])
    )


def _exception(info: Mapping[str, Any]) -> str:
    """Return why it could not be judged: per expectation a flat dict, or one dict for each metric that failed."""
    each = [info] if "raised_exception" in info else list(info.values())
    return "; ".join(dict.fromkeys(str(e["exception_message"]) for e in each if e["raised_exception"]))
