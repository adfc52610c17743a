"""Look-ups among very many batches: each asks little of the database, however many there are.

DATABUS_TRACE_BATCHES=10000 makes it ten million changes; --log-cli-level=INFO prints figures.
"""

from __future__ import annotations

import logging
import os
import time

import pytest

from databus import Mirror
from databus.connections.environment import EnvironmentConnections
from databus.core.trace import Change
from databus.ops.trace.batches import BatchFinder
from databus.ops.trace.clusters import Sites
from databus.ops.trace.mirror_offsets import MirrorMoves
from databus.records.provenance import Provenance
from tests.contract.many_batches import BYTES, fill, fill_mirror, place

BATCHES = int(os.environ.get("DATABUS_TRACE_BATCHES", "400"))
CHANGES = 1000
log = logging.getLogger(__name__)


def test_a_change_is_found_with_few_statements(store, reader):
    server = fill(store, "orders", BATCHES, CHANGES)
    statements: list[str] = []
    with reader.snapshot():  # opens it
        reader._connection.set_trace_callback(lambda told: statements.append(told) if told[:6] == "SELECT" else None)
    finder = BatchFinder("orders", Provenance(reader))
    for batch in (0, 1, BATCHES // 3, BATCHES - 1):
        number = batch * CHANGES + 500
        at = place(server, number, 100)
        offset = batch * (CHANGES // 4 + 1) + 7
        for what, look in (
            ("position", lambda at=at: finder.read(Change(file=at.file, position=at.pos))),
            ("gtid", lambda number=number: finder.read(Change(gtid=f"{server}:{number}"))),
            ("offset", lambda offset=offset: finder.wrote(f"many:3:{offset}")),
        ):
            statements.clear()
            began = time.perf_counter()
            found = look()
            spent_ms = (time.perf_counter() - began) * 1000
            log.info("%d changes, batch %d: %s %.1f ms", BATCHES * CHANGES, batch, what, spent_ms)
            assert [b.batch for b in found] == [1_000_000 + batch], what
            # One look-up per stream and four for the report; a GTID halves its way besides.
            assert len(statements) <= 10 + (2 * BATCHES.bit_length() if what == "gtid" else 0), what


@pytest.mark.parametrize("behind", [0, 1, BYTES - 1])
def test_places_between_two_transactions_belong_to_the_batch_that_read_them(store, reader, behind):
    server = fill(store, "orders", 3, CHANGES)
    at = place(server, CHANGES, 100)
    found = BatchFinder("orders", Provenance(reader)).read(Change(file=at.file, position=at.pos + behind))
    assert [b.batch for b in found] == [1_000_000 + (1 if behind else 0)]


@pytest.mark.parametrize("records", [1, 1000])
def test_copies_and_originals_are_found_with_few_statements_however_many_records_a_transaction_wrote(
    store, reader, records
):
    each = 4000
    fill_mirror(store, "east_to_west", BATCHES, each)
    flow = Mirror(name="east_to_west", source_conn_id="kafka_east", target_conn_id="kafka_west", topics="many")
    mirror = MirrorMoves(flow, Sites(EnvironmentConnections({})), Provenance(reader))
    statements: list[str] = []
    with reader.snapshot():  # opens it
        reader._connection.set_trace_callback(lambda told: statements.append(told) if told[:6] == "SELECT" else None)
    for batch in (0, 1, BATCHES // 3, BATCHES - 1):
        first, image = batch * each + 7, batch * (each + 1) + 7
        statements.clear()
        began = time.perf_counter()
        moves = mirror.onward(("many", 0), range(first, first + records))
        log.info("batch %d of %d: %.1f ms", batch, BATCHES, (time.perf_counter() - began) * 1000)
        found = [(m.offset, m.place, m.others, m.batch.batch) for m in moves]
        assert found == [
            (first + n, ("many", 0), range(image + n, image + n + 1), 1_000_000 + batch) for n in range(records)
        ]
        assert len(statements) <= 6  # the batch, its four parts, and where the mirror stands
        statements.clear()
        (back,) = mirror.back(("many", 0), image)
        assert (back.others, back.batch.batch, back.former) == (range(first, first + 1), 1_000_000 + batch, False)
        assert len(statements) <= 6
