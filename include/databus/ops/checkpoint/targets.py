"""Checkpoint targets: a time, a GTID set, file:pos, an offset, batches back, a history entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import cast

from databus.core.amounts import counted
from databus.core.errors.config import ConfigError
from databus.core.errors.source import OffsetInvalidError, OffsetPurgedError, SourceDivergedError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, Offset, Ordering
from databus.core.positions.replaced_logs import ReplaceableSource, is_of_former_log, of_former_log
from databus.core.protocols.source import Source
from databus.core.state.backfill import FailoverSource
from databus.core.state.checkpoint import Checkpoint, HistoryEntry
from databus.ops.checkpoint.place_words import is_json, offset_of, require_place
from databus.runtime.context import Services

ALL_HISTORY = 1_000_000


@dataclass(frozen=True)
class Target:
    """Checkpoint target; exactly one field is given.

    Attributes:
        place: "earliest", "latest", an ISO 8601 time (UTC without a zone), "gtid:<set>", "FILE:POS", or an offset as
            JSON.
        batches: so many committed batches back, 0 when not asked for.
        entry: number of a history entry: where that entry left the flow; 0 when not asked for.
        past_gap: behind what the source's server deleted.
        new_log: the place is one of the log that replaced the flow's; its beginning where no place is named.
    """

    place: str = ""
    batches: int = 0
    entry: int = 0
    past_gap: bool = False
    new_log: bool = False

    def __post_init__(self) -> None:
        given = [bool(self.place) or self.new_log, bool(self.batches), bool(self.entry), self.past_gap]
        if sum(given) != 1:
            raise ConfigError(
                "name exactly one place to go to", hint="A time, gtid:<set>, FILE:POS, an offset as JSON, or an option."
            )


def resolve(flow: Flow, services: Services, source: Source, checkpoint: Checkpoint, target: Target) -> Offset:
    """Return the offset that a target names, checked against the source's log.

    Raises:
        PlaceError: it cannot be understood.
        ConfigError: the history does not reach so far.
        OffsetInvalidError, OffsetPurgedError, SourceDivergedError: it is no place of the source's log, or that log is
            another one than the flow's.
    """
    if target.new_log:
        return _on_new_log(flow, services, source, checkpoint, target.place or "earliest")
    require_same_log(source, checkpoint.offset)
    if target.past_gap:
        return _past_gap(flow, source, checkpoint)
    if target.place:
        given = _of_a_server(flow, target.place)
        if given is not None and isinstance(source, FailoverSource):
            found = source.located(given, checkpoint.offset)
            if found != given:
                return found
        return on_timeline(flow, named(flow, services, source, target.place), checkpoint.offset)
    history = services.store.history(flow.name, ALL_HISTORY)
    if target.batches:
        found = batches_back(flow.name, history, checkpoint.offset, target.batches)
    else:
        found = _entry(flow.name, history, target.entry)
    if is_of_former_log(found, checkpoint.offset):
        raise of_former_log(f"flow {flow.name}: the place {found}", checkpoint.offset)
    found = _not_lower(found, checkpoint.offset)
    source.lag(found)  # refuses a place that the source's log no longer has
    return found


def require_same_log(source: Source, standing: Offset) -> None:
    """Refuse to look for places of a flow in a log that replaced the one which it has read.

    Raises:
        SourceDivergedError: it is another log.
    """
    if isinstance(source, ReplaceableSource) and (why := source.log_replaced(standing)):
        raise why


def _on_new_log(flow: Flow, services: Services, source: Source, checkpoint: Checkpoint, place: str) -> Offset:
    """Return a place of the log that replaced the flow's, behind all that the flow has read and above its versions."""
    if not isinstance(source, ReplaceableSource) or not _may_be_new(source, checkpoint):
        raise ConfigError(
            f"flow {flow.name}: {checkpoint.offset} is a place of the log that its source has: none has replaced it",
            hint="Leave --new-log out: the flow goes on, and `rewind` and `skip` go to places of this log.",
        )
    require_place(flow, place)
    # What is kept is still of the former log: a time is looked for in the files of the server alone.
    of_server = place != "earliest" and not is_json(place)
    found = _start(flow, services, place) if of_server else named(flow, services, source, place)
    if not isinstance(found, BinlogOffset) or not isinstance(checkpoint.offset, BinlogOffset):
        raise ConfigError(f"flow {flow.name}: {place} is no place of a binary log")
    return found.on_new_log(checkpoint.offset)


def _may_be_new(source: ReplaceableSource, checkpoint: Checkpoint) -> bool:
    """Return whether a log has replaced that of a checkpoint, or may have, where it deleted the place."""
    if source.log_replaced(checkpoint.offset) is not None:
        return True
    purged = missing(cast("Source", source), checkpoint)
    return purged is not None and purged.missing is not None  # None: undelivered of another server, after a failover


def missing(source: Source, checkpoint: Checkpoint) -> OffsetPurgedError | None:
    """Return the error that says what the server deleted behind a checkpoint; None when nothing is missing."""
    try:
        source.lag(checkpoint.offset)
    except OffsetPurgedError as error:
        return error
    return None


def batches_back(flow: str, history: Sequence[HistoryEntry], place: Offset, count: int) -> Offset:
    """Follow the committed batches that led to `place` back, newest first, over rewinds, skips and restores.

    A place that a batch reached is left by that batch, also where the flow was moved to it once more since.

    Raises:
        ConfigError: the history does not hold as many.
    """
    done, older = 0, list(history)
    while done < count:
        at = [n for n, entry in enumerate(older) if entry.previous is not None and _led_to(entry, place)]
        chosen = next((n for n in at if older[n].action == "commit"), next(iter(at), None))
        if chosen is None:
            break
        entry, older = older[chosen], older[chosen + 1 :]
        assert entry.previous is not None  # noqa: S101 - of those chosen above
        done, place = done + (entry.action == "commit"), entry.previous
    if done < count:
        raise ConfigError(
            f"flow {flow}: {counted(count, 'batch', 'batches')} back is asked for, and {done} led to its place",
            hint=f"See `databus checkpoint history {flow}`; older places can be named by time or position.",
        )
    return place


