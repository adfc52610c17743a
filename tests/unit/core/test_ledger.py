"""The chain of history entries: what it covers, and that nothing wrong in it goes unnamed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.batches.counts import SinkCounts, TableCounts, by_sink
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import BinlogOffset, Offset, PreparedTransaction, SequenceOffset
from databus.core.state.checkpoint import Epoch, HistoryEntry
from databus.core.state.ledger import Ledger, SpanState
from databus.core.state.ledger_chain import build
from databus.core.state.merging import merged

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
TABLE = "shop.orders"


def entry(number: int, action: str, previous: Offset | None, offset: Offset, batch: int, **fields) -> HistoryEntry:
    values = {"epoch": Epoch(1), "counts": {}, "receipts": (), **fields}
    values.update(number=number, action=action, previous=previous, offset=offset, batch=batch)
    return HistoryEntry(who="run", why="", at=NOON, **values)


def receipt(batch: int, rows: int, sink: str = "kafka", rejected: int = 0) -> dict:
    return {"sink": sink, "slot": 0, "batch": batch, "written": rows, "rows": {TABLE: rows}, "rejected": rejected}


@dataclass
class Log:
    """A source's log of numbered bytes, and a flow that moves over it; `states` is the oracle, byte by byte."""

    at: int
    entries: list[HistoryEntry] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    states: dict[int, tuple[SpanState, int]] = field(default_factory=dict)
    batch: int = 0
    replayed: int = 0
    first: int = 0

    def __post_init__(self) -> None:
        self.first = self.at
        self.append("start", None, self.at)

    def append(self, action: str, previous: int | None, to: int, **fields) -> None:
        before = None if previous is None else SequenceOffset(previous)
        self.entries.append(entry(len(self.entries) + 1, action, before, SequenceOffset(to), self.batch, **fields))
        self.at = to

    def commit(self, size: int, dispatched: int, filtered: int, quarantined: int, burnt: int) -> None:
        self.batch += 1 + burnt
        read = dispatched + filtered + quarantined
        counts = {TABLE: TableCounts(read, filtered, quarantined, dispatched)} if read else {}
        state = {
            (True, False): SpanState.DISPATCHED,
            (True, True): SpanState.PARTLY_QUARANTINED,
            (False, True): SpanState.QUARANTINED,
            (False, False): SpanState.FILTERED,
        }[dispatched > 0, quarantined > 0]
        for position in range(self.at + 1, self.at + size + 1):
            self.states[position] = (state, len(self.entries) + 1)
        receipts = (receipt(self.batch, dispatched),)
        self.append("commit", self.at, self.at + size, counts=counts, receipts=receipts, bytes=size)

    def skip(self, size: int) -> None:
        number = len(self.gaps) + 1
        start, end = SequenceOffset(self.at), SequenceOffset(self.at + size)
        self.gaps.append(Gap(number, start, end, "purged", "skipped", "ada", "", NOON))
        for position in range(self.at + 1, self.at + size + 1):
            self.states[position] = (SpanState.GAP, len(self.entries) + 1)
        self.append("skip", self.at, self.at + size)

    def rewind(self, back: int) -> None:
        to = max(0, self.at - back)
        whole = {state[1] for position, state in self.states.items() if position > to}
        for number in whole:
            self.replayed += sum(c.dispatched for c in self.entries[number - 1].counts.values())
        self.states = {position: state for position, state in self.states.items() if position <= to}
        self.first = min(self.first, to)
        self.append("rewind", self.at, to)

    def pause(self) -> None:
        self.append("pause", self.at, self.at)

    def ledger(self) -> Ledger:
        return build("orders", self.entries, self.gaps)


SMALL = st.integers(0, 5)
COMMIT = st.tuples(st.just("commit"), st.integers(1, 9), SMALL, SMALL, SMALL, st.integers(0, 2))
STEPS = st.lists(
    st.one_of(
        COMMIT,
        COMMIT,
        st.just(("commit", 0, 0, 0, 0, 0)),
        st.tuples(st.just("skip"), st.integers(1, 9)),
        st.tuples(st.just("rewind"), st.integers(1, 30)),
        st.tuples(st.just("pause")),
    ),
    min_size=1,
    max_size=25,
)


def moved(steps, start: int = 20) -> Log:
    log = Log(start)
    for name, *arguments in steps:
        getattr(log, name)(*arguments)
    return log


