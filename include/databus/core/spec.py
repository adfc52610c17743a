"""Specs: the frozen config objects that a flow is made of. Building one does no I/O and resolves no connection."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from inspect import get_annotations
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from databus.core.errors.config import ConfigError
from databus.core.former_names import at_caller, caller, value_of_former, warn_of_former
from databus.core.option_texts import with_inherited
from databus.core.stored_options import StoredOption, as_stored, as_written, loose_durations, stored_options

__all__ = ["Spec", "at_caller", "caller", "config_error", "options_of", "problems_as_of"]

_FIRST_NAME = re.compile(r"^\w+")


class Spec(BaseModel):
    """Spec of one configured source, transform, check, sink or flow.

    A bad option raises ConfigError with the file and line that wrote it and the options that exist. Durations are
    timedeltas; how an option is stored where that differs, a `StoredOption` beside it says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(StoredOption,))

    kind: ClassVar[str] = ""
    without_effect: ClassVar[frozenset[str]] = frozenset()
    """Options that say how rows are moved, or whether a batch goes on, and never what comes out."""
    unused: ClassVar[frozenset[str]] = frozenset()
    """Options of the base class that the kind does not use."""
    former_values: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """Option → its stored value → the value that a person writes, where they differ."""

    _exact: dict[str, float] = PrivateAttr(default_factory=dict)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _refuse_former_overrides(cls)

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Add the base's options to the docstring, for `help()`."""
        super().__pydantic_init_subclass__(**options)
        cls.__doc__ = with_inherited(cls, [name for name in cls.option_names() if name not in cls.unused])

    def __init__(self, **options: Any):
        options, exact = _renamed(type(self), options)
        bare = _bare_durations(type(self), options)
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise config_error(type(self), error, bare) from None
        if bare:
            raise _options_error(type(self), bare)
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
        for name in loose_durations(cls) & written.keys():
            if isinstance(written[name], int | float):
                written[name] = timedelta(seconds=written[name])
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
    """Return options by their names and values of today; warn of former ones."""
    options = {
        name: value_of_former(spec.__name__, name, value, spec.former_values.get(name, {}))
        for name, value in options.items()
    }
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


def _refuse_former_overrides(spec: type[Spec]) -> None:
    """Refuse a class that overrides an option of its base under a former name: nothing would read it."""
    former = {name: how for base in spec.__bases__ for name, how in stored_options(base).items()}
    for name in sorted(former.keys() & {*vars(spec), *get_annotations(spec)}):
        if not isinstance(vars(spec).get(name), StoredOption):
            now = former[name].option
            raise ConfigError(
                at_caller(f"{spec.__name__}: {name} is the former name of {now}, and overrides nothing"),
                hint=f"Override {now}.",
            )


def _bare_durations(spec: type[Spec], options: Mapping[str, Any]) -> list[str]:
    """Return the problems of durations that are bare numbers, which pydantic would take as seconds."""
    return [
        _no_duration(name, options[name])
        for name in sorted(loose_durations(spec) & options.keys())
        if isinstance(options[name], int | float)
    ]


def _no_duration(where: str, value: Any) -> str:
    return f"{where}={value!r}: a timedelta is wanted, e.g. {where}=timedelta(seconds=30)"


def config_error(model: type[BaseModel], error: ValidationError, others: Sequence[str] = ()) -> ConfigError:
    """Turn pydantic's report into one ConfigError that names file, line and the known options.

    Args:
        model: class of the spec.
        error: pydantic's report.
        others: further problems of its options.
    """
    problems = [*others]
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            problems.append(f"unknown option {where!r}")
        elif item["type"] == "missing":
            problems.append(f"missing option {where!r}")
        elif item["type"] == "time_delta_type":
            problems.append(_no_duration(where, item["input"]))
        elif item["type"] == "tuple_type" and isinstance(item["input"], str):
            given = json.dumps(item["input"], ensure_ascii=False)
            problems.append(f"{where} is one text, and a tuple of them is wanted: {where}=({given},)")
        elif item["type"] == "literal_error" and isinstance(item["input"], str | int | float | None):
            problems.append(f"{where}={item['input']!r}: {item['msg']}")
        else:
            said = item["msg"].removeprefix("Value error, ")
            problems.append(f"{where}: {said}" if where else said)
    return _options_error(model, problems)


def _options_error(model: type[BaseModel], problems: Sequence[str]) -> ConfigError:
    """Return the error about options of a class, each problem once."""
    names = model.option_names() if issubclass(model, Spec) else tuple(model.model_fields)
    found = tuple(dict.fromkeys(problems))
    error = ConfigError(
        at_caller(f"{model.__name__}: {'; '.join(found)}"), hint=f"{model.__name__} takes: {', '.join(sorted(names))}."
    )
    error.problems = found
    return error


@contextmanager
def problems_as_of(spec: type[Spec], names: Mapping[str, str]) -> Iterator[None]:
    """Raise an error about options of an inner spec as one about those of the spec that makes it.

    Args:
        spec: class of the outer spec.
        names: option of the inner spec → the outer's option, where they differ.
    """
    try:
        yield
    except ConfigError as error:
        if not error.problems:
            raise
        problems = [_FIRST_NAME.sub(lambda found: names.get(found[0], found[0]), text, 1) for text in error.problems]
        raise _options_error(spec, problems) from None


def options_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec's options from its JSON, without the kind."""
    return {name: value for name, value in data.items() if name != "kind"}
