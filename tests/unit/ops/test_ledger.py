"""History and pages read as one, and the figures shown of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from databus import Flow, Mock, Noop
from databus.core.batches.counts import TableCounts
from databus.core.positions.gaps import Gap
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch, HistoryEntry, ReplacedOutputs
from databus.core.state.ledger_chain import build
from databus.core.state.merging import merged as merge
from databus.ops.ledger.show import LedgerState, begins_anew, merged, summary
from databus.ops.ledger.sinks import _ledger_evidence
from databus.records.ledger.page_rows import Page
from databus.sinks.kafka.evidence import accepted_notes, output_problems

NOON = datetime(2026, 1, 1, tzinfo=UTC)
CHECKPOINT = Checkpoint(SequenceOffset(6), 7, Epoch(1), "run", "", {}, None, NOON)


def entry(number: int, action: str = "commit", **fields) -> HistoryEntry:
    previous = None if action == "start" else SequenceOffset(number - 2)
    rows = {"shop.orders": TableCounts(3, 1, 0, 2)} if action == "commit" else {}
    receipts = ({"sink": "kafka", "batch": number - 1, "rows": {"shop.orders": 2}},) if rows else ()
    made = HistoryEntry(
        number, action, "run", "", previous, SequenceOffset(number - 1), number - 1, Epoch(1), rows, receipts, NOON,
        bytes=1,
    )  # fmt: skip
    return replace(made, **fields)


CHAIN = [entry(1, "start"), *(entry(n) for n in range(2, 8))]


def pages(entries) -> list[Page]:
    return [Page(1, e.number, e) for e in entries]


def state(history, paged, gaps=()) -> LedgerState:
    entries = merged(history, paged)
    ledger = build("orders", entries, gaps)
    return LedgerState("orders", None, None, tuple(history), tuple(gaps), tuple(paged), entries, ledger)


def test_pages_go_on_where_history_was_trimmed() -> None:
    assert merged(CHAIN[4:], pages(CHAIN[:5])) == tuple(CHAIN)
    assert state(CHAIN[4:], pages(CHAIN[:5])).unpaged == 2


def test_history_wins_where_both_have_an_entry() -> None:
    changed = replace(CHAIN[5], who="other")
    assert merged(CHAIN[4:], pages([*CHAIN[:5], changed]))[5] == CHAIN[5]


def test_pages_of_an_earlier_life_are_left_out() -> None:
    former = [replace(e, epoch=Epoch(9)) for e in CHAIN]
    assert begins_anew(CHAIN[:2], pages(former))
    assert merged(CHAIN[:2], pages(former)) == tuple(CHAIN[:2])
    assert not begins_anew(CHAIN, pages(CHAIN))
    assert not begins_anew(CHAIN[2:], pages(former))


def test_a_page_that_cannot_be_read_leaves_a_hole_only_where_history_is_trimmed() -> None:
    broken = [Page(1, 3, None, "not JSON") if p.number == 3 else p for p in pages(CHAIN)]
    assert state(CHAIN, broken).ledger.problems == ()
    hole = state(CHAIN[4:], broken)
    assert "entries 3–3 are missing" in str(hole.ledger.problems[0])
    assert [span["kind"] for span in summary(hole)["spans"]] == ["read", "unknown", "read"]


def test_the_summary_adds_up() -> None:
    shown = summary(state(CHAIN, pages(CHAIN)))
    assert shown["sinks"] == {"kafka": {"dispatched": 12, "rejected": 0}}
    assert shown["rows"] == {"read": 18, "filtered": 6, "quarantined": 0, "dispatched": 12}
    assert (shown["bytes"], shown["bytes_by_state"]) == (6, {"dispatched": 6})
    (span,) = shown["spans"]
    assert (span["from"], span["to"], span["batches"], span["bytes"], span["read"]) == ("0", "6", "1–6", 6, 18)


def test_bytes_of_a_batch_that_holds_rows_back_are_not_told_as_dispatched() -> None:
    held = TableCounts(3, 0, 1, 2)
    chain = [replace(e, counts={"shop.orders": held}) if e.number == 4 else e for e in CHAIN]
    chain[2] = replace(chain[2], counts={"shop.orders": TableCounts(2, 1, 1, 0)}, receipts=())
    shown = summary(state(chain, pages(chain)))
    assert shown["bytes_by_state"] == {"dispatched": 4, "partly_quarantined": 1, "quarantined": 1}
    assert shown["rows"] == {"read": 17, "filtered": 5, "quarantined": 2, "dispatched": 10}


def test_a_gap_stands_for_itself() -> None:
    skip = replace(entry(8, "skip"), counts={}, receipts=(), bytes=None)
    after = replace(entry(9), batch=8, receipts=({"sink": "kafka", "batch": 8, "rows": {"shop.orders": 2}},))
    gap = Gap(1, SequenceOffset(6), SequenceOffset(7), "purged", "skipped", "ada", "", NOON)
    shown = summary(state([*CHAIN, skip, after], pages(CHAIN), [gap]))
    assert [(s["kind"], s["batches"]) for s in shown["spans"]] == [
        ("read", "1–6"),
        ("gap: purged", None),
        ("read", "8"),
    ]
    assert [g["cause"] for g in shown["gaps"]] == ["purged"]


def test_of_what_was_merged_the_page_counts_also_while_history_still_has_some_of_it() -> None:
    part = merge(CHAIN[1:5])
    kept = [*pages(CHAIN[:1]), Page(1, part.number, part), *pages(CHAIN[5:])]
    assert (part.number, part.first, part.batch, part.bytes) == (5, 2, 4, 4)
    assert merged(CHAIN[3:], kept) == (CHAIN[0], part, *CHAIN[5:])
    one, several = state(CHAIN[3:], pages(CHAIN)), state(CHAIN[3:], kept)
    assert several.ledger.problems == ()
    assert {**summary(several), "entries": 0} == {**summary(one), "entries": 0}
    alone = summary(state([], [kept[0], kept[1]]))
    assert alone["spans"][0]["batches"] == "1–4"
    hole = state([], [kept[0], Page(1, 6, merge(CHAIN[3:6]))])
    assert "entries 2–3 are missing" in str(hole.ledger.problems[0])


def test_what_a_sink_wrote_alone_lies_behind_the_part_that_was_merged_around_it() -> None:
    def wrote(batch: int, first: int) -> dict:
        facts = {"first_offset": first, "last_offset": first + 1, "records": 2}
        return {"sink": "kafka", "batch": batch, "rows": {"shop.orders": 2}, "outputs": {"t[0]": facts}}

    alone, behind = wrote(4, 20), (replace(entry(9), receipts=(wrote(4, 20),), batch=4),)
    chain = [
        *(replace(e, receipts=(wrote(e.batch, e.batch * 2),)) for e in CHAIN[1:3]),
        *(replace(e, receipts=(), batch=e.batch + 3) for e in CHAIN[3:5]),  # it was behind
    ]
    flow = Flow(name="orders", source=Mock(rows=1), sinks=(Noop(name="kafka"),))
    claim = _ledger_evidence(flow, state([], [Page(1, 5, merge(chain))]), "kafka", behind, (CHECKPOINT, None))
    assert [receipt["outputs"]["t[0]"]["first_offset"] for _, receipt in claim.receipts] == [2, 20]
    assert claim.receipts[-1] == (4, alone)
    assert output_problems(claim, {"t[0]": 22}) == []


def wrote(batch: int, first: int) -> tuple[dict]:
    facts = {"first_offset": first, "last_offset": first + 1, "records": 2}
    return ({"sink": "kafka", "batch": batch, "rows": {"shop.orders": 2}, "outputs": {"t[0]": facts}},)


FLOW = Flow(name="orders", source=Mock(rows=1), sinks=(Noop(name="kafka"),))


@pytest.mark.parametrize("action", ["accept", "rewind"])
@pytest.mark.parametrize("paged", [False, True])
def test_outputs_count_from_when_they_were_last_accepted(action: str, paged: bool) -> None:
    former = [replace(e, receipts=wrote(e.batch, e.batch * 2)) for e in CHAIN[1:4]]
    accepted = entry(5, action, batch=3, replaced=ReplacedOutputs(3, {"kafka": {"t": None}, "other": {"u": None}}))
    since = [replace(entry(n), batch=n - 2, receipts=wrote(n - 2, (n - 6) * 2)) for n in (6, 7)]
    before = [merge(former)] if paged else former
    claim = _ledger_evidence(FLOW, state([], pages([*before, accepted, *since])), "kafka", (), (CHECKPOINT, None))
    assert set(claim.accepted) == {"t"}
    assert output_problems(claim, {"t[0]": 4}) == []
    assert len(accepted_notes(claim)) == 1
    assert output_problems(claim, {"t[0]": 3}) == ["t[0] ends at 3, batch 5 wrote up to 3: records were lost"]
    untold = [*before, replace(accepted, replaced=None), *since]
    silent = _ledger_evidence(FLOW, state([], pages(untold)), "kafka", (), (CHECKPOINT, None))
    assert output_problems(silent, {"t[0]": 4}) != []


def test_what_was_accepted_while_a_sink_was_behind_is_later_than_the_part_around_it() -> None:
    shared = [replace(e, receipts=wrote(e.batch, 40 + e.batch * 2)) for e in CHAIN[1:3]]
    beside = [replace(e, receipts=(), batch=e.batch + 3) for e in CHAIN[3:5]]
    own = (entry(1, "accept", batch=2, replaced=ReplacedOutputs(2, {"kafka": {"t": "new"}})),
           replace(entry(2), batch=4, receipts=wrote(4, 0)))  # fmt: skip
    claim = _ledger_evidence(FLOW, state([], pages([merge([*shared, *beside])])), "kafka", own, (CHECKPOINT, None))
    assert output_problems(claim, {"t[0]": 2}) == []
    assert output_problems(claim, {"t[0]": 1}) == ["t[0] ends at 1, batch 4 wrote up to 1: records were lost"]


@pytest.mark.parametrize("paged", [False, True])
def test_a_batch_in_flight_that_a_sink_took_along_is_no_part_that_ends_with_its_number(paged: bool) -> None:
    """The flow commits it as well, without the sink: a part that ends there tells what the sink wrote before."""
    shared = [replace(e, receipts=wrote(e.batch, 40 + e.batch * 2)) for e in CHAIN[1:4]]
    flows = [*shared, replace(CHAIN[4], receipts=())]
    own = (entry(1, "detach", batch=3),
           entry(2, "accept", batch=3, replaced=ReplacedOutputs(4, {"kafka": {"t": "new"}}, {"kafka": {"t[0]": 1}})),
           replace(entry(3), batch=4, receipts=wrote(4, 0)))  # fmt: skip
    there = [merge(flows)] if paged else flows
    claim = _ledger_evidence(FLOW, state([], pages(there)), "kafka", own, (CHECKPOINT, None))
    assert output_problems(claim, {"t[0]": 1}) == []
    lost = "t[0] ends at 0, batch 4 wrote 1 records there since it was accepted: records were lost"
    assert output_problems(claim, {"t[0]": 0}) == [lost]
    assert accepted_notes(claim)[0].endswith("not looked for, but for what batch 4 wrote since")
