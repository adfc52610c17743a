"""Option groups: a parameter that is a dataclass becomes one option for each of its fields."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_args, get_type_hints

from typer.models import OptionInfo

_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+)$")


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with its option groups spread out, so that typer sees every option.

    A group is a frozen dataclass; each field that is `Annotated` with one of typer's options becomes an option, with
    its text from there or from the "Attributes" of the class's docstring. The command gets the group filled in.

    Raises:
        TypeError: two groups of the command have an option of one name.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {}
    spread: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if isinstance(hints[name], type) and is_dataclass(hints[name]):
            groups[name] = hints[name]
            found = list(_options(hints[name]))
        else:
            found = [parameter.replace(annotation=hints[name])]
        for each in found:
            if each.name in spread:
                raise TypeError(f"two options are called {each.name!r}")
            spread[each.name] = each
    parameters = sorted(spread.values(), key=lambda each: each.kind)

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in _options(group)})
        command(**given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _options(group: type[Any]) -> Iterator[inspect.Parameter]:
    """Yield the options of a group, as keyword parameters."""
    hints, texts = get_type_hints(group, include_extras=True), _attributes(group)
    for field in fields(group):
        kind, *marks = get_args(hints[field.name]) or (None,)
        option = next((copy(mark) for mark in marks if isinstance(mark, OptionInfo)), None)
        if option is None:
            continue
        option.help = option.help or texts.get(field.name)
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        annotation: Any = Annotated[kind, option]
        yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _attributes(group: type[Any]) -> dict[str, str]:
    """Return field → its text, from the part "Attributes" of a docstring; each begins with a capital letter."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(group.__doc__ or "").partition("Attributes:\n")[2].splitlines():
        if begun := _ATTRIBUTE.match(line):
            name, text = begun.groups()
            found[name] = f"{text[0].upper()}{text[1:]}"
        elif name and line.strip():
            found[name] += f" {line.strip()}"
    return found
