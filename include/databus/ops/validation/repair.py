"""Repair of what a validation found: snapshots on demand of exactly the keys that are missing, different or extra.

A key is deleted as a row is sent: a view that covers the place of the batch does not have it, and any change of it in
the batch's range of the log supersedes the delete. So a row that comes to life meanwhile stays.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TypeVar

from databus.core.amounts import counted
from databus.core.errors.checkpoint import CheckpointConflictError, SnapshotUnfinishedError
from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.protocols.optional_source import SnapshotSource
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.ops.checkpoint.amend import Attribution
from databus.ops.validation.result import DeletedKeys, ExtraKey, Validation
from databus.runtime.context import Services

MOST_BYTES = 150_000
"""Conditions of one snapshot, which is stored whole in ZooKeeper and again with each plan."""

_LOOK_S = 0.2
_NAMED = 5
"""Keys of each output that a preview names."""

Part = TypeVar("Part", str, DeletedKeys)


@dataclass(frozen=True)
class Repair:
    """Repair of a flow.

    Attributes:
        flow: flow name.
        pieces: snapshots, one after the other: `database.table` → condition in SQL that its rows must meet; "" for all.
        keys: keys that are missing or different, which the pieces read.
        whole: tables that are read whole: their keys cannot be named one by one, or are too many.
        deletes: snapshots that delete, behind those of `pieces`: `database.table` → extra keys.
        deleted: those keys as the sinks have them.
        offered: extra keys that would be deleted if it was asked for.
        kept: why the other extra keys are never deleted, in words → how many.
    """

    flow: str
    pieces: tuple[Mapping[str, str], ...]
    keys: int
    whole: tuple[str, ...]
    deletes: tuple[Mapping[str, DeletedKeys], ...] = ()
    deleted: Sequence[ExtraKey] = ()
    offered: int = 0
    kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def snapshots(self) -> tuple[Mapping[str, DeletedKeys], ...]:
        """All snapshots, in their order: `database.table` → condition, and keys to delete."""
        reads = ({table: DeletedKeys(where, ()) for table, where in piece.items()} for piece in self.pieces)
        return (*reads, *self.deletes)

    def left_out(self, begun: Sequence[Snapshot]) -> list[str]:
        """Return the tables that none of the snapshots that were begun has: the source has them no more."""
        there = {table.table for snapshot in begun for table in snapshot.tables}
        return sorted({table for each in self.snapshots for table in each} - there)

    def lines(self) -> list[str]:
        """Say what would be done, and what cannot."""
        said = []
        if self.pieces:
            said.append(f"{self.keys} keys that are missing or different are read by {_snapshots(len(self.pieces))}")
        if self.whole:
            said.append(f"read whole: {', '.join(self.whole)}: their keys cannot be named one by one, or are too many")
        if self.deletes:
            keys = counted(sum(len(each.keys) for piece in self.deletes for each in piece.values()), "extra key")
            said.append(
                f"{keys} to be deleted by {_snapshots(len(self.deletes))}, where the source has no such row then"
            )
            outputs: dict[str, list[str]] = defaultdict(list)
            for each in self.deleted:
                outputs[each.output].append(each.key.decode(errors="replace"))
            for output, those in outputs.items():
                more = f" and {len(those) - _NAMED} more" if len(those) > _NAMED else ""
                said.append(f"deleted in {output}: {', '.join(those[:_NAMED])}{more}")
        if self.offered:
            stay = "stays" if self.offered == 1 else "stay"
            said.append(f"{counted(self.offered, 'extra key')} {stay}; --delete-extra deletes them")
        said += [f"not deleted: {counted(count, 'extra key')} {why}" for why, count in sorted(self.kept.items())]
        if self.kept:
            said.append(
                "What is known to be too much is deleted by hand in the sink: a document by its id, a record by a "
                "tombstone of its key"
            )
        return said or ["nothing is to be repaired"]


def repair_of(found: Validation, *, delete_extra: bool = False) -> Repair:
    """Return what would repair the sinks of a validation; pure.

    Args:
        found: the validation.
        delete_extra: whether extra keys are deleted, as far as they can be told to be the flow's.
    """
    wanted: dict[str, dict[str, None]] = {}
    for sink in found.sinks:
        for table, conditions in sink.repairs.items():
            wanted.setdefault(table, {}).update(dict.fromkeys(conditions))
    whole = tuple(sorted(table for table, conditions in wanted.items() if "" in conditions))
    keys = sum(each.kind != "extra" for sink in found.sinks for each in sink.differences)
    left = {table: [""] if table in whole else list(conditions) for table, conditions in wanted.items()}
    pieces = tuple(_pieces(left, len))
    if not delete_extra:
        offered = sum(len(part.keys) for those in found.deletes.values() for part in those)
        return Repair(found.flow, pieces, keys, whole, offered=offered, kept=found.kept)
    deletes = tuple(_pieces(found.deletes, lambda deleted: len(deleted.where) + sum(map(len, deleted.keys))))
    return Repair(found.flow, pieces, keys, whole, deletes, found.deleted, kept=found.kept)


def _pieces(left: Mapping[str, Iterable[Part]], size: Callable[[Part], int]) -> list[dict[str, Part]]:
    """Return snapshots: in each a table stands once, and its parts are short together."""
    pieces: list[dict[str, Part]] = []
    for table, parts in left.items():
        for part in parts:
            for piece in pieces:
                if table not in piece and sum(map(size, piece.values())) + size(part) <= MOST_BYTES:
                    piece[table] = part
                    break
            else:
                pieces.append({table: part})
    return pieces


def _snapshots(count: int) -> str:
    return f"{count} snapshots, one after the other" if count > 1 else "a snapshot"


def repair(flow: Flow, services: Services, wanted: Repair, said: Attribution, wait_s: float) -> list[Snapshot]:
    """Begin the snapshots of a repair, each once the one before is finished; return them as they were begun.

    Tables that the source has no more are left out (`Repair.left_out`).

    Args:
        flow: the flow.
        services: the installation's services.
        wanted: what `repair_of` returned.
        said: who wants it, and why.
        wait_s: longest wait for one snapshot that another has to follow, in seconds.

    Raises:
        SnapshotUnfinishedError: another snapshot is unfinished; or one of these is not finished within `wait_s`, and
            those behind it were not begun.
        CheckpointConflictError: a person cancelled one of these; those behind it were not begun.
        SnapshotConditionError: the server refuses a condition.
        CheckpointError: the store cannot be used.
        SourceError: the tables cannot be listed.
    """
    begun: list[Snapshot] = []
    for number, asked in enumerate(wanted.snapshots, 1):
        if begun:
            _await_finished(flow, services, begun[-1], wait_s, f"{number - 1} of {len(wanted.snapshots)}")
        last = services.store.snapshot(flow.name)
        if last is not None and last.unfinished:
            raise SnapshotUnfinishedError(
                f"flow {flow.name}: snapshot {last.number} is unfinished",
                hint=f"Let it finish, or end it by `databus snapshot cancel {flow.name}`, and validate again.",
            )
        tables = _tables(flow, services, asked)
        if not tables:
            continue
        snapshot = Snapshot(1 if last is None else last.number + 1, "repair", services.clock.now(), tables)
        begun.append(services.store.begin_snapshot(flow.name, None, snapshot, said.who, said.why))
    return begun


def _tables(flow: Flow, services: Services, asked: Mapping[str, DeletedKeys]) -> tuple[TableProgress, ...]:
    context = FlowContext(flow.name, services.settings, services.server_ids)
    with closing(flow.source.open(services.connections, context)) as source:
        if not isinstance(source, SnapshotSource):
            raise ConfigError(
                f"flow {flow.name}: a source of kind {flow.source.kind} has no snapshots",
                hint="Snapshots read tables of MySQL and MariaDB.",
            )
        found = source.snapshot_tables({table: each.where for table, each in asked.items()})
    # A table that is read whole is, whatever the flow's options leave out: keys are missing there.
    return tuple(
        replace(table, where=asked[table.table].where, absent=asked[table.table].keys)
        for table in found
        if table.table in asked
    )


def _await_finished(flow: Flow, services: Services, snapshot: Snapshot, wait_s: float, place: str) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        stored = services.store.snapshot(flow.name)
        if stored is not None and stored.number == snapshot.number and stored.cancelled:
            raise CheckpointConflictError(
                f"flow {flow.name}: snapshot {snapshot.number}, {place} of the repair, was cancelled: those behind it "
                "were not begun",
                hint="Validate again: what is still missing or different is found anew.",
            )
        if stored is None or stored.number != snapshot.number or not stored.unfinished:
            return
        if time.monotonic() > deadline:
            raise SnapshotUnfinishedError(
                f"flow {flow.name}: snapshot {snapshot.number}, {place} of the repair, was not finished within "
                f"{wait_s:.0f} s: those behind it were not begun",
                hint="Let the flow run; once the snapshot is finished, validate again with --repair.",
            )
        time.sleep(_LOOK_S)
