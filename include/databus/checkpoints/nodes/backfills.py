"""Backfills and their boundaries in ZooKeeper: written once, under their flow's planning lease, and never changed.

But for a boundary in a log that was replaced since: it is fixed once more in the log that took its place.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.connection.session import ZooKeeperSession
from databus.checkpoints.connection.transaction import check, create, set_data
from databus.checkpoints.nodes.flow_nodes import FlowNodes
from databus.checkpoints.paths import FlowPaths, Layout
from databus.checkpoints.rules import plans as transitions
from databus.core.errors.checkpoint import CheckpointUnavailableError
from databus.core.positions.replaced_logs import is_of_former_log
from databus.core.state.backfill import PLANNING, Backfill, Boundary
from databus.core.state.checkpoint_store import Lease

T = TypeVar("T")

_ROUNDS = 4


class ZooKeeperBackfills:
    """Implements `databus.core.state.backfill.BackfillStore`."""

    def __init__(self, session: ZooKeeperSession, layout: Layout, nodes: FlowNodes):
        self._session = session
        self._layout = layout
        self._nodes = nodes

    def boundaries(self, flow: str, *moments: datetime) -> Sequence[Boundary]:
        """Return the places that are fixed for some moments, and for the nearest before and after each, by moment."""
        paths = self._layout.flow(flow)
        names = self._session.children(paths.boundaries) if moments else []
        near: set[str] = set()
        for name in map(_moment, moments):
            begin, end = bisect_left(names, name), bisect_right(names, name)
            near.update(names[max(0, begin - 1) : end + 1])
        nodes = self._nodes.read(paths, *(f"{paths.boundaries}/{name}" for name in sorted(near)))
        found = [decode_as(node.data, f"boundaries of flow {flow}", Boundary.from_json) for node in nodes if node]
        return sorted(found, key=lambda kept: kept.at)

    def fix(self, flow: str, lease: Lease, boundary: Boundary) -> Boundary:
        """Fix the place of a moment; what was fixed before stands, unless its log was replaced by that of this place.

        Raises:
            StaleEpochError: another run plans backfills now.
        """
        paths = self._layout.flow(flow)
        path = f"{paths.boundaries}/{_moment(boundary.at)}"
        self._session.ensure(paths.boundaries)

        def standing(data: Mapping[str, Any]) -> Boundary | None:
            kept = Boundary.from_json(data)
            return None if is_of_former_log(kept.offset, boundary.offset) else kept

        return self._once(paths, flow, lease, (path, boundary.to_json()), standing)

    def backfills(self, flow: str, among: Callable[[str], bool] = lambda _id: True) -> Sequence[Backfill]:
        """Return the backfills that were asked for, by time; of ids that are not among the wanted ones none is read."""
        paths = self._layout.flow(flow)
        found = self._read(flow, *filter(among, self._session.children(paths.backfills)))
        return sorted(found, key=lambda kept: kept.at)

    def backfill(self, flow: str, wanted: str) -> Backfill | None:
        """Return the backfill of an id, None when it was not asked for."""
        return next(iter(self._read(flow, wanted)), None)

    def finished(self, flow: str) -> frozenset[str]:
        """Return the ids of the backfills that were noted as done; one that was just now may be missing."""
        return frozenset(self._session.children(self._layout.flow(flow).backfills_finished))

    def note_finished(self, flow: str, wanted: str) -> None:
        """Remember that a backfill is done; idempotent, and true for good, so that no lease is needed."""
        self._session.ensure(f"{self._layout.flow(flow).backfills_finished}/{wanted}")

    def add(self, flow: str, lease: Lease, backfill: Backfill) -> Backfill:
        """Keep a backfill; one of the same id that is there stands.

        Raises:
            StaleEpochError: another run plans backfills now.
        """
        paths = self._layout.flow(flow)
        self._session.ensure(paths.backfills)
        node = f"{paths.backfills}/{backfill.id}"
        return self._once(paths, flow, lease, (node, backfill.to_json()), Backfill.from_json)

    def _read(self, flow: str, *ids: str) -> list[Backfill]:
        paths = self._layout.flow(flow)
        nodes = self._nodes.read(paths, *(f"{paths.backfills}/{one}" for one in ids))
        return [decode_as(node.data, f"backfills of flow {flow}", Backfill.from_json) for node in nodes if node]

    def _once(
        self,
        paths: FlowPaths,
        flow: str,
        lease: Lease,
        wanted: tuple[str, Mapping[str, Any]],
        build: Callable[[Mapping[str, Any]], T | None],
    ) -> T:
        """Write a node and return what stands there; `build` returns None of content that is to be replaced."""
        planning, name = self._layout.flow(f"{flow}.{PLANNING}"), f"{flow}.{PLANNING}"
        path, content = wanted
        cause: Exception | None = None
        for _ in range(_ROUNDS):
            found = self._nodes.read(paths, path, sync=True)[0]
            kept = decode_as(found.data, path, build) if found else None
            if kept is not None:
                return kept
            state = self._nodes.state(name, planning, sync=True)
            transitions.check_epoch(name, lease.epoch, state.epoch)
            data = encode(content)
            write = set_data(path, data, found.version) if found else create(path, data)
            operations = [check(planning.epoch, state.epoch_version), write]
            cause = self._nodes.send(paths, operations, path)
        found = self._nodes.read(paths, path, sync=True)[0]
        kept = decode_as(found.data, path, build) if found else None
        if kept is not None:
            return kept
        raise CheckpointUnavailableError(f"{path} could not be written in {_ROUNDS} attempts: {cause}") from cause


def _moment(at: datetime) -> str:
    """Return the name of a moment's node; names sort as moments."""
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
