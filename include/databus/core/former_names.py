"""Former names of options, accepted for one version with a warning at the caller's line."""

from __future__ import annotations

import os
import sys
import sysconfig
import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from databus.core.errors.config import ConfigError
from databus.core.stored_options import SECOND, StoredOption

_PACKAGE = f"{Path(__file__).resolve().parent.parent}{os.sep}"
_UNKNOWN = "<unknown>"

P = ParamSpec("P")
R = TypeVar("R")


def warn_of_former(what: str, former: str, now: str, value: Any, where: str) -> None:
    """Warn that an option has another name now; a FutureWarning, for Python hides a DeprecationWarning of a DAG file.

    Args:
        what: class or function.
        former: name as it was written.
        now: name to write instead.
        value: what to give it.
        where: "FILE:LINE" that wrote it.
    """
    shown = f"={repr(value).removeprefix('datetime.')}" if isinstance(value, timedelta) else ""
    text = f"{what}: {former} is now {now}{shown}; the former name is accepted for one version"
    file, _, line = where.rpartition(":")
    if file and line.isdigit():
        warnings.warn_explicit(text, FutureWarning, file, int(line))
    else:
        warnings.warn(text, FutureWarning, stacklevel=2)


def renamed(what: str, options: Mapping[str, Any], former: Mapping[str, str | StoredOption[Any]]) -> dict[str, Any]:
    """Return options by their names of today, with a warning for each former one.

    Args:
        what: class or function.
        options: as they were given.
        former: former name → name of today, or how a number becomes a duration.

    Raises:
        ConfigError: an option is given under both names.
    """
    found = dict(options)
    for name in former.keys() & options.keys():
        how = former[name]
        now, value = (how, found.pop(name)) if isinstance(how, str) else (how.option, how.value_of(found.pop(name)))
        if now in options:
            raise ConfigError(
                at_caller(f"{what}: both {now} and {name} are given: they are one option"),
                hint=f"Leave {name} out: it is the former name.",
            )
        warn_of_former(what, name, now, value, caller())
        found[now] = value
    return found


def value_of_former(what: str, option: str, value: Any, former: Mapping[str, str]) -> Any:
    """Return an option's value of today, with a warning for a former one.

    Args:
        what: class or function.
        option: name of the option.
        value: as it was given.
        former: former value → value of today.
    """
    now = former.get(value) if isinstance(value, str) else None
    if now is None:
        return value
    warn_of_former(what, f'{option}="{value}"', f'{option}="{now}"', None, caller())
    return now


def seconds_of_former(what: str, former: str, now: str, number: Any) -> timedelta:
    """Return the duration that a number of seconds under a former name meant, with a warning."""
    value: timedelta = StoredOption[float](now, SECOND).value_of(number)
    warn_of_former(what, former, now, value, caller())
    return value


def accepts_former(what: str, **former: str | StoredOption[Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function accept former names of its keywords; one that it has never had is refused by name.

    Args:
        what: what a person calls.
        **former: see `renamed`.
    """

    def wrapped(call: Callable[P, R]) -> Callable[P, R]:
        known = [name for name in signature(call).parameters if name != "self"]

        @wraps(call)
        def accepting(*args: P.args, **options: P.kwargs) -> R:
            given: Any = renamed(what, options, former)
            if unknown := sorted(given.keys() - set(known)):
                raise ConfigError(
                    at_caller(f"{what}: unknown option {', '.join(unknown)}"), hint=f"{what} takes: {', '.join(known)}."
                )
            return call(*args, **given)

        return accepting

    return wrapped


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
