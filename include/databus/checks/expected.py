"""Great Expectations' expectations as row checks of the path: which of them are judged row by row as rows pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import SerializeAsAny

from databus.checks.accepted_values import AcceptedValues
from databus.checks.expected_rules import Between, IsNull, Matches, RefusedValues, TextLength
from databus.checks.not_null import NotNull
from databus.checks.row_check import RowCheck
from databus.core.errors.config import ConfigError
from databus.core.expectations import BY_ROW, MISSING, Action, Expectation
from databus.core.flow import Flow
from databus.core.tables.schemas import ColumnSchema
from databus.rows.frames.fields import Field
from databus.rows.frames.selection import EVERY_TABLE

if TYPE_CHECKING:
    from databus.rows.violations import ColumnValues, Mask

Arguments = Mapping[str, Any]
ROWS = "expect_table_row_count_to_be_between", "expect_table_row_count_to_equal"
"""Judged by the run's counts alone."""
PROPORTION = "expect_column_proportion_of_non_null_values_to_be_between"


class ExpectedRow(RowCheck):
    """A row check that an expectation stands behind.

    Attributes:
        name: the expectation's name; it is the check's.
        rule: what judges a value.
    """

    kind: ClassVar[str] = BY_ROW

    name: str
    rule: SerializeAsAny[RowCheck]

    @property
    def check_name(self) -> str:
        """The expectation's name."""
        return self.name

    def reads(self, column: ColumnSchema) -> bool:
        """Return whether the rule can judge a column of this type without Spark."""
        return self.rule.reads(column)

    def violated_when(self, field: Field) -> str:
        """The rule's."""
        return self.rule.violated_when(field)

    def violated_by(self, values: ColumnValues) -> Mask:
        """The rule's."""
        return self.rule.violated_by(values)


class Missing(ExpectedRow):
    """Counts the NULLs of a column, which `mostly` leaves out of the share that it bounds."""

    kind: ClassVar[str] = MISSING


def row_rule(expectation: Expectation) -> RowCheck | None:
    """Return what judges a value of the expectation's column; None where it is not judged row by row.

    Raises:
        ConfigError: an argument has a value that it cannot have.
    """
    make = _RULES.get(expectation.type)
    kwargs = {k: v for k, v in expectation.kwargs.items() if k not in ("column", "mostly")}
    column = expectation.kwargs.get("column")
    if make is None or not isinstance(column, str) or set(kwargs) - _ARGUMENTS[expectation.type]:
        return None
    try:
        return make(column, kwargs)
    except (KeyError, TypeError, IndexError) as error:
        raise ConfigError(
            f"{expectation.name}: {type(error).__name__}: {error}",
            hint=f"It takes {', '.join(sorted(_ARGUMENTS[expectation.type])) or 'only a column'}.",
            code="expectation_arguments",
        ) from error


def is_by_counts(expectation: Expectation) -> bool:
    """Return whether an expectation is judged by the run's counts of rows."""
    return expectation.type in ROWS and not set(expectation.kwargs) - {
        "min_value", "max_value", "strict_min", "strict_max", "value",
    }  # fmt: skip


def expected_checks(flow: Flow) -> tuple[ExpectedRow, ...]:
    """Return the row checks that a flow's expectations ask for, in their order.

    Raises:
        ConfigError: an expectation is to hold back rows and does not judge single rows.
    """
    found: list[ExpectedRow] = []
    missing: dict[str, ExpectedRow] = {}
    for expectation in flow.expectations:
        rule = row_rule(expectation)
        if rule is None or expectation.type == PROPORTION:
            _require_no_rows(flow, expectation)
        if rule is None:
            continue
        tables = tables_of(flow, expectation)
        if expectation.type != PROPORTION:
            severity = _severity(expectation)
            row = ExpectedRow(column=rule.column, name=expectation.name, severity=severity, tables=tables, rule=rule)
            found.append(row)
        if counts_missing(expectation):
            name = missing_name(expectation)
            of_column = NotNull(column=rule.column)
            missing[name] = Missing(column=rule.column, name=name, severity="warn", tables=tables, rule=of_column)
    return (*found, *missing.values())


def tables_of(flow: Flow, expectation: Expectation) -> tuple[str, ...]:
    """Return the patterns of the tables whose rows an expectation is about: its own, or the source's."""
    return expectation.tables or tuple(flow.source.datasets()) or EVERY_TABLE