@given(STEPS)
def test_every_byte_is_in_exactly_one_span_of_the_right_state(steps) -> None:
    log = moved(steps)
    ledger = log.ledger()
    assert ledger.problems == ()
    assert (ledger.start, ledger.end) == (SequenceOffset(log.first), SequenceOffset(log.at))
    told: dict[int, tuple[SpanState, int | None]] = {}
    place = log.first
    for span in ledger.spans:
        assert span.start == SequenceOffset(place)
        place = span.end.sequence  # type: ignore[attr-defined]
        for position in range(span.start.sequence + 1, place + 1):
            assert position not in told
            told[position] = (span.state, span.number)
    assert place == log.at
    assert told == log.states
    assert ledger.replayed == log.replayed


@given(STEPS)
def test_a_lone_sink_took_what_the_tables_count_as_dispatched(steps) -> None:
    ledger = moved(steps).ledger()
    dispatched = sum(counts.dispatched for counts in ledger.tables.values())
    assert ledger.sinks.get("kafka", SinkCounts()) == SinkCounts(dispatched)


@given(STEPS, st.data())
def test_what_is_taken_from_or_changed_in_a_chain_is_named(steps, data) -> None:
    log = moved([*steps, ("commit", 3, 2, 0, 0, 0), ("commit", 4, 1, 1, 1, 0)])
    where = data.draw(st.integers(1, len(log.entries) - 2), label="which entry")
    chosen = log.entries[where]
    harm = data.draw(st.sampled_from(["missing", "start", "end", "epoch", "twice"]), label="harm")
    if harm == "missing":
        del log.entries[where]
    elif harm == "twice":
        log.entries.insert(where, chosen)
    elif harm == "start":
        log.entries[where] = replace(chosen, previous=SequenceOffset(chosen.previous.sequence + 1))
    elif harm == "end":
        log.entries[where] = replace(chosen, offset=SequenceOffset(chosen.offset.sequence + 1))
    else:
        log.entries[where] = replace(chosen, epoch=Epoch(7))
    assert log.ledger().problems


@given(STEPS, st.sampled_from(["read", "filtered", "quarantined", "dispatched"]), st.data())
def test_a_changed_count_is_named(steps, column, data) -> None:
    log = moved([*steps, ("commit", 3, 2, 1, 1, 0)])
    commits = [n for n, e in enumerate(log.entries) if e.counts]
    where = data.draw(st.sampled_from(commits))
    counts = log.entries[where].counts[TABLE]
    wrong = replace(counts, **{column: getattr(counts, column) + 1})
    log.entries[where] = replace(log.entries[where], counts={TABLE: wrong})
    problems = log.ledger().problems
    assert any(f"entry {where + 1} (commit)" in str(problem) and TABLE in str(problem) for problem in problems)


@given(STEPS, st.data())
def test_a_gap_that_is_not_named_is_told(steps, data) -> None:
    log = moved([*steps, ("skip", 4), ("commit", 2, 1, 0, 0, 0)])
    gone = data.draw(st.sampled_from(log.gaps))
    same = [gap for gap in log.gaps if (gap.start, gap.end) == (gone.start, gone.end)]
    log.gaps = [gap for gap in log.gaps if gap not in same]
    assert any(f"from {gone.start} on to {gone.end}" in problem.problem for problem in log.ledger().problems)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"receipts": (receipt(1, 3),)}, "sink kafka confirms 3 rows, the counts hold 2 dispatched"),
        ({"receipts": ()}, "no sink confirms any"),
        ({"receipts": (receipt(9, 2),)}, "receipt of sink kafka for batch 9"),
        ({"receipts": (receipt(1, 2), receipt(1, 5, "search"))}, "sink search confirms 5 rows"),
        ({"batch": 0}, "commits batch 0 after batch 0"),
        ({"offset": SequenceOffset(15)}, "which goes back"),
    ],
)
def test_a_commit_must_agree_with_itself(changed, problem) -> None:
    log = moved([("commit", 3, 2, 0, 1, 0)])
    log.entries[1] = replace(log.entries[1], **changed)
    assert any(problem in str(found) for found in log.ledger().problems)


@pytest.mark.parametrize(("rows", "problems"), [(1, 1), (2, 0), (4, 0), (6, 0), (7, 1)])
def test_sinks_confirm_each_copy_of_a_row(rows, problems) -> None:
    """Of two rows that are dispatched and one that is held back, each is two copies at most; each has at least one."""
    log = moved([("commit", 3, 2, 0, 1, 0)])
    log.entries[1] = replace(log.entries[1], receipts=(receipt(1, rows),))
    assert len(build("orders", log.entries, log.gaps, copies=2).problems) == problems


def test_two_sinks_may_take_different_rows_of_a_batch() -> None:
    log = moved([("commit", 3, 5, 0, 1, 0)])
    log.entries[1] = replace(log.entries[1], receipts=(receipt(1, 5), receipt(1, 2, "search", rejected=1)))
    ledger = log.ledger()
    assert ledger.problems == ()
    assert ledger.sinks == {"kafka": SinkCounts(5), "search": SinkCounts(2, 1)}


