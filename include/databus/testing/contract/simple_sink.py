"""Adapter of a `SimpleSink` for the sink contract."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from databus.core.connections import Connection
from databus.core.flow_specs import FlowContext, SinkSpec
from databus.core.protocols.sink import Sink
from databus.core.settings import Settings
from databus.core.state.plan import Plan
from databus.rows.emit import emit
from databus.rows.image_form import json_form
from databus.sinks.simple import SimpleSink
from databus.sinks.simple_rows import SimpleEncoder
from databus.testing.contract.sink import ORDERS, ContractChange, SinkAdapter
from databus.testing.table_batches import batch, transactions


def opened(spec: SinkSpec, flow: str, connections: Sequence[Connection] = ()) -> Sink:
    """Open a sink for a test."""
    return spec.open(FixedConnections(connections), context(flow))


def context(flow: str) -> FlowContext:
    """Return the surroundings of a flow of an installation of its own."""
    return FlowContext(flow, Settings("contract", "", ""))


class SimpleSinkAdapter(SinkAdapter):
    """Driver of a `SimpleSink`; a subclass gives the sink, and reads what it wrote.

    Attributes:
        connections: connections that the sink names.
    """

    marked: ClassVar[bool] = False
    connections: Sequence[Connection] = ()

    def __init__(self) -> None:
        self.flow = f"contract_{uuid.uuid4().hex[:12]}"

    @abstractmethod
    def spec(self, *, reachable: bool) -> SimpleSink:
        """Return the sink, on the running server or on an address where nothing listens."""

    def make_sink(self) -> Sink:
        """Open a sink on the running server."""
        return opened(self.spec(reachable=True), self.flow, self.connections)

    def make_unreachable_sink(self) -> Sink:
        """Open a sink on an address where nothing listens."""
        return opened(self.spec(reachable=False), self.flow, self.connections)

    def encode(self, changes: Sequence[ContractChange], plan: Plan) -> list[pa.RecordBatch]:
        """Return the changes as the direct lane gives them, in two batches."""
        half = (len(changes) + 1) // 2
        return [_encoded(part) for part in (changes[:half], changes[half:]) if part]


def _encoded(changes: Sequence[ContractChange]) -> pa.RecordBatch:
    positions = sorted({change.position for change in changes})
    images = [{"id": change.id, "v": change.v} for change in changes]
    pairs = [
        (None if change.op == "c" else image, None if change.op == "d" else image)
        for change, image in zip(changes, images, strict=True)
    ]
    log = transactions(len(positions), gtid=False, file="mysql-bin.000001")
    log.end_pos[:] = np.array(positions, np.int64)
    decoded = batch(
        ORDERS,
        pairs,
        transactions=[positions.index(change.position) for change in changes],
        ordinals=[change.ordinal for change in changes],
    )
    (rows,) = emit(decoded, log, "srv", json_form({}))
    routed = rows.append_column("route", pa.repeat(pa.scalar(ORDERS.full_name), rows.num_rows))
    return SimpleEncoder().encode(routed, 0)


class FixedConnections:
    """Connections of a test."""

    def __init__(self, connections: Sequence[Connection]):
        self._known = {connection.conn_id: connection for connection in connections}

    def get(self, conn_id: str) -> Connection:
        """Return a connection."""
        return self._known[conn_id]
