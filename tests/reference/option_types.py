"""Types, defaults and units of options as a person reads them."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from databus.core.option_texts import exact_duration
from databus.core.spec import Spec

REQUIRED = object()
"""Default of an option that must be given."""

_PLAIN = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "True or False",
    Any: "anything",
    datetime: "datetime",
    timedelta: "timedelta",
    NoneType: "None",
}
_PARTS = {
    "SourceSpec": "source",
    "TransformSpec": "transform",
    "CheckSpec": "check",
    "SinkSpec": "sink",
    "AlertSpec": "alert",
    "Expectation": "expectation",
}
_SIGNS = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le"), Lt: ("<", "lt")}


def options_of(spec: type) -> Iterator[tuple[str, Any, Any, tuple[Any, ...]]]:
    """Yield each option of a class: its name, type, default and bounds."""
    if issubclass(spec, Spec) and set(spec.option_names()) == set(spec.model_fields):
        for name, field in spec.model_fields.items():
            if name not in spec.unused:
                default = REQUIRED if field.is_required() else field.get_default(call_default_factory=True)
                yield name, field.annotation, default, tuple(field.metadata)
        return
    hints = get_type_hints(spec.__init__, include_extras=True)
    for name, parameter in list(signature(spec).parameters.items()):
        default = REQUIRED if parameter.default is Parameter.empty else parameter.default
        yield name, hints.get(name, parameter.annotation), default, ()


def type_text(annotation: Any) -> str:  # noqa: PLR0911 - one for each form
    """Return a type in words: "whole number", `"a"` or `"b"`, "tuple of texts", "mapping of text to anything"."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_text(parts[0])
    if origin is Literal:
        return _one_of([f"`{part!r}`".replace("'", '"') for part in parts])
    if origin in (Union, UnionType):
        return _one_of(list(dict.fromkeys(type_text(part) for part in parts)))
    if origin is tuple:
        if parts[1:] != (...,):
            return f"({', '.join(type_text(part) for part in parts)})"
        inner = type_text(parts[0])
        return f"tuple of {inner if inner.startswith('(') else _several(inner)}"
    if origin is not None and issubclass(origin, Mapping):
        return f"mapping of {type_text(parts[0])} to {type_text(parts[1])}"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _one_of([f'`"{member.value}"`' for member in annotation])
    if isinstance(annotation, type) and annotation.__name__ in _PARTS:
        return _PARTS[annotation.__name__]
    return f"`{annotation.__name__}`" if isinstance(annotation, type) else str(annotation)


def _several(text: str) -> str:
    return text if text.startswith("`") or " or " in text else f"{text}s"


def _one_of(texts: list[str]) -> str:
    return " or ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def default_text(value: Any) -> str:  # noqa: PLR0911 - one for each form
    """Return a default as it would be written, a duration with its unit."""
    if isinstance(value, timedelta):
        return exact_duration(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool) or value is None:
        return f"`{value}`"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, str):
        return f'`"{value}"`' if value else '`""`'
    if isinstance(value, Spec):
        return "`" + _written(value) + "`"
    if isinstance(value, tuple | list) and value and all(isinstance(part, str) for part in value):
        texts = ", ".join(f'"{part.value if isinstance(part, enum.Enum) else part}"' for part in value)
        return f"`({texts}{',' if len(value) == 1 else ''})`"
    return f"`{value!r}`".replace("'", '"')


def _written(spec: Spec) -> str:
    """Return a spec as a person writes it, with what differs from its own defaults."""
    fields = type(spec).model_fields
    given = {
        n: getattr(spec, n) for n, f in fields.items() if getattr(spec, n) != f.get_default(call_default_factory=True)
    }
    return f"{type(spec).__name__}({', '.join(f'{name}={value:_}' for name, value in given.items())})"


def bounds_text(metadata: tuple[Any, ...]) -> str:
    """Return bounds of a number or duration: "≥ 1, ≤ 64"; "" for none."""
    found = []
    for item in metadata:
        for kind, (sign, name) in _SIGNS.items():
            if isinstance(item, kind):
                found.append(f"{sign} {default_text(getattr(item, name))}")
    return ", ".join(found)


def unit_text(name: str, annotation: Any) -> str:
    """Return the unit of a number's option by its name: "bytes", "rows per second"; "" where it counts plainly."""
    words = type_text(annotation)
    if "number" not in words or "tuple" in words or "mapping" in words:
        return ""
    parts = name.split("_")
    what = "bytes" if "bytes" in parts else "rows" if "rows" in parts else ""
    return f"{what} per second" if what and ("second" in parts or parts[-1] == "s") else what
