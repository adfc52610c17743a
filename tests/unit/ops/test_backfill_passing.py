"""Transactions by statement in a backfill's range: passed where the flow was moved over them, or a person says so."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from databus import Flow, Kafka, Mock
from databus.core.errors import DecodeError
from databus.core.positions.gaps import OPEN, SKIPPED, Gap
from databus.core.positions.offsets import KafkaOffsets, Offset, OffsetRange, SequenceOffset
from databus.core.state.backfill import Aim, Backfill, Mode
from databus.ops.backfill.passed_statements import pass_by_statement
from databus.ops.checkpoint import amend as mediation

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
FLOW = Flow(name="orders", source=Mock(tables=("shop.orders",), rows=1), sinks=(Kafka(conn_id="k", topic="t"),))


def at(place: int) -> SequenceOffset:
    return SequenceOffset(place)


def gap(start: Offset, end: Offset, decision: str = SKIPPED) -> Gap:
    return Gap(1, start, end, "skip", decision, "ada", "told", NOON)


class Passing:
    """A piece (0, 100] that stands in front of a transaction, which lies in (10, 20]."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *gaps: Gap, end: int = 20, pending: Any = None) -> None:
        self.done: list[Any] = []
        self.services: Any = SimpleNamespace(store=SimpleNamespace(gaps=lambda _: gaps))
        move = SimpleNamespace(start=at(10), end=at(end), pending=pending)
        monkeypatch.setattr(mediation, "preview", lambda *_: move)
        monkeypatch.setattr(mediation, "execute", lambda flow, *said: self.done.append((flow, said)))

    def run(self, *, passes: bool = False, behind: str = "bin.000001:20", mode: Mode = Mode.MISSING) -> None:
        piece = OffsetRange(at(0), at(100))
        aim = Aim(mode, ".again" if mode is Mode.REPLAY else "")
        backfill = Backfill("orders", aim, piece, ("2026-11-25", "2026-11-26"), (piece,), "ada", NOON)
        stopped = DecodeError("changes rows by statement")
        stopped.behind = behind
        pass_by_statement(FLOW, self.services, (backfill, 0), stopped, ("run-1", passes))


@pytest.mark.parametrize("passed", [gap(at(10), at(20)), gap(at(5), at(50))])
def test_what_the_flow_was_moved_over_is_decided(monkeypatch: pytest.MonkeyPatch, passed: Gap) -> None:
    passing = Passing(monkeypatch, passed)
    passing.run()
    ((piece, (_, action, target, said)),) = passing.done
    assert piece.name.startswith("orders.backfill-missing-")
    assert (action, target.place, said.who) == ("skip", "bin.000001:20", "run-1")
    assert "the flow was moved over it" in said.why


@pytest.mark.parametrize(
    "others",
    [(), (gap(at(20), at(50)),), (gap(at(10), at(20), OPEN),), (gap(KafkaOffsets({}), KafkaOffsets({"t": {0: 9}})),)],
)
def test_what_nobody_decided_on_is_asked_about(monkeypatch: pytest.MonkeyPatch, others: tuple[Gap, ...]) -> None:
    passing = Passing(monkeypatch, *others)
    with pytest.raises(DecodeError) as stopped:
        passing.run(mode=Mode.REPLAY)
    assert (
        "databus backfill orders --from 2026-11-25 --to 2026-11-26 --mode replay --suffix .again --past-statements"
        in stopped.value.hint
    )
    assert not passing.done
    passing.run(passes=True)
    assert "on request" in passing.done[0][1][-1].why


@pytest.mark.parametrize("where", [{"end": 101}, {"pending": "a plan"}])
def test_a_piece_that_cannot_go_behind_it_stays(monkeypatch: pytest.MonkeyPatch, where: dict[str, Any]) -> None:
    passing = Passing(monkeypatch, gap(at(10), at(200)), **where)
    with pytest.raises(DecodeError, match="changes rows by statement"):
        passing.run(passes=True)
    assert not passing.done


def test_nothing_else_that_stops_a_piece_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    passing = Passing(monkeypatch, gap(at(0), at(100)))
    with pytest.raises(DecodeError):
        passing.run(passes=True, behind="")
    assert not passing.done
