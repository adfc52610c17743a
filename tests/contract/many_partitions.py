"""Pages and reports of a flow over many partitions, on every database; run by the tests of SQLite and of PostgreSQL."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from databus.core.batches.counts import TableCounts
from databus.core.batches.receipts import WriteReceipt
from databus.core.batches.report import BatchReport
from databus.core.positions.offsets import KafkaOffsets, OffsetRange
from databus.core.state.checkpoint import Epoch, HistoryEntry
from databus.core.state.plan import Plan, SinkPlan
from databus.records import tables as t
from databus.records.ledger.pages import LedgerPages
from databus.records.ledger.reports import LedgerReports
from databus.records.ledger.stored_places import WHOLE_EVERY
from databus.records.provenance import Provenance
from databus.records.quick_reader import RecordReader
from databus.records.ranges import SOURCE
from databus.records.recorder import SqlRecorder

FLOW = "wide"
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


def offsets(positions: Sequence[int]) -> KafkaOffsets:
    """Return a place of a topic, with all that is stored of one."""
    epochs = {"wide": dict.fromkeys(range(len(positions)), 3)}
    return KafkaOffsets({"wide": dict(enumerate(positions))}, {"wide": "id"}, epochs, {"wide": {1: 2}})


def history(batches: int, partitions: int, moved: int = 3, *, in_turn: bool = False) -> list[HistoryEntry]:
    """Return a history that begins at its first checkpoint, each batch of which moves a few partitions."""
    chosen, at = random.Random(1), [10] * partitions
    none: tuple[dict, ...] = ()
    entries = [HistoryEntry(1, "start", "run", "", None, offsets(at), 0, Epoch(1), {}, none, NOON)]
    for batch in range(1, batches + 1):
        before = offsets(at)
        turn = [(batch * moved + step) % partitions for step in range(moved)]
        for partition in turn if in_turn else chosen.sample(range(partitions), moved):
            at[partition] += 1
        after = offsets(at)
        receipt = WriteReceipt("search", 0, batch, moved, {"shop.orders": moved}, (), {"orders": {"created": moved}})
        entries.append(
            HistoryEntry(
                batch + 1, "commit", "run", "", before, after, batch, Epoch(1),
                {"shop.orders": TableCounts(moved, 0, 0, moved)}, (receipt.to_json(),), NOON,
                plan_hash=plan_of(batch, OffsetRange(before, after)).hash, watermark=NOON, bytes=100,
            )
        )  # fmt: skip
    return entries


def plan_of(batch: int, moved: OffsetRange) -> Plan:
    return Plan("test", FLOW, batch, moved, {"search": SinkPlan()}, "s", NOON)


def report_of(entry: HistoryEntry) -> BatchReport:
    """Return the report that the run of a commit stores."""
    assert entry.previous is not None
    plan = plan_of(entry.batch, OffsetRange(entry.previous, entry.offset))
    (r,) = entry.receipts
    receipt = WriteReceipt(r["sink"], r["slot"], r["batch"], r["written"], r["rows"], (), r["outputs"])
    return BatchReport(
        plan=plan, epoch=entry.epoch, run_id=entry.who, run_url="", bytes=entry.bytes or 0, tables=entry.counts,
        receipts=(receipt,), checks=(), rejected=(), durations_ms={}, watermark=NOON, committed_at=NOON,
    )  # fmt: skip


class ManyPartitionsContract:
    """Tests inherited by the tests of each database, which give the URL."""

    @pytest.fixture
    def recorder(self, url: str) -> Iterator[SqlRecorder]:
        with SqlRecorder.open(url) as recorder:
            yield recorder

    def test_pages_are_small_and_hold_the_history_as_it_is(self, recorder: SqlRecorder) -> None:
        entries, pages = history(WHOLE_EVERY + 60, 50), LedgerPages(recorder.store)
        for begin in range(0, len(entries), 40):  # as windows page out, beginning with the newest page
            assert recorder.page(FLOW, entries[max(0, begin - 1) : begin + 40]) == entries[: begin + 40][-1].number
        assert [page.entry for page in pages.pages(FLOW)] == entries
        with recorder.store.transaction() as connection:
            bases = connection.execute(sa.select(t.ledger.c.base).order_by(t.ledger.c.number)).scalars().all()
            stored = connection.execute(sa.select(t.ledger.c.entry).where(t.ledger.c.number == 100)).scalar_one()
        assert [n for n, base in enumerate(bases, 1) if base is None] == [1, WHOLE_EVERY + 1]
        assert len(json.dumps(stored)) < len(json.dumps(entries[99].to_json())) / 3
        # Also one by one, in any order.
        for number in (1, 2, 100, WHOLE_EVERY, WHOLE_EVERY + 1, WHOLE_EVERY + 9):
            assert pages.within(FLOW, 1, number, number + 2)[1].entry == entries[number]
            page = pages.from_on(FLOW, 1, number)
            assert page is not None
            assert page.entry == entries[number - 1]
        assert [page.entry for page in pages.before(FLOW, 60, 5)] == entries[54:59][::-1]
        newest = pages.newest(FLOW)
        assert newest is not None
        assert newest.entry == entries[-1]

    def test_pages_of_a_former_databus_go_on_as_differences(self, recorder: SqlRecorder) -> None:
        entries, pages = history(30, 50), LedgerPages(recorder.store)
        recorder.page(FLOW, entries[:10])
        with recorder.store.transaction() as connection:
            for entry in entries[:10]:
                whole = t.ledger.update().where(t.ledger.c.number == entry.number)
                connection.execute(whole.values(entry=entry.to_json(), base=None))
        assert recorder.page(FLOW, entries[5:]) == 31
        assert [page.entry for page in pages.pages(FLOW)] == entries

    def test_a_page_that_is_gone_takes_no_wrong_place_from_another(self, recorder: SqlRecorder) -> None:
        entries, pages = history(30, 50), LedgerPages(recorder.store)
        recorder.page(FLOW, entries)
        with recorder.store.transaction() as connection:
            connection.execute(t.ledger.delete().where(t.ledger.c.number == 12))
        left = [entry for entry in entries if entry.number < 12]
        found = pages.pages(FLOW)
        assert [page.entry for page in found if page.entry] == left
        assert "cannot be read" in found[-1].problem
        one = pages.from_on(FLOW, 1, 20)
        assert one is not None
        assert one.entry is None
        # An entry that follows a hole is whole: it is read by itself.
        later = history(40, 50)
        assert recorder.page(FLOW, later[35:]) == 41
        assert [page.entry for page in pages.within(FLOW, 1, 36, 41)] == later[35:]

    def test_a_set_back_flow_is_stored_as_it_is(self, recorder: SqlRecorder) -> None:
        entries = history(12, 50)
        back = replace(
            entries[-1], number=14, action="rewind", previous=entries[-1].offset, offset=entries[4].offset, counts={},
            receipts=(), plan_hash="",
        )  # fmt: skip
        again = [replace(e, number=e.number + 9, batch=e.batch + 9) for e in entries[5:]]
        recorder.page(FLOW, [*entries, back, *again])
        assert [page.entry for page in LedgerPages(recorder.store).pages(FLOW)] == [*entries, back, *again]

    def test_reports_tell_of_the_partitions_that_moved(self, recorder: SqlRecorder, url: str) -> None:
        entries = history(6, 50)
        for entry in entries[1:4]:
            recorder.record(report_of(entry))
        recorder.page(FLOW, entries)  # fills in what is missing
        facts = LedgerReports(recorder.store).facts(FLOW)
        assert len(facts) == 6
        hashes = {entry.batch: entry for entry in entries}
        for fact in facts:
            assert sum(map(len, fact.start.to_json()["positions"].values())) == 3
            told = {name for name, _, _ in fact.compared(hashes[fact.batch])}
            assert told == set()
        wrong = replace(entries[3], offset=entries[4].offset)
        assert [name for name, _, _ in facts[2].compared(wrong)] == ["start", "end"]
        with RecordReader(url) as records:
            provenance = Provenance(records)
            stands = provenance.stands_at(FLOW)
            assert isinstance(stands, KafkaOffsets)
            assert stands.generations == {"wide": {1: 2}}
            first, second = entries[1].offset, entries[2].offset
            assert isinstance(first, KafkaOffsets)
            assert isinstance(second, KafkaOffsets)
            moved = next(p for p, at in second.places().items() if at != first.places()[p])
            batches = provenance.read(FLOW, f"wide[{moved[1]}]", second.places()[moved][1] - 1)
            assert 2 in [batch.batch for batch in batches]
            assert provenance.bounds(FLOW, SOURCE, f"wide[{moved[1]}]") is not None
