"""Columns that each flow's transforms hide, as they were found: a small node beside its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.layout import Layout
from databus.checkpoints.session import Node, ZooKeeperSession
from databus.checkpoints.transaction import OutcomeUnknownError, RefusedError, create, set_data
from databus.core.errors import CheckpointConflictError
from databus.core.hidden_columns import HiddenByTable, hidden_from_json, hidden_to_json, with_added

_ATTEMPTS = 10


class ZooKeeperHiddenColumns:
    """Implements `databus.core.hidden_columns.HiddenColumns`."""

    def __init__(self, session: ZooKeeperSession, layout: Layout):
        self._session = session
        self._layout = layout

    def load(self, flow: str) -> Mapping[str, frozenset[str]]:
        """Return what was added so far. Raises CheckpointError."""
        return self._decoded(flow, self._node(flow))

    def add(self, flow: str, found: HiddenByTable) -> None:
        """Add to it. Raises CheckpointError.

        It is read and written again where another run wrote in between, or the answer was lost.
        """
        path = self._layout.flow(flow).hidden_columns
        for _ in range(_ATTEMPTS):
            node = self._node(flow)
            before = self._decoded(flow, node)
            both = with_added(before, found)
            if node is not None and both == before:
                return
            data = encode(hidden_to_json(both))
            if node is None:
                self._session.ensure(self._layout.flow(flow).root)
            operation = create(path, data) if node is None else set_data(path, data, node.version)
            try:
                self._session.write([operation], f"hidden columns of flow {flow}")
            except (RefusedError, OutcomeUnknownError):
                continue
            return
        raise CheckpointConflictError(
            f"hidden columns of flow {flow}: others wrote there at each of {_ATTEMPTS} attempts",
            hint="Run the flow again; `databus checkpoint show` names who holds it.",
        )

    def _node(self, flow: str) -> Node | None:
        return self._session.read(self._layout.flow(flow).hidden_columns, sync=True)[0]

    @staticmethod
    def _decoded(flow: str, node: Node | None) -> Mapping[str, frozenset[str]]:
        return decode_as(node.data, f"hidden columns of flow {flow}", hidden_from_json) if node else {}