@pytest.mark.parametrize(("rows", "left_out"), [(3, 2), (5, 0), (3, 1), (3, 0), (4, 2)])
def test_a_lone_sink_took_what_its_own_transforms_did_not_leave_out(rows: int, left_out: int) -> None:
    took = {**receipt(1, rows), "outputs": {"": {"filtered": left_out}}}
    log = moved([("commit", 3, 5, 0, 0, 0)])
    log.entries[1] = replace(log.entries[1], receipts=(took,))
    told = [each.problem for each in log.ledger().problems]
    own = f", of which its own transforms leave {left_out} out" if left_out else ""
    wrong = f"entry 2 (commit) sink kafka confirms {rows} rows, the counts hold 5 dispatched{own}"
    assert told == ([] if rows + left_out == 5 else [wrong])


def test_the_only_sink_that_goes_with_the_flow_need_not_take_all_of_a_batch() -> None:
    """Kafka takes no statements, nor rows of others' routes; the one that does stands behind, or was taken out."""
    both = (receipt(1, 2), receipt(1, 3, "search"))
    log = moved([("commit", 10, 5, 0, 0, 0), ("commit", 10, 3, 0, 0, 0)])
    log.entries[1] = replace(log.entries[1], receipts=both)
    log.entries[2] = replace(log.entries[2], receipts=(receipt(2, 0),))
    assert log.ledger().problems == ()
    log = moved([("commit", 10, 3, 0, 0, 0)])
    log.entries[1] = replace(log.entries[1], receipts=(receipt(1, 0),))
    behind = [entry(1, "detach", None, SequenceOffset(log.first), 0)]
    assert build("orders", log.entries, log.gaps, behind).problems == ()
    assert "confirms 0 rows, the counts hold 3" in str(log.ledger().problems[0])


def test_what_a_sink_did_while_it_was_behind_counts_as_its_own() -> None:
    """It fell behind after batch 1, took batches 3 and 4 alone, joined; then the flow was set back to batch 1's end."""
    log = moved([("commit", 10, 5, 0, 0, 0), ("commit", 10, 5, 0, 0, 0)])
    log.batch = 4
    log.append("join", log.at, log.at)
    own = [
        entry(1, "detach", None, SequenceOffset(30), 1),
        entry(2, "commit", SequenceOffset(30), SequenceOffset(35), 3, receipts=(receipt(3, 2, "search"),)),
        entry(3, "commit", SequenceOffset(35), SequenceOffset(40), 4, receipts=(receipt(4, 1, "search", rejected=2),)),
        entry(4, "join", SequenceOffset(40), SequenceOffset(40), 4),
    ]
    assert build("orders", log.entries, alone=own).sinks == {"kafka": SinkCounts(10), "search": SinkCounts(3, 2)}
    log.append("rewind", log.at, 30)
    assert build("orders", log.entries, alone=own).sinks == {"kafka": SinkCounts(5)}


def test_a_trimmed_history_covers_from_its_first_entry_on() -> None:
    log = moved([("commit", 3, 2, 0, 0, 0), ("commit", 4, 2, 0, 0, 0)])
    ledger = build("orders", log.entries[2:])
    assert ledger.problems == ()
    assert (ledger.start, ledger.end) == (SequenceOffset(23), SequenceOffset(27))


def test_a_hole_is_a_span_of_its_own() -> None:
    log = moved([("commit", 3, 2, 0, 0, 0)] * 3)
    del log.entries[2]
    ledger = log.ledger()
    assert [(s.start.sequence, s.end.sequence, s.state) for s in ledger.spans] == [  # type: ignore[attr-defined]
        (20, 23, "dispatched"),
        (23, 26, "unknown"),
        (26, 29, "dispatched"),
    ]
    assert "follows 2: entries 3–3 are missing" in str(ledger.problems[0])


def test_a_flow_that_starts_anew_is_named_and_covers_from_there() -> None:
    log = moved([("commit", 3, 2, 0, 0, 0)])
    log.append("start", None, 70)
    ledger = log.ledger()
    assert ledger.start == ledger.end == SequenceOffset(70)
    assert [str(p) for p in ledger.problems] == ["history: entry 3 (start) starts the flow anew at 70; it stood at 23"]


