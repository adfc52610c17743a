"""Rows as dataclasses and pydantic models: a column's value becomes what the field's annotation says."""

from __future__ import annotations

import base64
import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from databus.consumer.json_text import parsed
from databus.core.errors.consumer import RowTypeError

if TYPE_CHECKING:
    from databus.consumer.change import Change, Form, Row

_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_FIRST_DAY = date(1970, 1, 1)
_UNTOLD = "its type cannot be told from Debezium's value without a schema: write schemas=True, or databus's own types"


class _Misfit(ValueError):  # noqa: N818 - never leaves this module
    """Value that does not become what a field says."""


def typed_row(values: Row, kind: type[Any], change: Change) -> Any:
    """Return a row as a class.

    Raises:
        RowTypeError: a column is absent that the class needs, or a value does not fit.
    """
    fields = _fields(kind)  # type: ignore[arg-type]  # a class is hashable
    found = {}
    for name, (column, annotation) in fields.items():
        if column in values:
            try:
                found[name] = _converted(values[column], annotation, change.form)
            except (ValueError, TypeError, ArithmeticError, OverflowError) as error:
                why = error if isinstance(error, _Misfit) else "the value does not fit"
                told = f"{change.table}.{column} of {change.event_id} is no {_named(annotation)}"
                raise RowTypeError(f"{told}: {why} (a {type(values[column]).__name__})") from None
    return _made(kind, found, change)


def _made(kind: type[Any], found: Mapping[str, Any], change: Change) -> Any:
    if dataclasses.is_dataclass(kind):
        required = [
            f.name
            for f in dataclasses.fields(kind)
            if f.init and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        ]
        if absent := [name for name in required if name not in found]:
            raise RowTypeError(f"{change.table} of {change.event_id} has no column {', '.join(absent)}")
        return kind(**found)
    from pydantic import ValidationError

    try:
        return kind(**found)
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5])
        raise RowTypeError(f"{change.table} of {change.event_id} is no {kind.__name__}: {told}") from None


@lru_cache(1000)
def _fields(kind: type[Any]) -> dict[str, tuple[str, Any]]:
    """Return name of an argument → (column, annotation)."""
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return {field.name: (field.name, hints[field.name]) for field in dataclasses.fields(kind) if field.init}
    if hasattr(kind, "model_fields"):
        return {
            field.alias or name: (field.alias or name, field.annotation) for name, field in kind.model_fields.items()
        }
    raise RowTypeError(f"{kind!r} is neither a dataclass nor a pydantic model")


def _named(annotation: Any) -> str:
    return getattr(annotation, "__name__", str(annotation))


def _converted(value: Any, annotation: Any, form: Form) -> Any:
    origin = get_origin(annotation)
    if origin is typing.Annotated:
        return _converted(value, get_args(annotation)[0], form)
    if origin in (Union, types.UnionType):
        return _of_union(value, get_args(annotation), form)
    if value is None:
        if annotation in (None, type(None), Any):
            return None
        raise _Misfit("it is NULL")
    convert = _CONVERTS.get(origin or annotation)
    return value if convert is None else convert(value, form)


def _of_union(value: Any, kinds: tuple[Any, ...], form: Form) -> Any:
    if value is None and type(None) in kinds:
        return None
    errors = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return _converted(value, kind, form)
            except (ValueError, TypeError, ArithmeticError) as error:
                errors.append(error)
    raise errors[0]


def _integer(value: Any, _: Form) -> int:
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, bytes):
        return int.from_bytes(value, "little")  # BIT(n) of Debezium, the lowest byte first
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    raise _Misfit("it is no whole number")


def _decimal(value: Any, form: Form) -> Decimal:
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        return Decimal(value)
    if form == "debezium":
        raise _Misfit(_UNTOLD)
    if isinstance(value, str):
        return Decimal(value)
    raise _Misfit("it is no number")


def _float(value: Any, form: Form) -> float:
    return float(_decimal(value, form))


def _boolean(value: Any, _: Form) -> bool:
    if value in (0, 1):
        return bool(value)
    raise _Misfit("it is neither 0 nor 1")


def _bytes(value: Any, form: Form) -> bytes:
    if isinstance(value, bytes):
        return value
    if form == "debezium":
        raise _Misfit(_UNTOLD)
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    raise _Misfit("it is neither bytes nor base64")


def _text(value: Any, _: Form) -> str:
    if isinstance(value, str):
        return value
    raise _Misfit("it is no text")


def _date(value: Any, form: Form) -> date:
    if isinstance(value, datetime):
        raise _Misfit("it has a time")
    if isinstance(value, date):
        return value
    if form == "debezium" and isinstance(value, int):
        return _FIRST_DAY + timedelta(days=value)
    return date.fromisoformat(value)


def _datetime(value: Any, form: Form) -> datetime:
    if isinstance(value, datetime):
        return value
    if form == "debezium" and isinstance(value, int):
        raise _Misfit(_UNTOLD)
    return datetime.fromisoformat(value)


def _timedelta(value: Any, form: Form) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if form == "debezium" and isinstance(value, int):
        return timedelta(microseconds=value)
    found = _TIME.fullmatch(value)
    if found is None:
        raise _Misfit("it is no TIME")
    sign, hours, minutes, seconds, fraction = found.groups()
    span = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds))
    span += timedelta(microseconds=int((fraction or "0").ljust(6, "0")))
    return -span if sign else span


def _time(value: Any, form: Form) -> time:
    span = _timedelta(value, form)
    if not timedelta(0) <= span < timedelta(days=1):
        raise _Misfit("it is no time of a day: take timedelta")
    return (datetime(1970, 1, 1) + span).time()  # noqa: DTZ001 - a TIME has no zone


def _document(value: Any, _: Form) -> Any:
    return parsed(value) if isinstance(value, str) else value


_CONVERTS: Mapping[Any, Callable[[Any, Form], Any]] = {
    int: _integer, Decimal: _decimal, float: _float, bool: _boolean, bytes: _bytes, str: _text, date: _date,
    datetime: _datetime, time: _time, timedelta: _timedelta, dict: _document, list: _document,
}  # fmt: skip
"""Annotation → what makes it of a value; other annotations take the value as it is."""
