"""Keys that are looked at one by one: those whose rows differ at first, up to bounds of their number and bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from databus.ops.validation.both_sides import BothSides
from databus.ops.validation.row_hashes import DifferingRows, keys_of
from databus.ops.validation.sink_keys import Key
from databus.sinks.row_state import settled

MOST_LOOKED = 100_000
"""Keys that differ are looked at one by one up to so many; more mean that the sink wants a snapshot, not a list."""

MOST_BYTES = 256 << 20
"""Keys and contents, of both sides together, of the keys that are looked at; half of it is the source's."""


@dataclass(frozen=True)
class WantedRow:
    """Row that the sink should hold.

    Attributes:
        content: canonical bytes.
        table: `database.table`.
        held_back: whether a check holds it back, so that nothing is expected.
    """

    content: bytes | None
    table: str
    held_back: bool = False


def size_of(key: Key, content: bytes | None) -> int:
    """Return the bytes of a row: key and content."""
    return len(key[1]) + len(content or b"")


def looked_keys(
    sides: BothSides, seen: DifferingRows, may_be_extra: Callable[[Key], bool]
) -> tuple[dict[Key, str | None], dict[Key, WantedRow], int]:
    """Return the keys to look at with their versions in the sink, what is wanted of them, and how many are left.

    Args:
        sides: rows of both sides.
        seen: which of them differ.
        may_be_extra: whether a key that the source does not have would be of the tables that are compared.
    """
    before: dict[Key, str | None] = {}
    wanted: dict[Key, WantedRow] = {}
    size, full = 0, False
    for rows in sides.expected_rows(seen.expected[:MOST_LOOKED]):
        contents, tables = rows["content"].to_pylist(), rows["table"].to_pylist()
        for key, content, table in zip(keys_of(rows), contents, tables, strict=True):
            full = full or size + size_of(key, content) > MOST_BYTES // 2
            if not full:
                size += size_of(key, content)
                wanted[key], before[key] = WantedRow(settled(content), table), None
        if full:
            break
    beyond, extra = len(seen.expected) - len(wanted), 0
    # One that is left out of what is expected is no extra one: they are not told apart then.
    left_out = beyond > 0
    for rows in sides.held_rows(seen.held):
        contents, versions = rows["content"].to_pylist(), rows["version"].to_pylist()
        for key, content, version in zip(keys_of(rows), contents, versions, strict=True):
            is_wanted = key in wanted
            if not is_wanted and (left_out or not may_be_extra(key)):
                continue
            extra += not is_wanted
            if extra <= MOST_LOOKED and size + size_of(key, content) <= MOST_BYTES:
                size += size_of(key, content)
                before[key] = version
                continue
            beyond += 1
            if is_wanted:
                left_out = True
                del wanted[key], before[key]
    return before, wanted, beyond
