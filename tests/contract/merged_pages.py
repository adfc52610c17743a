"""Old batches merged into parts, on every database; run by the tests of SQLite and of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from databus.core.batches.counts import TableCounts
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import KafkaOffsets
from databus.core.state.checkpoint import HistoryEntry, ReplacedOutputs
from databus.core.state.ledger import Ledger
from databus.core.state.ledger_chain import build
from databus.records import tables as t
from databus.records.ledger.merged_pages import MergedPages
from databus.records.ledger.pages import LedgerPages
from databus.records.ledger.reports import LedgerReports
from databus.records.provenance import Provenance
from databus.records.quick_reader import RecordReader
from databus.records.ranges import SOURCE
from databus.records.recorder import SqlRecorder
from tests.contract.many_partitions import FLOW, NOON, history, report_of

LATER = datetime.now(UTC) + timedelta(days=1)


def eventful(partitions: int) -> tuple[list[HistoryEntry], list[Gap]]:
    """Return a history of 80 batches: rows held back in batch 20, a gap behind batch 40, a rewind at the end."""
    entries = history(80, partitions)
    held = entries[20]
    entries[20] = replace(held, counts={"shop.orders": TableCounts(4, 0, 1, 3)})
    before = entries[40].offset
    assert isinstance(before, KafkaOffsets)
    skipped = replace(before, positions={"wide": {**before.positions["wide"], 0: before.positions["wide"][0] + 50}})
    skip = replace(
        entries[40], number=42, action="skip", previous=before, offset=skipped, counts={}, receipts=(), plan_hash="",
        bytes=None,
    )  # fmt: skip

    def moved(place: KafkaOffsets) -> KafkaOffsets:
        return replace(place, positions={"wide": {**place.positions["wide"], 0: place.positions["wide"][0] + 50}})

    after = [replace(e, number=e.number + 1, previous=moved(e.previous), offset=moved(e.offset)) for e in entries[41:]]
    back = replace(skip, number=83, action="rewind", previous=after[-1].offset, offset=after[-10].offset, batch=80)
    again = [replace(e, number=e.number + 10, batch=e.batch + 9) for e in after[-9:]]
    again = [
        replace(e, receipts=tuple({**r, "batch": e.batch} for r in e.receipts), plan_hash=f"{e.batch:064d}")
        for e in again
    ]
    gap = Gap(1, before, skipped, "purged", "skipped", "ada", "", NOON)
    return [*entries[:41], skip, *after, back, *again], [gap]


def ledger_of(pages: LedgerPages, gaps: Sequence[Gap]) -> Ledger:
    return build(FLOW, [page.entry for page in pages.pages(FLOW) if page.entry is not None], gaps)


class MergedPagesContract:
    """Tests inherited by the tests of each database."""

    @pytest.fixture
    def recorder(self, url: str) -> Iterator[SqlRecorder]:
        with SqlRecorder.open(url) as recorder:
            yield recorder

    @pytest.mark.parametrize("partitions", [3, 50])
    def test_parts_prove_what_the_pages_proved(self, recorder: SqlRecorder, url: str, partitions: int) -> None:
        entries, gaps = eventful(partitions)
        pages, merging = LedgerPages(recorder.store), MergedPages(recorder.store, newest_kept=5)
        recorder.page(FLOW, entries)
        before = ledger_of(pages, gaps)
        assert before.problems == ()
        assert merging.merge(LATER - timedelta(days=2)).gone == 0  # nothing is so old
        found = merging.surplus(LATER)
        assert [page.entry for page in pages.pages(FLOW)] == entries
        assert merging.merge(LATER) == found
        kept = pages.pages(FLOW)
        # Parts end at what was held back, at the gap, where the flow was set back to, and before the newest pages.
        assert [page.number for page in kept] == [1, 20, 21, 41, 42, 73, 82, 83, 87, 88, 89, 90, 91, 92]
        assert (found.gone, found.single) == (len(entries) - len(kept), 1)
        assert merging.merge(LATER).gone == 0
        after = ledger_of(pages, gaps)
        for fact in ("start", "end", "problems", "bytes_by_state", "tables", "replayed", "pending"):
            assert getattr(after, fact) == getattr(before, fact), fact
        assert [(s.start, s.end) for s in after.gaps] == [(s.start, s.end) for s in before.gaps]
        # Each page has its report, which says the same; no other is left.
        commits = {page.entry.batch: page.entry for page in kept if page.entry and page.entry.action == "commit"}
        facts = LedgerReports(recorder.store).facts(FLOW)
        assert sorted(fact.batch for fact in facts) == sorted(commits)
        assert [fact.compared(commits[fact.batch]) for fact in facts] == [[]] * len(facts)
        # A place is found in its part, which says that it is one.
        one, next_one = entries[9].offset, entries[10].offset
        assert isinstance(one, KafkaOffsets)
        assert isinstance(next_one, KafkaOffsets)
        at = next_one.places()
        moved = next(place for place, where in at.items() if where != one.places()[place])
        with RecordReader(url) as records:
            (batch,) = Provenance(records).read(FLOW, f"wide[{moved[1]}]", at[moved][1] - 1)
            assert (batch.first_batch, batch.batch) == (1, 19)
            assert "batches 1–19 were merged" in batch.merged
            assert Provenance(records).bounds(FLOW, SOURCE, f"wide[{moved[1]}]") is not None

    def test_parts_grow_and_what_zookeeper_still_holds_is_not_paged_again(self, recorder: SqlRecorder) -> None:
        entries = history(60, 50)
        pages, merging = LedgerPages(recorder.store), MergedPages(recorder.store, newest_kept=5)
        recorder.page(FLOW, entries[:30])
        merging.merge(LATER)
        assert [page.number for page in pages.pages(FLOW)] == [1, 25, 26, 27, 28, 29, 30]
        # A claim pages out all that ZooKeeper has, which may be more than what was left single.
        assert recorder.page(FLOW, entries[10:40]) == 40
        assert [page.number for page in pages.pages(FLOW)] == [1, *range(25, 41)]
        assert len(LedgerReports(recorder.store).facts(FLOW)) == 16
        assert recorder.page(FLOW, entries[39:]) == 61
        merging.merge(LATER)
        kept = [page.entry for page in pages.pages(FLOW)]
        assert kept[2:] == entries[56:]
        part = kept[1]
        assert part is not None
        assert part.merged is not None
        assert (part.merged.first, part.merged.batch, part.merged.batches, part.bytes) == (2, 1, 55, 5_500)
        assert (part.previous, part.offset, part.batch) == (entries[0].offset, entries[55].offset, 55)

    def test_what_cannot_be_proved_stays_single(self, recorder: SqlRecorder) -> None:
        entries = history(20, 50)
        recorder.page(FLOW, entries)
        b = t.batches.c
        with recorder.store.transaction() as connection:
            connection.execute(t.batches.update().where(b.batch == 5).values(bytes=7))
            connection.execute(t.batches.delete().where(b.batch == 9))
            connection.execute(t.batches.update().where(b.batch == 12).values(lost="on_gap=earliest: wide[0]"))
        MergedPages(recorder.store, newest_kept=5).merge(LATER)
        numbers = [page.number for page in LedgerPages(recorder.store).pages(FLOW)]
        assert numbers == [1, 5, 6, 9, 10, 12, 13, 16, 17, 18, 19, 20, 21]

    def test_a_batch_that_was_in_flight_when_a_topic_was_accepted_stays_single(self, recorder: SqlRecorder) -> None:
        entries = history(20, 50)
        at = entries[7]
        accept = replace(
            at, number=9, action="accept", previous=at.offset, counts={}, receipts=(), plan_hash="", bytes=None,
            replaced=ReplacedOutputs(8, {"kafka": {"t": None}}),
        )  # fmt: skip
        moved = [replace(entry, number=entry.number + 1) for entry in entries[8:]]
        recorder.page(FLOW, [*entries[:8], accept, *moved])
        MergedPages(recorder.store, newest_kept=5).merge(LATER)
        kept = LedgerPages(recorder.store).pages(FLOW)
        assert [page.number for page in kept] == [1, 8, 9, 10, 17, 18, 19, 20, 21, 22]
        assert kept[2].entry == accept

    def test_two_that_merge_at_the_same_time_merge_once(self, recorder: SqlRecorder) -> None:
        entries = history(40, 50)
        recorder.page(FLOW, entries)
        merging, other = (MergedPages(recorder.store, newest_kept=5) for _ in range(2))
        groups = merging._groups(FLOW, 1, 30, [])  # looked at before the other one came
        group = next(groups)
        other.merge(LATER)
        before = [page.entry for page in LedgerPages(recorder.store).pages(FLOW)]
        merging._write(FLOW, 1, group)
        assert [page.entry for page in LedgerPages(recorder.store).pages(FLOW)] == before

    def test_runs_of_merged_batches_go_unless_they_were_judged(self, recorder: SqlRecorder) -> None:
        entries = [replace(entry, who=f"run-{entry.number // 4}") for entry in history(20, 50)]
        for entry in entries[1:]:
            recorder.record(report_of(entry))
        recorder.page(FLOW, entries)
        with recorder.store.transaction() as connection:
            judged = {"flow": FLOW, "run_id": "run-1", "success": True, "evaluated": 0, "violations": 0, "result": {}}
            connection.execute(t.quality_results.insert(), [{**judged, "evaluated_at": NOON}])
        MergedPages(recorder.store, newest_kept=5).merge(LATER)
        with recorder.store.transaction() as connection:
            runs = connection.execute(sa.select(t.runs.c.run_id).order_by(t.runs.c.id)).scalars().all()
        assert runs == ["run-1", "run-4", "run-5"]
