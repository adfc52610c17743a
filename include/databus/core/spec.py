"""Specs: the frozen config objects that a flow is made of. Building one does no I/O and resolves no connection."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from databus.core.errors import ConfigError

_PACKAGE = f"{Path(__file__).resolve().parent.parent}{os.sep}"


class Spec(BaseModel):
    """One configured source, transform, check, sink or flow.

    A bad option raises ConfigError with the file and line that wrote it and the options that exist.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str] = ""
    without_effect: ClassVar[frozenset[str]] = frozenset()
    """Options that say how rows are moved, or whether a batch goes on, and never what comes out."""

    def __init__(self, **options: Any):
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise config_error(type(self), error) from None

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain JSON with its kind; connections appear by id only."""
        return {"kind": self.kind, **self.model_dump(mode="json")}

    def deciding(self) -> Self:
        """Return it with all that decides no output at its default, so that most hashes of earlier plans stay."""
        fields = type(self).model_fields
        defaults = {name: fields[name].get_default(call_default_factory=True) for name in self.without_effect}
        return self.model_copy(update=defaults)

    def label(self) -> str:
        """Return a short text for graphs and logs."""
        return self.kind


def caller() -> str:
    """Return `file:line` of the nearest frame outside this package: the line a user wrote."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to look at the stack cheaply
    while frame is not None:
        name = frame.f_code.co_filename
        inside = name.startswith((_PACKAGE, "<frozen")) or "/pydantic/" in name
        if not inside:
            return f"{name}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "<unknown>"


def config_error(model: type[BaseModel], error: ValidationError) -> ConfigError:
    """Turn pydantic's report into one ConfigError that names file, line and the known options."""
    options = ", ".join(sorted(name for name in model.model_fields))
    problems = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            problems.append(f"unknown option {where!r}")
        elif item["type"] == "missing":
            problems.append(f"missing option {where!r}")
        else:
            said = item["msg"].removeprefix("Value error, ")
            problems.append(f"{where}: {said}" if where else said)
    return ConfigError(
        f"{caller()}: {model.__name__}: {'; '.join(dict.fromkeys(problems))}",
        hint=f"{model.__name__} takes: {options}.",
    )


def options_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec's options from its JSON, without the kind."""
    return {name: value for name, value in data.items() if name != "kind"}
