"""Backfills and their boundaries in ZooKeeper: written once, under their flow's planning lease, and never changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from typing import Any, TypeVar

from databus.checkpoints import transitions
from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.flow_nodes import FlowNodes
from databus.checkpoints.layout import FlowPaths, Layout
from databus.checkpoints.session import ZooKeeperSession
from databus.checkpoints.transaction import check, create
from databus.core.backfill import PLANNING, Backfill, Boundary
from databus.core.checkpoint_store import Lease
from databus.core.errors import CheckpointUnavailableError

T = TypeVar("T")

_ROUNDS = 4


class ZooKeeperBackfills:
    """Implements `databus.core.backfill.BackfillStore`."""

    def __init__(self, session: ZooKeeperSession, layout: Layout, nodes: FlowNodes):
        self._session = session
        self._layout = layout
        self._nodes = nodes

    def boundaries(self, flow: str) -> Sequence[Boundary]:
        """Return the places that are fixed, by moment."""
        paths = self._layout.flow(flow)
        found = self._kept(paths, paths.boundaries, f"boundaries of flow {flow}", Boundary.from_json)
        return sorted(found, key=lambda kept: kept.at)

    def fix(self, flow: str, lease: Lease, boundary: Boundary) -> Boundary:
        """Fix the place of a moment; what was fixed before stands.

        Raises:
            StaleEpochError: another run plans backfills now.
        """
        paths = self._layout.flow(flow)
        path = f"{paths.boundaries}/{boundary.at.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
        self._session.ensure(paths.boundaries)
        return self._once(paths, flow, lease, (path, boundary.to_json()), Boundary.from_json)

    def backfills(self, flow: str) -> Sequence[Backfill]:
        """Return the backfills that were asked for, by time."""
        paths = self._layout.flow(flow)
        found = self._kept(paths, paths.backfills, f"backfills of flow {flow}", Backfill.from_json)
        return sorted(found, key=lambda kept: kept.at)

    def backfill(self, flow: str, id_: str) -> Backfill | None:
        """Return the backfill of an id; None when none was asked for."""
        paths = self._layout.flow(flow)
        path = f"{paths.backfills}/{id_}"
        found = self._nodes.read(paths, path)[0]
        return decode_as(found.data, path, Backfill.from_json) if found is not None else None

    def add(self, flow: str, lease: Lease, backfill: Backfill) -> Backfill:
        """Keep a backfill; one of the same id that is there stands.

        Raises:
            StaleEpochError: another run plans backfills now.
        """
        paths = self._layout.flow(flow)
        self._session.ensure(paths.backfills)
        node = f"{paths.backfills}/{backfill.id}"
        return self._once(paths, flow, lease, (node, backfill.to_json()), Backfill.from_json)

    def _kept(self, paths: FlowPaths, folder: str, what: str, build: Callable[[Mapping[str, Any]], T]) -> list[T]:
        return [decode_as(node.data, what, build) for node in self._nodes.children(paths, folder) if node]

    def _once(
        self,
        paths: FlowPaths,
        flow: str,
        lease: Lease,
        wanted: tuple[str, Mapping[str, Any]],
        build: Callable[[Mapping[str, Any]], T],
    ) -> T:
        planning, name = self._layout.flow(f"{flow}.{PLANNING}"), f"{flow}.{PLANNING}"
        path, content = wanted
        cause: Exception | None = None
        for _ in range(_ROUNDS):
            found = self._nodes.read(paths, path, sync=True)[0]
            if found is not None:
                return decode_as(found.data, path, build)
            state = self._nodes.state(name, planning, sync=True)
            transitions.check_epoch(name, lease.epoch, state.epoch)
            operations = [check(planning.epoch, state.epoch_version), create(path, encode(content))]
            cause = self._nodes.send(paths, operations, path)
        found = self._nodes.read(paths, path, sync=True)[0]
        if found is not None:
            return decode_as(found.data, path, build)
        raise CheckpointUnavailableError(f"{path} could not be written in {_ROUNDS} attempts: {cause}") from cause
