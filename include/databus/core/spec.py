"""Specs: the frozen config objects that a flow is made of. Building one does no I/O and resolves no connection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from databus.core.errors.config import ConfigError
from databus.core.former_names import at_caller, caller, warn_of_former
from databus.core.stored_options import StoredOption, as_stored, as_written, stored_options

__all__ = ["Spec", "at_caller", "caller", "config_error", "options_of"]


class Spec(BaseModel):
    """Spec of one configured source, transform, check, sink or flow.

    A bad option raises ConfigError with the file and line that wrote it and the options that exist. Durations are
    timedeltas; how an option is stored where that differs, a `StoredOption` beside it says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(StoredOption,))

    kind: ClassVar[str] = ""
    without_effect: ClassVar[frozenset[str]] = frozenset()
    """Options that say how rows are moved, or whether a batch goes on, and never what comes out."""

    _exact: dict[str, float] = PrivateAttr(default_factory=dict)

    def __init__(self, **options: Any):
        options, exact = _renamed(type(self), options)
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise config_error(type(self), error) from None
        self._exact.update(exact)

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names of all options, as a person writes them."""
        return tuple(cls.model_fields)

    @classmethod
    def from_stored(cls, options: Mapping[str, Any]) -> Self:
        """Return the spec of stored options: those of `to_json`, without the kind.

        Raises:
            ConfigError: an unknown or bad option.
        """
        written, exact = as_written(cls, options)
        made = cls(**written)
        made._exact.update(exact)
        return made

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some options changed, which may be given by stored names and in stored units."""
        written, exact = as_written(type(self), update or {})
        made = super().model_copy(update=written, deep=deep)
        if exact:
            made._exact = made._exact | exact  # noqa: SLF001 - of its own class
        return made

    def problem_with(self, **options: Any) -> str:
        """Return why these options cannot be set beside its others; "" when they can."""
        given = options_of(self.to_json()) | options
        try:
            type(self).from_stored(given)
        except ConfigError as error:
            return "; ".join(error.problems) or error.message
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain JSON with its kind; connections appear by id only."""
        return {"kind": self.kind, **self.stored()}

    def stored(self) -> dict[str, Any]:
        """Return the options as plain JSON, by stored names and in stored units."""
        return as_stored(self, self.model_dump(mode="json"))

    def deciding(self) -> Self:
        """Return it with all that decides no output at its default, so that most hashes of earlier plans stay."""
        fields = type(self).model_fields
        defaults = {name: fields[name].get_default(call_default_factory=True) for name in self.without_effect}
        return self.model_copy(update=defaults)

    def label(self) -> str:
        """Return a short text for graphs and logs."""
        return self.kind


def _renamed(spec: type[Spec], options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """Return options by their names of today; warn of former ones."""
    former = {name: how for name, how in stored_options(spec).items() if name in options}
    if not former:
        return options, {}
    where = caller()
    for name, how in former.items():
        if how.option in options:
            raise ConfigError(
                at_caller(f"{spec.__name__}: both {how.option} and {name} are given: they are one option"),
                hint=f"Leave {name} out: it is the former name.",
            )
        warn_of_former(spec.__name__, name, how.option, how.value_of(options[name]), where)
    return as_written(spec, options)


def config_error(model: type[BaseModel], error: ValidationError) -> ConfigError:
    """Turn pydantic's report into one ConfigError that names file, line and the known options."""
    names = model.option_names() if issubclass(model, Spec) else tuple(model.model_fields)
    options = ", ".join(sorted(names))
    problems = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            problems.append(f"unknown option {where!r}")
        elif item["type"] == "missing":
            problems.append(f"missing option {where!r}")
        elif item["type"] == "time_delta_type":
            problems.append(f"{where}={item['input']!r}: a timedelta is wanted, e.g. {where}=timedelta(seconds=30)")
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
