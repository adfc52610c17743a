"""Texts of options: durations with their unit, and docstrings that describe the options of base classes, too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from inspect import cleandoc

from databus.core.stored_options import HOUR, MINUTE, SECOND, ZERO

_ENTRY = re.compile(r"^    (?P<name>\w+): .*(?:\n {8}.*)*", re.MULTILINE)
_HEADING = "Options of base classes:"


def exact_duration(duration: timedelta) -> str:
    """Return a duration without rounding, in the largest unit that counts it in whole numbers: "6 h", "90 s", "0.2 s".

    The longest timedelta is "unbounded".
    """
    if duration == timedelta.max:
        return "unbounded"
    for unit, name in ((HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if duration and duration % unit == ZERO:
            return f"{duration // unit} {name}"
    return f"{duration / SECOND:.6f}".rstrip("0").rstrip(".") + " s"


def described(text: str) -> dict[str, str]:
    """Return option → its entry in a docstring's "Attributes" or "Args", indented by 4, with all its lines.

    Args:
        text: docstring, as `inspect.cleandoc` leaves it.
    """
    return {match["name"]: match[0] for match in _ENTRY.finditer(text)}


def with_inherited(spec: type, options: Iterable[str]) -> str | None:
    """Return the docstring of a spec's class with entries for options that only its base classes describe.

    Args:
        spec: the class.
        options: names of the options to describe, in their order.

    Returns:
        The docstring, which ends with a section of the base classes' options; None for a class without one.
    """
    if not spec.__doc__:
        return None
    own = cleandoc(spec.__doc__)
    known = described(own)
    missing = [name for name in options if name not in known]
    if not missing:
        return own
    # A base's docstring has the options of its own bases already; the nearest one decides.
    of_bases: dict[str, str] = {}
    for base in reversed(spec.__mro__[1:]):
        of_bases |= described(cleandoc(base.__dict__.get("__doc__") or ""))
    inherited = [of_bases[name] for name in missing if name in of_bases]
    return "\n".join([own, "", _HEADING, *inherited]) if inherited else own
