"""Backfill places: refused where the log that is read now, after a failover, is another server's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeGuard

from databus.core.errors.sink import SinkSettingError
from databus.core.errors.source import SourceDivergedError
from databus.core.flow import Flow
from databus.core.positions.offsets import BinlogOffset, Offset, OffsetRange, Ordering
from databus.core.state.backfill import Aim, Backfill, RangedSource
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.ledger import SpanState
from databus.ops.backfill.status import piece_state
from databus.ops.ledger.show import read_ledger
from databus.runtime.beside.backfill import locating
from databus.runtime.context import Services
from databus.sources.mysql.spec import file_and_position


def require_places(
    flow: Flow, services: Services, source: RangedSource, checkpoint: Checkpoint, backfill: Backfill
) -> None:
    """Refuse a backfill before anything of it is moved where what is left cannot be moved exactly, and in order.

    Raises:
        SourceDivergedError, OffsetInvalidError, OffsetPurgedError: an end cannot be found in the log that is read now.
        SinkSettingError: a sink would take its rows for newer than those that were delivered from a former server.
    """
    locate, starts = locating(source, checkpoint.offset), []
    for number, piece in enumerate(backfill.pieces):
        moved = _timeline(checkpoint.offset) > 0  # what is done is not asked for: its log may be gone with its server
        if not moved and locate(piece.start) == piece.start and locate(piece.end) == piece.end:
            continue
        state = piece_state(flow, services, backfill, number)
        if not state.done:
            starts.append(locate(state.stands or piece.start))
            locate(piece.end)
    if starts and _timeline(checkpoint.offset):
        _require_order(flow, services, checkpoint.offset, backfill, starts)


def asked_before(known: Sequence[Backfill], aim: Aim, words: tuple[str, str], standing: Offset) -> Backfill | None:
    """Return the backfill that the same FILE:POS words asked for on a former server: they mean nothing on this one."""
    if not all(file_and_position(word) or moment(word) for word in words):
        return None
    for backfill in known:
        ends = (backfill.range.start, backfill.range.end)
        if (backfill.aim, backfill.wanted) == (aim, words) and any(
            file_and_position(word) and isinstance(standing, BinlogOffset) and _is_former(end, standing)
            for word, end in zip(words, ends, strict=True)
        ):
            return backfill
    return None


def require_one_meaning(flow: Flow, services: Services, word: str, standing: Offset) -> None:
    """Refuse FILE:POS where a former server had a file of that name, too: it would be taken for the present one's.

    Raises:
        SourceDivergedError: it may mean either.
    """
    place = file_and_position(word)
    if place is None or not isinstance(standing, BinlogOffset) or not standing.timeline:
        return
    named = BinlogOffset(*place, flavor=standing.flavor)
    for span in read_ledger(flow, services).ledger.spans:
        former = _is_former(span.start, standing) and _is_former(span.end, standing)
        if former and isinstance(span.end, BinlogOffset) and _holds(span.start, span.end, named):
            raise SourceDivergedError(
                f"flow {flow.name}: {word} may be a place of server {span.end.server}, which the flow read before a "
                f"failover ({span.start} to {span.end}), or of server {standing.server}",
                hint="Name the place by GTID (gtid:…), by time, or as an offset in JSON with its server.",
            )


def _require_order(flow: Flow, services: Services, standing: Offset, backfill: Backfill, starts: list[Offset]) -> None:
    """Keep rows of before a failover from sinks that hold rows of the former server: positions do not compare."""
    keeping = [spec.sink_name for spec in flow.sinks if spec.newest_by_place]
    if not keeping:
        return
    for name, last in _delivered_before(flow, services, standing, backfill):
        early = next((s for s in starts if s.compare(last) not in {Ordering.EQUAL, Ordering.AFTER}), None)
        if early is not None:
            raise SinkSettingError(
                f"flow {flow.name}: sink {', '.join(keeping)} keeps the newest row of each key by its place in the "
                f"log: rows behind {early}, read again after a failover, would count as newer than those that {name} "
                f"delivered from a former server, up to {last}",
                hint="Replay them beside the live outputs, under a suffix that no backfill of before the failover has.",
                code="sink_order_lost",
            )


def _delivered_before(
    flow: Flow, services: Services, standing: Offset, backfill: Backfill
) -> Iterator[tuple[str, Offset]]:
    """Yield who delivered to the same outputs from former servers, and up to where."""
    known = services.backfills.backfills(flow.name) if services.backfills else ()
    beside = [
        other.piece_name(number)
        for other in known
        if other.aim.suffix == backfill.aim.suffix and other.id != backfill.id
        for number, piece in enumerate(other.pieces)
        if _timeline(piece.start) < _timeline(standing)
    ]
    for name in beside if backfill.aim.suffix else [flow.name, *beside]:
        ledger = read_ledger(flow.model_copy(update={"name": name}), services).ledger
        delivered = (span.end for span in ledger.spans if span.state is not SpanState.GAP)
        former = [end for end in delivered if _timeline(end) < _timeline(standing)]
        if former:
            yield name, former[-1]
        elif name == flow.name and ledger.start is not None:
            yield name, ledger.start  # nothing is known of before


def is_same(known: Backfill, aim: Aim, span: OffsetRange) -> bool:
    """Return whether a backfill is that of a range, which a former server's places may name as well."""
    ends = ((known.range.start, span.start), (known.range.end, span.end))
    return known.aim == aim and all(one.compare(other) is Ordering.EQUAL for one, other in ends)


def moment(text: str) -> datetime | None:
    """Return the time that a word is, aware UTC; None when it is a place of another kind."""
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def _timeline(offset: Offset) -> int:
    return offset.timeline if isinstance(offset, BinlogOffset) else 0


def _is_former(offset: Offset, standing: BinlogOffset) -> TypeGuard[BinlogOffset]:
    return isinstance(offset, BinlogOffset) and offset.server != standing.server


def _holds(start: Offset, end: Offset, named: BinlogOffset) -> bool:
    if not isinstance(start, BinlogOffset) or not isinstance(end, BinlogOffset) or start.server != end.server:
        return False
    base = named.file.rpartition(".")[0]
    return start.file.rpartition(".")[0] == base and start.file_number <= named.file_number <= end.file_number
