"""Rows of `databus_offset_map`, from the entries of a mirror's history and back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from databus.core.positions.offset_map import MappedRange, OffsetSpan, stretches_of
from databus.core.state.checkpoint import HistoryEntry

SOURCE = ("source_topic", "source_partition", "source_from", "source_upto")
TARGET = ("target_topic", "target_partition", "target_from", "target_upto")


def map_rows(flow: str, generation: int, entries: Iterable[HistoryEntry], now: datetime) -> list[dict[str, Any]]:
    """Return the rows of some pages."""
    return [
        {
            "flow": flow,
            "generation": generation,
            "number": stretch.number,
            "incarnation": stretch.incarnation,
            **dict(zip(SOURCE, (*stretch.source, *stretch.source_range), strict=True)),
            **dict(zip(TARGET, (*stretch.target, *(stretch.target_range or (None, None))), strict=True)),
            "spans": [[s.begin, s.upto, s.image, s.image_upto, int(s.exact)] for s in stretch.spans],
            "paged_at": now,
        }
        for entry in entries
        for stretch in stretches_of(entry)
    ]


def stretch_of(row: sa.Row[Any]) -> MappedRange:
    """Return what a row holds."""
    return MappedRange(
        row.number,
        row.incarnation,
        (row.source_topic, row.source_partition),
        (row.target_topic, row.target_partition),
        tuple(OffsetSpan(a, b, c, d, bool(exact)) for a, b, c, d, exact in row.spans),
    )
