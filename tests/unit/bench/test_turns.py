"""What a turn tells: delays by number, what was lost or came twice, hand-overs and stages from the records."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from databus.bench import turns
from databus.bench.airflow.handovers import told
from databus.bench.delays import Reader
from databus.bench.loads import Load, LoadReceipt
from databus.bench.turns import SideRun
from databus.core.errors import ReconciliationError
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from tests.contract.record_samples import NOON, report

FLOW = "orders_to_kafka"


class Kept(Load):
    """Keeps what was sent."""

    def __init__(self, rows_per_s: int, together: int) -> None:
        super().__init__(rows_per_s, together)
        self.sent: list[tuple[int, int]] = []

    def send(self, first: int, count: int, sent_us: int) -> None:
        assert abs(sent_us / 1e6 - time.time()) < 60
        self.sent.append((first, count))

    def settle(self) -> None:
        assert self.sent


def turn(*delays_s: float, lost: int = 0, repeated: int = 0) -> SideRun:
    return SideRun(sorted(delays_s), len(delays_s), 1000.0, lost, repeated, {"run": 2.0})


def arrived(rows: list[tuple[int, int]]) -> Reader:
    """A reader to which rows (number, second of sending) came, each half a second after it was sent."""
    reader = Reader("nowhere:1", ["t"])
    for number, second in rows:
        value = b'{"id": %d, "sent_us": %d}' % (number, second * 1_000_000)
        reader._take(b'{"after": %s}' % value if number % 2 else value, second + 0.5 * number)
    reader._take(None, 0.0)
    return reader


def test_rows_are_numbered_through_all_calls() -> None:
    load = Kept(100_000, 4)
    assert load.write(0.0001).rows == 10
    assert load.write(0.00003).first == 11
    assert load.sent == [(1, 4), (5, 4), (9, 2), (11, 3)]
    assert load.written == 13


def test_a_rate_is_kept() -> None:
    load = Kept(200, 10)
    assert load.write(0.2).seconds >= 0.19


def test_only_rows_of_the_call_count_and_each_once() -> None:
    reader = arrived([(1, 10), (2, 20), (3, 20), (3, 20), (4, 21), (9, 30)])
    found = reader.delays(LoadReceipt(first=2, rows=4, seconds=1.0))
    assert (found.lost, found.repeated) == (1, 1)
    assert list(found.delays_s) == [1.0, 1.5, 2.0]
    assert found.by_second == {20: 1.5, 21: 2.0}


def test_a_row_lost_or_repeated_is_no_figure() -> None:
    turns.require_once([turn(1.0)])
    for bad in (turn(1.0, lost=1), turn(1.0, repeated=2)):
        with pytest.raises(ReconciliationError, match=r"of 1 rows \d were lost"):
            turns.require_once([turn(1.0), bad])


def test_figures_stand_beside_the_peers() -> None:
    figures = turns.compared("mm2", [turn(*[0.1] * 99, 0.9)], [turn(*[0.4] * 100)])
    assert figures["p50_to_mm2"] == pytest.approx(0.25)
    assert (figures["p99_s"], figures["max_s"], figures["mm2_p99_s"]) == (0.1, 0.9, 0.4)
    assert figures["cpu_seconds_per_1000_rows"] == pytest.approx(20.0)
    assert "p50_to_mm2" not in turns.compared("mm2", [turn(1.0)], [])
    assert {bar.key for bar in turns.bars("mm2")} <= figures.keys()


def test_hand_overs_are_counted_within_the_turns(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'records.db'}"
    with RecordStore(url) as store:
        recorder = SqlRecorder(store)
        # Batches are committed one a minute from noon on.
        for number, run in ((1, "r1"), (2, "r1"), (3, "r2"), (4, "r3"), (5, "r4")):
            recorder.record(report(number, run))
        recorder.record(report(1, "other", flow="another"))
    noon = NOON.timestamp()
    found = told(url, [FLOW], [(noon, noon + timedelta(minutes=4.5).total_seconds())])
    committed = [batch for batch in (1, 2, 3, 4) if noon + 60 * batch <= noon + 270]
    assert found.batches == len(committed)
    assert list(found.gaps_s[FLOW]) == [60.0] * (found.handovers)
    assert found.handovers == 2
    assert found.figures() == {"handovers": 2, "handover_p50_s": 60.0, "handover_max_s": 60.0}
    assert found.stages().keys() == report(1, "r1").durations_ms.keys()
    both = told(url, [FLOW, "another"], [(noon, noon + 3600)])
    assert both.handovers == 0  # the other flow had none