def counts_missing(expectation: Expectation) -> bool:
    """Return whether judging it takes the number of NULLs: `mostly` bounds a share of the values that are there."""
    return expectation.type == PROPORTION or (expectation.mostly < 1 and expectation.type not in _OF_NULLS)


def missing_name(expectation: Expectation) -> str:
    """Return the name of the check that counts the NULLs of an expectation's column."""
    tables = f"@{','.join(expectation.tables)}" if expectation.tables else ""
    return f"missing({expectation.kwargs['column']}){tables}"


def _severity(expectation: Expectation) -> Action:
    """Return what the path does with a row; a share below one is known when the run is over, and fails its audit."""
    return expectation.action if expectation.action != "fail" or expectation.mostly >= 1 else "warn"


def _require_no_rows(flow: Flow, expectation: Expectation) -> None:
    if expectation.action == "quarantine":
        raise ConfigError(
            f"flow {flow.name}: {expectation.name} cannot hold back rows: it is not judged row by row",
            hint=f'Use action="warn" or "fail". Judged row by row: {", ".join(sorted(set(_RULES) - {PROPORTION}))}, '
            "without row_condition and other arguments than their bounds.",
            code="expectation_not_by_row",
        )


def _pattern(column: str, kwargs: Arguments, key: str, *, negated: bool = False) -> RowCheck:
    patterns = kwargs[key] if isinstance(kwargs[key], (list, tuple)) else (kwargs[key],)
    return Matches(column=column, patterns=tuple(patterns), match_on=kwargs.get("match_on", "any"), negated=negated)


def _between(column: str, k: Arguments) -> RowCheck:
    bounds: dict[str, Any] = {"minimum": k.get("min_value"), "maximum": k.get("max_value")}
    strict: dict[str, Any] = {name: bool(k.get(name)) for name in ("strict_min", "strict_max")}
    return Between(column=column, **{name: bound for name, bound in bounds.items() if bound is not None}, **strict)


def _length(column: str, k: Arguments) -> RowCheck:
    strict: dict[str, Any] = {name: bool(k.get(name)) for name in ("strict_min", "strict_max")}
    return TextLength(column=column, least=k.get("min_value", 0), most=k.get("max_value"), **strict)


_BOUNDS = frozenset({"min_value", "max_value", "strict_min", "strict_max"})
_SET = frozenset({"value_set"})
_LIST = frozenset({"regex_list", "match_on"})
_KNOWN: Mapping[str, tuple[frozenset[str], Callable[[str, Arguments], RowCheck]]] = {
    "expect_column_values_to_not_be_null": (frozenset(), lambda c, _: NotNull(column=c)),
    PROPORTION: (_BOUNDS, lambda c, _: NotNull(column=c)),
    "expect_column_values_to_be_null": (frozenset(), lambda c, _: IsNull(column=c)),
    "expect_column_values_to_be_between": (_BOUNDS, _between),
    "expect_column_values_to_be_in_set": (_SET, lambda c, k: AcceptedValues(column=c, values=tuple(k["value_set"]))),
    "expect_column_distinct_values_to_be_in_set": (
        _SET,
        lambda c, k: AcceptedValues(column=c, values=tuple(k["value_set"])),
    ),
    "expect_column_values_to_not_be_in_set": (_SET, lambda c, k: RefusedValues(column=c, values=tuple(k["value_set"]))),
    "expect_column_value_lengths_to_be_between": (_BOUNDS, _length),
    "expect_column_value_lengths_to_equal": (
        frozenset({"value"}),
        lambda c, k: TextLength(column=c, least=k["value"], most=k["value"]),
    ),
    "expect_column_values_to_match_regex": (frozenset({"regex"}), lambda c, k: _pattern(c, k, "regex")),
    "expect_column_values_to_not_match_regex": (
        frozenset({"regex"}),
        lambda c, k: _pattern(c, k, "regex", negated=True),
    ),
    "expect_column_values_to_match_regex_list": (_LIST, lambda c, k: _pattern(c, k, "regex_list")),
    "expect_column_values_to_not_match_regex_list": (
        frozenset({"regex_list"}),
        lambda c, k: _pattern(c, k, "regex_list", negated=True),
    ),
}
_RULES = {name: make for name, (_, make) in _KNOWN.items()}
_ARGUMENTS = {name: arguments for name, (arguments, _) in _KNOWN.items()}
_OF_NULLS = frozenset({"expect_column_values_to_not_be_null", "expect_column_values_to_be_null"})