def _led_to(entry: HistoryEntry, place: Offset) -> bool:
    moved = entry.action == "commit" or (
        entry.previous is not None and entry.offset.compare(entry.previous) is Ordering.AFTER
    )
    return moved and entry.offset.compare(place) is Ordering.EQUAL


def _entry(flow: str, history: Sequence[HistoryEntry], number: int) -> Offset:
    for entry in history:
        if entry.number == number:
            return entry.offset
    known = f"{history[-1].number} to {history[0].number}" if history else "none"
    raise ConfigError(f"flow {flow} has no history entry {number}", hint=f"Kept are {known}.")


def _past_gap(flow: Flow, source: Source, checkpoint: Checkpoint) -> Offset:
    error = missing(source, checkpoint)
    if error is None:
        raise ConfigError(
            f"flow {flow.name}: nothing is missing: the log can be read from {checkpoint.offset}",
            hint="To pass over readable changes, skip to a place.",
        )
    if error.missing is None:
        raise error
    return error.missing.end


def named(flow: Flow, services: Services, source: Source, place: str) -> Offset:
    """Return the place of a source's log that a text names.

    Raises:
        PlaceError: it is no place in any form.
        SourceError: it is no place of this log.
    """
    require_place(flow, place)
    if place == "earliest":
        return source.earliest_offset()
    if place == "latest":
        return _start(flow, services, place)
    if is_json(place):
        return _from_json(flow, services, source, place)
    try:
        when = datetime.fromisoformat(place)
    except ValueError:
        return _start(flow, services, place)
    return source.offset_at(when.replace(tzinfo=UTC) if when.tzinfo is None else when)


def looked(flow: Flow, services: Services, source: Source, checkpoint: Checkpoint | None, place: str) -> Offset:
    """Return the place that a look begins at, counted as the flow counts it: its changes have the ids of the flow's.

    A log that replaced the flow's, or another server's, may be looked at before the flow goes on there: of a log that
    replaced it, changes have the ids that they will have then.

    Raises:
        PlaceError: it is no place in any form.
        SourceDivergedError: it is a place of a log that was replaced since.
        SourceError: it is no place of this log.
    """
    if checkpoint is None:
        return named(flow, services, source, place)
    standing = checkpoint.offset
    if isinstance(source, ReplaceableSource) and source.log_replaced(standing) is not None:
        return _on_new_log(flow, services, source, checkpoint, place)
    given = _of_a_server(flow, place)
    if given is not None and is_of_former_log(given, standing):
        raise of_former_log(f"flow {flow.name}: the place {given}", standing)
    found = named(flow, services, source, place)
    if isinstance(found, KafkaOffsets) and isinstance(standing, KafkaOffsets):
        return found.of_generations(standing)
    if isinstance(found, BinlogOffset) and isinstance(standing, BinlogOffset):
        return found.counted_as(standing)
    return found


def _start(flow: Flow, services: Services, place: str) -> Offset:
    """Resolve what the flow's source understands as `start`."""
    chosen = flow.source.at_place(place)
    opened = chosen.open(services.connections, FlowContext(flow.name, services.settings, services.server_ids))
    try:
        return opened.start_offset()
    finally:
        opened.close()


def _of_a_server(flow: Flow, place: str) -> BinlogOffset | None:
    """Return the offset that a place in JSON is when it names the server whose log it is of."""
    given = offset_of(flow, place) if is_json(place) else None
    return given if isinstance(given, BinlogOffset) and given.server else None


def _from_json(flow: Flow, services: Services, source: Source, text: str) -> Offset:
    given = offset_of(flow, text)
    if not isinstance(given, BinlogOffset):
        source.lag(given)
        return given
    found = _start(flow, services, str(given))
    if isinstance(found, BinlogOffset) and given.gtids and not given.same_gtids(found):
        raise OffsetInvalidError(
            f"flow {flow.name}: {given} has GTIDs {given.gtids}, but the log has {found.gtids} there",
            hint="The offset is of another server, or was edited.",
        )
    return replace(found, prepared=given.prepared) if isinstance(found, BinlogOffset) else found


def _not_lower(found: Offset, standing: Offset) -> Offset:
    """Put a place of the history onto the checkpoint's timeline, which failovers have raised since.

    A place of another server stays one: going on from there is one more failover, onto a timeline of its own.
    """
    if not isinstance(found, BinlogOffset) or not isinstance(standing, BinlogOffset):
        return found
    return replace(found, timeline=max(found.timeline, standing.timeline))


def on_timeline(flow: Flow, found: Offset, standing: Offset) -> Offset:
    """Put a place of the server onto the checkpoint's timeline: versions of documents must not fall."""
    if isinstance(found, KafkaOffsets) and isinstance(standing, KafkaOffsets):
        return found.of_generations(standing)
    if not isinstance(found, BinlogOffset) or not isinstance(standing, BinlogOffset):
        return found
    if found.server != standing.server:
        raise SourceDivergedError(
            f"flow {flow.name}: the checkpoint {standing} is of server {standing.server}, {found} of {found.server}",
            hint="Let one batch take up the failover, then amend.",
        )
    return found.counted_as(standing)
