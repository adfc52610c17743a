"""Differences between our messages with `types="debezium"` and those of a real Debezium, each by name."""

from __future__ import annotations

import re
from typing import NamedTuple


class KnownDifference(NamedTuple):
    """Known difference.

    Attributes:
        where: pattern of paths as `debezium_recording.differences` gives them.
        what: what is different, for the page of messages.
    """

    where: re.Pattern[str]
    what: str


_VALUE = r"\d+\.value(\.payload)?\.(before|after)"
_COLUMN = r"\d+\.value\.schema\.fields\.(before|after)\.fields"

KNOWN: tuple[KnownDifference, ...] = (
    KnownDifference(
        re.compile(r"\d+\.value\.schema\.fields\.source\.fields\.(event_id|flags): of ours alone"),
        "The schema of `source` has two optional fields more at its end, `event_id` and `flags`.",
    ),
    KnownDifference(
        re.compile(_COLUMN + r"\.c3[67]\.parameters"),
        "ENUM and SET have no parameter `allowed` in their schemas, and no column has a `default`: the log does not "
        "say them.",
    ),
    KnownDifference(
        re.compile(rf"{_COLUMN}\.c43\.|{_VALUE}\.c43\.[xy]"),
        "A POINT has no `x` and `y`, and the schema of a Geometry: the log says of all geometries that they are one. "
        "Both are in `wkb`.",
    ),
    KnownDifference(
        re.compile(_VALUE + r"\.c36: 'l,arge', Debezium 'l\\\\,arge'"),
        "A member of an ENUM with a comma stands as it is; Debezium puts a backslash before the comma.",
    ),
    KnownDifference(re.compile(_VALUE + r"\.c21: 0, Debezium 1900"), "YEAR 0000 is 0; Debezium has 1900."),
    KnownDifference(
        re.compile(r"\d+ messages of ours, \d+ of Debezium's"),
        "A delete in a table without a key has no tombstone; Debezium's has neither key nor value.",
    ),
)

OF_SOURCE = (
    "`source.version` is that of databus; `source.pos` and `source.row` are of the transaction, as in the other "
    "envelope (Debezium: of the event); `source.thread` is null; `source.ts_us` and `ts_ns` end with the millisecond, "
    "and are zeros behind it; `ts_ms` at the top is the time of the batch's plan."
)


def left_over(differences: list[str]) -> list[str]:
    """Return the differences that are not known."""
    return [each for each in differences if not any(known.where.match(each) for known in KNOWN)]