def test_bytes_of_prepared_transactions_are_pending() -> None:
    prepared = PreparedTransaction("X'01',X'',1", "bin.000001", 150, 190)
    places = [BinlogOffset("bin.000001", pos) for pos in (100, 200, 300)]
    end = replace(places[2], prepared=(prepared,))
    entries = [
        entry(1, "start", None, places[0], 0),
        entry(2, "commit", places[0], replace(places[1], prepared=(prepared,)), 1, bytes=100),
        entry(3, "commit", places[1], end, 2, bytes=100),
    ]
    ledger = build("orders", entries)
    assert ledger.pending == (prepared,)
    assert {s: b for s, b in ledger.bytes_by_state.items() if b} == {"filtered": 160, "pending": 40}


def test_an_adoption_after_what_pages_know_says_only_the_rest_is_not_counted() -> None:
    """Pages hold batches 1 to 3, ZooKeeper came back from a copy of after batch 1, the sinks stand after batch 4."""
    log = moved([("commit", 10, 5, 0, 0, 0)] * 3)
    copied = log.entries[1]
    adoption = replace(
        log.entries[-1], number=5, action="adopt", previous=copied.offset, offset=SequenceOffset(60), batch=4, epoch=1,
        counts={}, receipts=(), bytes=None,
    )  # fmt: skip
    ledger = build("orders", [*log.entries, adoption])
    (problem,) = ledger.problems
    assert "adopts (50, 60] from the sinks' markers" in problem.problem
    last = ledger.spans[-1]
    assert (last.state, last.start, last.end, last.cause) == (
        SpanState.UNKNOWN, SequenceOffset(50), SequenceOffset(60), "adopt",
    )  # fmt: skip
    assert [span.state for span in ledger.spans[:-1]] == [SpanState.DISPATCHED] * 3
    known = build("orders", [*log.entries, replace(adoption, offset=SequenceOffset(50), batch=3)])
    assert (known.problems, known.end) == ((), SequenceOffset(50))
    without_pages = build("orders", [*log.entries[:2], adoption])
    assert [span.state for span in without_pages.spans] == [SpanState.DISPATCHED, SpanState.UNKNOWN]
    assert any("adopts (30, 60]" in problem.problem for problem in without_pages.problems)


def test_a_history_may_begin_with_an_adoption() -> None:
    first = replace(Log(20).entries[0], action="adopt", previous=None, batch=7)
    ledger = build("orders", [first])
    assert (ledger.problems, ledger.start, ledger.end) == ((), SequenceOffset(20), SequenceOffset(20))


def with_statements(batch: int, rows: int, statements: int, rejected: int = 0) -> HistoryEntry:
    """Return a commit of one search sink, whose receipt counts statements among its rows as the batch does."""
    counts = {
        TABLE: TableCounts(rows + rejected, 0, rejected, rows),
        "(statements)": TableCounts(statements, 0, 0, statements),
    }
    took = {**receipt(batch, rows + statements, "search", rejected), "outputs": {"": {"statements": statements}}}
    before, after = SequenceOffset(10 * batch - 10), SequenceOffset(10 * batch)
    return entry(batch + 1, "commit", before, after, batch, counts=counts, receipts=(took,), bytes=10, plan_hash="p")


def test_a_search_sinks_documents_and_statements_are_told_apart_and_the_ledger_adds_up() -> None:
    start = entry(1, "start", None, SequenceOffset(0), 0)
    commits = [with_statements(1, 4, 2), with_statements(2, 3, 1, rejected=1)]
    ledger = build("orders", [start, *commits])
    assert ledger.problems == ()
    assert ledger.sinks == {"search": SinkCounts(dispatched=7, rejected=1, statements=3)}
    assert ledger.sinks["search"].to_json() == {"dispatched": 7, "rejected": 1, "statements": 3}
    dispatched = sum(counts.dispatched for counts in ledger.tables.values())
    assert dispatched == 7 + 3
    assert by_sink(ledger.sinks) == "search took 7 besides 3 statements and refused 1"


def test_merged_batches_go_on_telling_statements_apart() -> None:
    start = entry(1, "start", None, SequenceOffset(0), 0)
    together = merged([with_statements(1, 4, 2), with_statements(2, 3, 1)])
    ledger = build("orders", [start, together])
    assert ledger.problems == ()
    assert ledger.sinks == {"search": SinkCounts(dispatched=7, statements=3)}


def test_receipts_of_before_statements_were_told_apart_add_up_as_they_did() -> None:
    counts = {TABLE: TableCounts(4, 0, 0, 4), "(statements)": TableCounts(1, 0, 0, 1)}
    old = entry(2, "commit", SequenceOffset(0), SequenceOffset(9), 1, counts=counts, receipts=(receipt(1, 5),))
    ledger = build("orders", [entry(1, "start", None, SequenceOffset(0), 0), old])
    assert ledger.problems == ()
    assert ledger.sinks["kafka"].to_json() == {"dispatched": 5, "rejected": 0}
