"""A slot's writer and its Kafka in the protocol model: producers fence each other, a transaction holds rows and marker.

Markers are judged by the product's own `markers.compare`; see model.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from databus.core.errors import DatabusError
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.plan import Plan
from databus.sinks.kafka import markers
from databus.sinks.kafka.markers import Marker
from tests.faults.model_state import SINK, Slot, Writer


def writer_steps(writer: Writer, slot: Slot, plan: Plan) -> Iterator[tuple[str, Writer | bool, Slot]]:
    """Yield what the writer may do next: (what, the writer after it or whether it succeeded, the slot)."""
    name = f"batch {plan.batch} slot {writer.slot}"
    if writer.step == "init":
        slot = slot._replace(producer=slot.producer + 1)
        yield f"{name}: init_transactions", writer._replace(step="marker", producer=slot.producer, kept=False), slot
    elif writer.step == "marker":
        fenced = slot.producer != writer.producer
        if writer.kept and (fenced or _is_before(_parsed(slot.marker), plan, writer.slot)):
            # In a live job: the marker that it has committed itself is not read again, also by one that was fenced.
            yield f"{name}: goes on from its own marker", writer._replace(step="follow", chunk=0, done=0), slot
        try:
            resume = markers.compare(_parsed(slot.marker), plan, SINK, writer.slot)
        except DatabusError as error:
            yield f"{name}: {error.code}", False, slot
            return
        if resume.finished:
            yield f"{name}: written already", True, slot
        elif writer.kept and fenced:
            yield f"{name}: kept producer is stale", writer._replace(step="init"), slot
        else:
            done = resume.marker.done if resume.marker else 0
            yield f"{name}: is due", writer._replace(step="chunk", chunk=resume.chunk, done=done), slot
    elif slot.producer != writer.producer and writer.step == "follow":
        yield f"{name}: fenced, begins anew", writer._replace(step="init"), slot
    elif slot.producer != writer.producer:
        yield f"{name}: fenced", False, slot
    else:
        rows = rows_of(writer.slot, unit_of(plan.range.start), unit_of(plan.range.end))
        piece = rows[writer.done : writer.done + 1]
        done = writer.done + len(piece)
        last = done >= len(rows)
        marker = Marker(plan.batch, plan.hash, "written", writer.chunk, last, done, done, None).metadata()
        after = slot._replace(marker=marker, seen=(*slot.seen, *piece))
        text = f"{name}: commits chunk {writer.chunk}"
        yield text, True if last else writer._replace(chunk=writer.chunk + 1, done=done), after


def offset_of(unit: int) -> BinlogOffset:
    """Return the place behind a unit of the log."""
    return BinlogOffset("bin.000001", 4 + unit)


def unit_of(offset: Any) -> int:
    """Return the last unit before a place."""
    return int(offset.pos) - 4


def rows_of(slot: int, start: int, end: int) -> list[int]:
    """Return the units behind `start`, up to `end`, that have a row for a slot."""
    return [unit for unit in range(start + 1, end + 1) if unit % (slot + 1) == 0]


def is_closed(slot: Slot, plan: str) -> bool:
    """Tell whether a slot's marker closes a plan, given by its hash."""
    marker = _parsed(slot.marker)
    return marker is not None and (marker.hash, marker.state) == (plan, "abandoned")


def standing_of(slot: Slot) -> int:
    """Return the batch of a slot's marker, 0 for none, as a sink that is prepared reads it."""
    marker = _parsed(slot.marker)
    return marker.batch if marker else 0


def _is_before(marker: Marker | None, plan: Plan, slot: int) -> bool:
    return marker is not None and marker.last and marker.batch == plan.sinks[SINK].prev[slot]


def _parsed(text: str) -> Marker | None:
    return Marker.parse(json.loads(text)["batch"], text) if text else None
