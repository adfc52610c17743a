"""The mirror's own judge: it finds what is lost, twice, out of order, changed, misplaced or was never committed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.mirror.harness import SERVER_FAULTS
from tests.faults.mirror.oracle import Comparison, Record
from tests.faults.mirror.writer import ABORTED, COMMITTED, UNKNOWN
from tests.faults.oracle import Verdict
from tests.faults.schedule import TASK_FAULTS, schedule

HERE, THERE = ("t", 0), ("t", 1)


def record(stamp: int, key: Any = b"k", value: Any = b"v", headers: Any = None) -> Record:
    return stamp, key, value, headers


GIVEN = {
    1: record(1),
    2: record(2, None, None),
    3: record(3, b"", b"", [("a", b"1"), ("a", b"2"), ("n", None)]),
}


@pytest.mark.parametrize(
    ("arrived", "found"),
    [
        ([GIVEN[1], GIVEN[2], GIVEN[3]], {}),
        ([GIVEN[1], GIVEN[3]], {"lost": 1}),
        ([GIVEN[1], GIVEN[2]], {"lost": 1}),
        ([GIVEN[1], GIVEN[1], GIVEN[2], GIVEN[3]], {"duplicated": 1}),
        ([GIVEN[2], GIVEN[1], GIVEN[3]], {"lost": 1, "disordered": 1}),
        ([GIVEN[1], record(2, None, b""), GIVEN[3]], {"wrong": 1}),
        ([GIVEN[1], record(2, b"", None), GIVEN[3]], {"wrong": 1}),
        ([GIVEN[1], GIVEN[2], record(3, b"", b"", [("a", b"2"), ("a", b"1"), ("n", None)])], {"wrong": 1}),
        ([GIVEN[1], GIVEN[2], record(3, b"", b"", [("a", b"1"), ("a", b"2"), ("n", b"")])], {"wrong": 1}),
        ([GIVEN[1], GIVEN[2], GIVEN[3], record(9)], {"ghost": 1}),
    ],
)
def test_what_arrives_is_held_against_what_was_committed(arrived: list[Record], found: dict[str, int]) -> None:
    judge = Comparison(Verdict())
    for one in GIVEN.values():
        judge.of_source(HERE, one)
    for one in arrived:
        judge.of_target(HERE, one)
    judge.settle(dict.fromkeys(GIVEN, COMMITTED))
    assert dict(judge.verdict.counts) == found, judge.verdict.examples


def test_a_record_in_another_partition_is_wrong() -> None:
    judge = Comparison(Verdict())
    judge.of_source(HERE, GIVEN[1])
    judge.of_target(THERE, GIVEN[1])
    assert judge.verdict.counts["wrong"] == 1


@pytest.mark.parametrize(
    ("fate", "held", "found"),
    [(COMMITTED, False, "lost"), (ABORTED, True, "ghost"), (UNKNOWN, True, ""), (UNKNOWN, False, "")],
)
def test_the_source_is_held_against_what_the_writer_was_told(fate: str, held: bool, found: str) -> None:
    judge = Comparison(Verdict())
    if held:
        judge.of_source(HERE, GIVEN[1])
        judge.of_target(HERE, GIVEN[1])
    judge.settle({1: fate})
    assert "".join(judge.verdict.counts) == found


def test_every_kind_has_its_turn() -> None:
    kinds = {fault.kind for fault in schedule(200, 1, 0.25, of_servers=SERVER_FAULTS)}
    assert kinds == {*TASK_FAULTS, *SERVER_FAULTS}
