"""Values as people read them: amounts with separators, numbers that name something without, lines cut between words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from databus.cli.terminal.places import FIELDS, in_words

_NAMING = frozenset(
    (
        *("n", "number", "entry", "batch", "next_batch", "epoch", "attempt", "slot", "generation", "timeline"),
        *("id", "pid", "port", "server", "partition", "sequence", "offset", "position", "pos", "start_pos", "end_pos"),
        *("from", "to", "before", "after", "other_from", "other_to"),
    )
)
"""Fields whose numbers name a thing or a place, and count nothing."""

_BREAK = re.compile(r"(?<=,)(?!\d{3}(?!\d))|(?<= )")
"""A line may end behind a blank or a comma, never inside an id or a number."""

_TIED = "\N{NO-BREAK SPACE}"
"""Stands between a name and its number, until lines are cut."""

_WORD = re.compile(r"(?:`[^`]*`|\S)+")
"""A word of advice; a command in backticks is one, with the dot or comma behind it."""


def printed(value: Any, name: str = "") -> str:
    """Return a value on one line, as a field of that name shows it; "-" for none."""
    value = in_words(value, name)
    if value is None or (isinstance(value, list | tuple | dict | str) and not value):
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(_named(str(key), each, name) for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_inner(each, name) for each in value)
    return _scalar(value, naming=name in _NAMING or name.endswith("_id"))


def printed_lines(value: Any, name: str = "") -> list[str]:
    """Return a value on as many lines as it has parts."""
    value = in_words(value, name)
    if isinstance(value, Mapping) and value:
        return [f"{key}: {printed(each, name if name in FIELDS else str(key))}" for key, each in value.items()]
    if isinstance(value, list | tuple) and value:
        return [printed(each, name) for each in value]
    return (value if isinstance(value, str) and value else printed(value, name)).splitlines()


def _scalar(value: Any, *, naming: bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and not naming:
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10 or not value else f"{value:.3g}"
    return str(value)


def _named(key: str, value: Any, name: str) -> str:
    return f"{key}{_TIED if isinstance(value, int | float) else ' '}{_inner(value, name if name in FIELDS else key)}"


def _inner(value: Any, name: str) -> str:
    text = printed(value, name)
    return f"({text})" if isinstance(value, list | tuple | dict) and value else text


def longest(text: str) -> int:
    """Return how many characters the longest part takes that no line may cut."""
    return max((cell_len(part.rstrip()) for part in _parts(text)), default=0)


def wrapped(text: str, width: int) -> list[str]:
    """Cut a text into lines of so many characters, between words; a longer word has a line of its own."""
    lines: list[str] = []
    for given in text.splitlines() or [""]:
        line = ""
        for part in _BREAK.split(given):
            if line and cell_len(line) + cell_len(part.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += part
        lines.append(line.rstrip())
    return [line.replace(_TIED, " ") for line in lines]


def advised(text: str, width: int) -> list[str]:
    """Cut advice into lines of so many characters; a command in it stands on one line, however long, to be copied."""
    lines: list[str] = []
    for given in text.splitlines():
        line = ""
        for word in _WORD.findall(given):
            if line and cell_len(line) + 1 + cell_len(word) > width:
                lines.append(line)
                line = ""
            line = f"{line} {word}" if line else word
        lines.append(line)
    return lines


def widths(needed: Sequence[int], wanted: Sequence[int], room: int) -> list[int]:
    """Share the width of a table among its columns.

    Args:
        needed: characters without which a column is not readable.
        wanted: characters in which each of its values stands on one line; not less.
        room: characters there are, not less than all that is needed.
    """
    given = list(needed)
    left = room - sum(given)
    while left > 0 and (short := [at for at, width in enumerate(given) if width < wanted[at]]):
        each = max(1, left // len(short))
        for at in short:
            more = min(each, wanted[at] - given[at], left)
            given[at] += more
            left -= more
    return given


def _parts(text: str) -> list[str]:
    return [part for line in text.splitlines() for part in _BREAK.split(line)]
