"""Option groups: a parameter that is a dataclass becomes one option for each of its fields."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with its option groups spread out, so that typer sees every option.

    A group is a frozen dataclass whose fields are `Annotated` with typer's options; the command gets it filled in.

    Raises:
        TypeError: two groups of the command have an option of one name.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {}
    spread: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        group = hints[name]
        if not (isinstance(group, type) and is_dataclass(group)):
            _add(spread, parameter.replace(annotation=group))
            continue
        groups[name] = group
        options = get_type_hints(group, include_extras=True)
        for field in fields(group):
            default = parameter.empty if field.default is MISSING else field.default
            _add(spread, inspect.Parameter(field.name, parameter.KEYWORD_ONLY, default=default,
                                           annotation=options[field.name]))  # fmt: skip
    parameters = sorted(spread.values(), key=lambda each: each.kind)

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _add(spread: dict[str, inspect.Parameter], parameter: inspect.Parameter) -> None:
    if parameter.name in spread:
        raise TypeError(f"two options are called {parameter.name!r}")
    spread[parameter.name] = parameter
