"""Stored names and units of options: a flow writes `timeout=timedelta(seconds=5)`, its JSON says `"timeout_s": 5.0`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from types import UnionType
from typing import Annotated, Any, Generic, Self, TypeVar, Union, get_args, get_origin, overload

from pydantic import BaseModel, Strict

Duration = Annotated[timedelta, Strict()]
"""A duration that a person writes: a timedelta, and no bare number, whose unit nobody sees."""

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
ZERO = timedelta(0)

T = TypeVar("T")


class StoredOption(Generic[T]):
    """Stored form of an option: `timeout_s: ClassVar = StoredOption[float]("timeout", SECOND)` in the spec's class.

    Its name stands in JSON, and is accepted from a person for one version, with a warning. Inside, `spec.timeout_s`
    reads the number.

    Args:
        option: name of the option, as a person writes it.
        unit: what the number counts, where the option is a duration; None where only the name differs.
        whole: whether the number is an integer where the duration is a whole number of units.
    """

    def __init__(self, option: str, unit: timedelta | None = None, *, whole: bool = False) -> None:
        self.option, self.unit, self.whole = option, unit, whole
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, spec: None, owner: type) -> Self: ...
    @overload
    def __get__(self, spec: object, owner: type) -> T: ...
    def __get__(self, spec: object | None, owner: type) -> Self | T:
        if spec is None:
            return self
        value: Any = getattr(spec, self.option)
        if self.unit is None or value is None:
            return value  # type: ignore[no-any-return]
        exact: Any = spec._exact.get(self.option)  # type: ignore[attr-defined]  # noqa: SLF001 - the spec's own table
        if exact is not None and self.value_of(exact) == value:
            return exact  # type: ignore[no-any-return]
        found: Any = value // self.unit if self.whole and value % self.unit == ZERO else value / self.unit
        return found  # type: ignore[no-any-return]

    def value_of(self, number: Any) -> Any:
        """Return the option's value for a stored number; what is no number stays, and is refused with the others."""
        if self.unit is None or number is None or isinstance(number, timedelta):
            return number
        try:
            amount = float(number)
            value = timedelta.max if math.isinf(amount) else self.unit * amount
            return timedelta.resolution if amount > 0 and value == ZERO else value
        except OverflowError:
            return timedelta.max
        except (TypeError, ValueError):
            return number

    def exact(self, number: Any) -> float | None:
        """Return a number that a timedelta does not hold as it is (finer than 1 µs, infinite), None of others."""
        value = self.value_of(number)
        if self.unit is None or isinstance(number, timedelta) or not isinstance(value, timedelta):
            return None
        return float(number) if value / self.unit != float(number) else None


@cache
def loose_durations(spec: type[BaseModel]) -> frozenset[str]:
    """Return the options, of a spec's class, that pydantic would make of a bare number: a plain timedelta, or None."""
    return frozenset(name for name, field in spec.model_fields.items() if _is_loose(field.annotation, field.metadata))


def _is_loose(annotation: Any, metadata: Sequence[Any] = ()) -> bool:
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _is_loose(inner, (*metadata, *more))
    if get_origin(annotation) in (Union, UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        return all(_is_loose(part, metadata) for part in parts)
    return annotation is timedelta and not any(isinstance(item, Strict) and item.strict for item in metadata)


@cache
def stored_options(spec: type) -> Mapping[str, StoredOption[Any]]:
    """Return stored name → how it is stored, of a spec's class."""
    found = [item for base in reversed(spec.__mro__) for item in vars(base).values() if isinstance(item, StoredOption)]
    return {item.name: item for item in found}


def as_written(spec: type, stored: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """Return options under their own names, and numbers that a timedelta does not hold.

    Args:
        spec: class of the spec.
        stored: options by stored names or their own.
    """
    known, former = stored_options(spec), getattr(spec, "former_values", {})
    options, exact = {}, {}
    for name, value in stored.items():
        how = known.get(name)
        option, written = (how.option, how.value_of(value)) if how else (name, value)
        options[option] = former.get(option, {}).get(written, written) if isinstance(written, str) else written
        if how and (number := how.exact(value)) is not None:
            exact[how.option] = number
    return options, exact


def as_stored(spec: Any, dumped: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec's dumped options by stored names and in stored units, in their order."""
    by_option = {how.option: how for how in stored_options(spec.__class__).values()}
    former = getattr(spec, "former_values", {})
    found: dict[str, Any] = {}
    for name, written in dumped.items():
        how = by_option.get(name)
        stored = {now: then for then, now in former.get(name, {}).items()}
        value = stored.get(written, written) if isinstance(written, str) else written
        if how is None:
            found[name] = value
        else:
            found[how.name] = value if how.unit is None else how.__get__(spec, type(spec))
    return found
