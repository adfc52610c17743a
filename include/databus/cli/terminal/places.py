"""Places in a source's log as a person reads and types them: FILE:POS, and offsets:TOPIC:PARTITION:NEXT,… of Kafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from databus.core.errors.root import DatabusError
from databus.core.positions.offset_kinds import KINDS, is_known
from databus.core.positions.offsets import KafkaOffsets, Offset, offset_from_json

FIELDS = frozenset(
    (
        *("from", "to", "offset", "range", "stands", "committed", "head"),
        *("plan_in_flight", "plan_closed", "sinks_behind", "open_gaps"),
    )
)
"""Fields whose text holds places; a text of another field may look like one, as event ids do."""

_MOST_NAMED = 3
"""Partitions that are named of a place; of more of them their number and the first are."""

_NAMED = r"[\w.-]+:\d+:\d+"
_PARTITIONS = re.compile(
    rf"(?<![\w.:,-])(?!\d{{4}}-\d\d-\d\dT){_NAMED}(?:,{_NAMED})*(?:,(?P<more>\d+) more partitions?)?(?![\w:+])"
)
_RANGE = re.compile(r"\((?P<start>[^()\[\]]+?), (?P<end>[^()\[\]]+)\]")


def place(offset: Offset) -> str:
    """Return a place in the form that commands take; of many partitions only how many, and the first few."""
    if not isinstance(offset, KafkaOffsets):
        return str(offset)
    return _kafka([f"{t}:{p}:{o}" for t, ps in sorted(offset.positions.items()) for p, o in sorted(ps.items())])


def in_words(value: Any, name: str = "") -> Any:
    """Return a stored place or range (JSON), or a text of a field of places, as a person reads it.

    Anything else is returned as it is. Of a range the start is exclusive and the end inclusive.
    """
    if isinstance(value, Mapping):
        if (found := _offset(value)) is not None:
            return place(found)
        if value.keys() == {"start", "end"} and None not in (ends := [*map(_offset, map(value.get, ("start", "end")))]):
            return " → ".join(place(end) for end in ends if end is not None)
    if isinstance(value, str) and name in FIELDS:
        text = _RANGE.sub(lambda found: f"{found['start']} → {found['end']}", value)
        return _PARTITIONS.sub(lambda found: _kafka(found[0].split(",")), text)
    return value


def _offset(value: Any) -> Offset | None:
    """Return the offset that JSON is, None where it is none; a kind of another package may also be a sink's kind."""
    if not isinstance(value, Mapping) or not is_known(kind := value.get("kind")):
        return None
    try:
        return offset_from_json(value)
    except DatabusError:
        if kind in KINDS:
            raise
        return None


def _kafka(named: list[str]) -> str:
    """Return next offsets by partition; the last part may say how many more there are."""
    more = int(named.pop().partition(" ")[0]) if named and " more partition" in named[-1] else 0
    if len(named) + more <= _MOST_NAMED:
        return f"offsets:{','.join(named)}" if named else "no partitions"
    return f"{len(named) + more} partitions: {', '.join(named[:_MOST_NAMED])}, …"
