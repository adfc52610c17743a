"""Row rules that Great Expectations has and that are no kinds of their own: each judges one column, in both lanes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Literal

import pydantic

from databus.checks.accepted_values import AcceptedValues
from databus.checks.in_range import InRange
from databus.checks.row_check import RowCheck, has_value, is_text, literal
from databus.core.tables.schemas import ColumnSchema
from databus.rows.frames.fields import Field, sql_string

if TYPE_CHECKING:
    from databus.rows.violations import ColumnValues, Mask

_SHARED = re.compile(
    r"(?:(?:[^\\$.^|?*+(){}\[\]]"  # a character that stands for itself
    r"|\\[.^$|?*+(){}\[\]\\/\-]|\\[dwDW]"  # one that is escaped, or an ASCII class
    r"|\[\^?(?:[^\\\[\]&~^-]|\\[\]\[\\\-^.$|?*+(){}/]|\\[dw]|[A-Za-z0-9]-[A-Za-z0-9])+\]"
    r"|[.)])(?:[?*+]\??|\{\d{1,3}(?:,\d{0,3})?\})?"
    r"|[(|^])*\$?"
)
"""Patterns that mean the same to Spark (Java) and Arrow (RE2); \\s, \\b, flags and look-around do not."""


class IsNull(RowCheck):
    """The column is NULL."""

    kind: ClassVar[str] = "is_null"

    def violated_when(self, field: Field) -> str:
        """A value, typed or not."""
        return has_value(field)

    def violated_by(self, values: ColumnValues) -> Mask:
        """A value, typed or not."""
        return values.given


class Between(InRange):
    """InRange whose bounds may be left out of the range.

    Attributes:
        strict_min: whether the minimum itself is outside.
        strict_max: whether the maximum itself is outside.
    """

    strict_min: bool = False
    strict_max: bool = False

    def violated_when(self, field: Field) -> str:
        """Not NULL and outside, or on a strict bound."""
        on = [
            f"coalesce({field.typed('after')} = {literal(bound, field.column.spark_type)}, false)"
            for bound, strict in ((self.minimum, self.strict_min), (self.maximum, self.strict_max))
            if strict and bound is not None
        ]
        outside = super().violated_when(field)
        return " OR ".join([f"({outside})", *(f"({has_value(field)} AND {each})" for each in on)])

    def violated_by(self, values: ColumnValues) -> Mask:
        """Not NULL and outside, or on a strict bound."""
        from databus.checks.arrow_bounds import is_one_of

        outside = super().violated_by(values)
        for bound, strict in ((self.minimum, self.strict_min), (self.maximum, self.strict_max)):
            if strict and bound is not None:
                outside |= values.given & is_one_of(values.array, (bound,), values.column)
        return outside


class RefusedValues(AcceptedValues):
    """The column's value is none of `values`."""

    def violated_when(self, field: Field) -> str:
        """Return the rule by which an expectation is violated: one of the values."""
        listed = ", ".join(literal(value, field.column.spark_type) for value in self.values)
        return f"{has_value(field)} AND coalesce({field.typed('after')} IN ({listed}), false)"

    def violated_by(self, values: ColumnValues) -> Mask:
        """Return the rule by which a row violates it: one of the values."""
        from databus.checks.arrow_bounds import is_one_of

        return values.given & is_one_of(values.array, self.values, values.column)


class _TextRule(RowCheck):
    """Base of rules on text; a value that is no text violates."""

    def reads(self, column: ColumnSchema) -> bool:
        """Return whether it is a text column."""
        from databus.checks.arrow_bounds import can_compare

        return can_compare(("",), column)

    def violated_when(self, field: Field) -> str:
        """Not NULL, and no text or a text that does not do."""
        does = self._met(f"CAST({field.typed('after')} AS STRING)")
        return f"{has_value(field)} AND NOT coalesce({is_text(field)} AND {does}, false)"

    def _met(self, text: str) -> str:
        raise NotImplementedError


class TextLength(_TextRule):
    """The text has between `least` and `most` characters (code points)."""

    kind: ClassVar[str] = "text_length"

    least: int = 0
    most: int | None = None
    strict_min: bool = False
    strict_max: bool = False

    def _met(self, text: str) -> str:
        bounds = [f"length({text}) {'>' if self.strict_min else '>='} {self.least}"]
        if self.most is not None:
            bounds.append(f"length({text}) {'<' if self.strict_max else '<='} {self.most}")
        return " AND ".join(bounds)

    def violated_by(self, values: ColumnValues) -> Mask:
        """Not NULL, and no text or too short or long."""
        import numpy as np
        import pyarrow.compute as pc

        length = np.asarray(pc.fill_null(pc.utf8_length(values.array), 0))
        inside = (length > self.least if self.strict_min else length >= self.least) & ~values.untyped
        if self.most is not None:
            inside &= length < self.most if self.strict_max else length <= self.most
        return values.given & ~inside


class Matches(_TextRule):
    """The text contains matches of regular expressions, in Java's dialect as Great Expectations on Spark takes them.

    Attributes:
        patterns: the expressions.
        match_on: whether "any" or "all" of them must be found.
        negated: whether none (of any), or not all of them, may be found instead.
    """

    kind: ClassVar[str] = "matches"

    patterns: tuple[str, ...] = pydantic.Field(min_length=1)
    match_on: Literal["any", "all"] = "any"
    negated: bool = False

    def reads(self, column: ColumnSchema) -> bool:
        """Return whether it is a text column, and the expressions mean the same to Arrow."""
        return super().reads(column) and all(map(is_shared, self.patterns))

    def _met(self, text: str) -> str:
        # (?d): only \n ends a line for `.` and `$`, as it is for Arrow.
        found = [f"rlike({text}, {sql_string(f'(?d){pattern}')})" for pattern in self.patterns]
        joined = (" OR " if self.match_on == "any" else " AND ").join(found)
        return f"NOT ({joined})" if self.negated else f"({joined})"

    def violated_by(self, values: ColumnValues) -> Mask:
        """Not NULL, and no text or one that does not do."""
        import numpy as np
        import pyarrow.compute as pc

        masks = [
            np.asarray(pc.fill_null(pc.match_substring_regex(values.array, pattern=_for_arrow(pattern)), False))
            for pattern in self.patterns
        ]
        reduced = np.logical_or.reduce(masks) if self.match_on == "any" else np.logical_and.reduce(masks)
        found: Mask = reduced.astype(np.bool_)
        return values.given & ~((found ^ self.negated) & ~values.untyped)


def is_shared(pattern: str) -> bool:
    """Return whether a regular expression means the same to Spark and to Arrow."""
    if not _SHARED.fullmatch(pattern) or "(?" in pattern or ("|" in pattern and pattern.endswith("$")):
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _for_arrow(pattern: str) -> str:
    r"""Return a shared pattern as RE2 takes it: a `$` at its end also stands before a last \n."""
    ends = pattern.endswith("$") and not pattern.endswith(r"\$")
    return rf"{pattern[:-1]}\n?\z" if ends else pattern
