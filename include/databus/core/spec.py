"""Specs: the frozen config objects that a flow is made of. Building one does no I/O and resolves no connection."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from databus.core.errors.config import ConfigError

_PACKAGE = f"{Path(__file__).resolve().parent.parent}{os.sep}"
_UNKNOWN = "<unknown>"


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

    def problem_with(self, **options: Any) -> str:
        """Return why these options cannot be set beside its others; "" when they can."""
        given = options_of(self.to_json()) | options
        try:
            type(self)(**given)
        except ConfigError as error:
            return "; ".join(error.problems) or error.message
        return ""

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
    """Return `file:line` of the nearest line that a user wrote; "<unknown>" where a library or a command called."""
    paths = sysconfig.get_paths()
    libraries = tuple(f"{paths[name]}{os.sep}" for name in ("purelib", "platlib", "stdlib"))
    programs = f"{paths['scripts']}{os.sep}"
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to look at the stack cheaply
    while frame is not None:
        name = frame.f_code.co_filename
        # The top level of an installed module is one's own flow file; its functions call us as typer does.
        foreign = name.startswith(libraries) and frame.f_code.co_name != "<module>"
        if not (foreign or name.startswith((_PACKAGE, "<frozen", programs)) or "/pydantic/" in name):
            return f"{name}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return _UNKNOWN


def at_caller(text: str) -> str:
    """Return a text with the line that a user wrote before it; without one where none is known."""
    where = caller()
    return text if where == _UNKNOWN else f"{where}: {text}"


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
        elif item["type"] == "tuple_type" and isinstance(item["input"], str):
            given = json.dumps(item["input"], ensure_ascii=False)
            problems.append(f"{where} is one text, and a tuple of them is wanted: {where}=({given},)")
        else:
            said = item["msg"].removeprefix("Value error, ")
            problems.append(f"{where}: {said}" if where else said)
    problems = list(dict.fromkeys(problems))
    told = ConfigError(
        at_caller(f"{model.__name__}: {'; '.join(problems)}"), hint=f"{model.__name__} takes: {options}."
    )
    told.problems = tuple(problems)
    return told


def options_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec's options from its JSON, without the kind."""
    return {name: value for name, value in data.items() if name != "kind"}
