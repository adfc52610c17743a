"""Sink `memory`: rows into a list of the process that runs the flow, for trying out and for tests."""

from __future__ import annotations

from typing import Any, ClassVar

from databus.core.connections import ConnectionSource
from databus.core.flow_specs import FlowContext, SinkSpec
from databus.core.protocols.sink import Sink

_STORES: dict[str, dict[tuple[str, int, int], list[dict[str, Any]]]] = {}


class Memory(SinkSpec):
    """Rows into a list of this process; Spark's workers must run on the same machine. A retried batch replaces itself.

    Attributes:
        store: name of the list, e.g. "orders"; default "default". Read it with `databus.sinks.memory.records(store)`.
    """

    kind: ClassVar[str] = "memory"
    direct: ClassVar[bool] = True

    store: str = "default"

    def open(self, connections: ConnectionSource, context: FlowContext) -> Sink:  # noqa: ARG002 - no connection
        """Open the mailbox that the workers deliver to."""
        from databus.sinks.markerless import UnmarkedSink

        def deliver(batch: int, slot: int, rows: list[dict[str, Any]]) -> None:
            _STORES.setdefault(self.store, {})[context.flow, batch, slot] = rows

        return UnmarkedSink(self.sink_name, deliver)

    def datasets(self) -> tuple[str, ...]:
        """Return the store's name."""
        return (self.store,)


def records(store: str = "default") -> list[dict[str, Any]]:
    """Return what a store holds, by batch and slot: route, event_id, key, and the Debezium-style value as text."""
    kept = _STORES.get(store, {})
    return [row for place in sorted(kept) for row in kept[place]]


def clear(store: str = "default") -> None:
    """Forget what a store holds."""
    _STORES.pop(store, None)
