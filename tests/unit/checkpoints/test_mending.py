"""Rules of gaps that a snapshot mends: what each gap says, and what an older databus wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from databus.checkpoints.rules.mending import begun_repair, decided, decision_of, gap_of
from databus.core.errors import CheckpointConflictError
from databus.core.positions.gaps import OPEN, SKIPPED, Gap
from databus.core.positions.offsets import SequenceOffset
from databus.core.state.amendments import Amendment
from databus.core.state.snapshot import Snapshot, TableProgress

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
TABLES = tuple(TableProgress(f"shop.t{number}") for number in range(7))
REPAIR = Snapshot(4, "repair", NOON, TABLES, mends=(2, 3))


def gap(number: int, decision: str = SKIPPED) -> Gap:
    return Gap(number, SequenceOffset(10), SequenceOffset(30), "purged", decision, "ada", "gone", NOON)


def test_gaps_in_a_stored_form_are_an_addition() -> None:
    plain = replace(REPAIR, mends=())
    assert "mends" not in plain.to_json()
    assert plain.to_json()["v"] == 1
    assert REPAIR.to_json()["v"] == 3
    for snapshot in (plain, REPAIR):
        assert Snapshot.from_json(json.loads(json.dumps(snapshot.to_json()))) == snapshot


@pytest.mark.parametrize(
    ("stands", "says"),
    [
        (REPAIR, "being mended by snapshot 4"),
        (replace(REPAIR, paused=True), "being mended by snapshot 4"),
        (replace(REPAIR, finished_at=NOON), "mended by snapshot 4"),
        (replace(REPAIR, finished_at=NOON, cancelled=True), SKIPPED),
        (
            replace(REPAIR, finished_at=NOON, tables=tuple(replace(table, state="gone") for table in TABLES)),
            "mended by snapshot 4, but for shop.t0, shop.t1, shop.t2, shop.t3, shop.t4 and 2 more (gone)",
        ),
    ],
)
def test_a_gap_says_how_its_snapshot_stands(stands: Snapshot, says: str) -> None:
    assert decision_of(stands) == says
    gaps = [gap(1), gap(2, "before"), gap(3, says), gap(4, OPEN)]
    assert decided(gaps, stands) == [gap(2, says)]
    assert decided(gaps, None) == []
    assert decided(gaps, replace(stands, mends=())) == []


def test_a_gap_is_named_with_what_mends_it() -> None:
    skip = Amendment("skip", "ada", "gone", SequenceOffset(30), gap=gap(0))
    assert gap_of(skip) == gap(0)
    assert gap_of(replace(skip, repair=REPAIR)) == gap(0, "being mended by snapshot 4")
    assert gap_of(replace(skip, gap=None, repair=REPAIR)) is None


def test_a_repair_takes_over_what_the_unfinished_one_was_to_mend() -> None:
    wanted = replace(REPAIR, mends=())
    assert begun_repair("orders", None, replace(wanted, number=1), 5).mends == (5,)
    unfinished = replace(REPAIR, number=3)
    assert begun_repair("orders", unfinished, wanted, 5).mends == (2, 3, 5)
    assert begun_repair("orders", replace(unfinished, finished_at=NOON), wanted, 5).mends == (5,)
    for number, refused in ((2, wanted), (4, wanted), (3, replace(wanted, paused=True, finished_at=NOON))):
        with pytest.raises(CheckpointConflictError):
            begun_repair("orders", replace(unfinished, number=number), refused, 5)
    for table in (replace(TABLES[0], where="id > 3"), replace(TABLES[0], chunks=1)):
        with pytest.raises(CheckpointConflictError, match="all rows"):
            begun_repair("orders", unfinished, replace(wanted, tables=(table,)), 5)
