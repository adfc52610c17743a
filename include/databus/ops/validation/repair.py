"""Repair of what a validation found: snapshots on demand of exactly the keys that sinks lack or have otherwise."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from databus.core.errors.checkpoint import CheckpointConflictError, SnapshotUnfinishedError
from databus.core.errors.config import ConfigError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.protocols.optional_source import SnapshotSource
from databus.core.state.snapshot import Snapshot, TableProgress
from databus.ops.checkpoint.amend import Attribution
from databus.ops.validation.result import Validation
from databus.runtime.context import Services

MOST_BYTES = 150_000
"""Conditions of one snapshot, which is stored whole in ZooKeeper and again with each plan."""

_LOOK_S = 0.2


@dataclass(frozen=True)
class Repair:
    """Repair of a flow.

    Attributes:
        flow: flow name.
        pieces: snapshots, one after the other: `database.table` → condition in SQL that its rows must meet; "" for all.
        keys: keys that are missing or different, which the pieces read.
        whole: tables that are read whole: their keys cannot be named one by one, or are too many.
        extra: keys that a sink has and the source has not: no row can be sent for them.
    """

    flow: str
    pieces: tuple[Mapping[str, str], ...]
    keys: int
    whole: tuple[str, ...]
    extra: int

    def lines(self) -> list[str]:
        """Say what would be done, and what cannot."""
        said = []
        if self.pieces:
            snapshots = f"{len(self.pieces)} snapshots, one after the other" if len(self.pieces) > 1 else "a snapshot"
            said.append(f"{self.keys} keys that are missing or different are read by {snapshots}")
        if self.whole:
            said.append(f"read whole: {', '.join(self.whole)}: their keys cannot be named one by one, or are too many")
        if self.extra:
            said.append(
                f"{self.extra} extra keys stay: no row of the source stands for them. Delete them in the sink by hand "
                "(a document by its id, a record by a tombstone of its key), and validate again"
            )
        return said or ["nothing is to be repaired"]


def repair_of(found: Validation) -> Repair:
    """Return what would repair the sinks of a validation; pure."""
    wanted: dict[str, dict[str, None]] = {}
    for sink in found.sinks:
        for table, conditions in sink.repairs.items():
            wanted.setdefault(table, {}).update(dict.fromkeys(conditions))
    whole = tuple(sorted(table for table, conditions in wanted.items() if "" in conditions))
    keys = sum(each.kind != "extra" for sink in found.sinks for each in sink.differences)
    extra = sum(each.kind == "extra" for sink in found.sinks for each in sink.differences)
    left = {table: [""] if table in whole else list(conditions) for table, conditions in wanted.items()}
    return Repair(found.flow, tuple(_pieces(left)), keys, whole, extra)


def _pieces(left: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Return snapshots: in each a table stands once, and its conditions are short together."""
    pieces: list[dict[str, str]] = []
    for table, conditions in left.items():
        for condition in conditions:
            for piece in pieces:
                if table not in piece and sum(map(len, piece.values())) + len(condition) <= MOST_BYTES:
                    piece[table] = condition
                    break
            else:
                pieces.append({table: condition})
    return pieces


def repair(flow: Flow, services: Services, wanted: Repair, said: Attribution, wait_s: float) -> list[Snapshot]:
    """Begin the snapshots of a repair, each once the one before is finished; return them as they were begun.

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
    for number, conditions in enumerate(wanted.pieces, 1):
        if begun:
            _await_finished(flow, services, begun[-1], wait_s, f"{number - 1} of {len(wanted.pieces)}")
        last = services.store.snapshot(flow.name)
        if last is not None and last.unfinished:
            raise SnapshotUnfinishedError(
                f"flow {flow.name}: snapshot {last.number} is unfinished",
                hint=f"Let it finish, or end it by `databus snapshot cancel {flow.name}`, and validate again.",
            )
        tables = _tables(flow, services, conditions)
        snapshot = Snapshot(1 if last is None else last.number + 1, "repair", services.clock.now(), tables)
        begun.append(services.store.begin_snapshot(flow.name, None, snapshot, said.who, said.why))
    return begun


def _tables(flow: Flow, services: Services, conditions: Mapping[str, str]) -> tuple[TableProgress, ...]:
    context = FlowContext(flow.name, services.settings, services.server_ids)
    with closing(flow.source.open(services.connections, context)) as source:
        if not isinstance(source, SnapshotSource):
            raise ConfigError(
                f"flow {flow.name}: a source of kind {flow.source.kind} has no snapshots",
                hint="Snapshots read tables of MySQL and MariaDB.",
            )
        found = source.snapshot_tables(conditions)
    # A table that is read whole is, whatever the flow's options leave out: keys are missing there.
    return tuple(replace(table, where=conditions[table.table]) for table in found if table.table in conditions)


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
