"""Ranges are cut without loss or overlap; a backfill is known by what it wants, however it was worded."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from databus.core.errors import BackfillRangeError
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, OffsetRange, PreparedTransaction, SequenceOffset
from databus.core.state.backfill import Aim, Backfill, Boundary, Mode, aim_of, backfill_id, dag_name, pieces_moved_by

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def test_the_same_range_is_the_same_backfill_whatever_else_is_known_of_its_places() -> None:
    def made(**known: object) -> Backfill:
        start = BinlogOffset("bin.000001", 100, **known)  # type: ignore[arg-type] # any fields
        wanted = OffsetRange(start, BinlogOffset("bin.000002", 4, **known))  # type: ignore[arg-type] # any fields
        return Backfill("orders", Aim(Mode.REPLAY, ".replay"), wanted, ("a", "b"), (wanted,), "ada", NOW)

    prepared = PreparedTransaction("X'61',X'',1", "bin.000001", 10, 90)
    assert made().id == made(prepared=(prepared,)).id
    assert made().piece_name(0) == f"orders.backfill-{made().id}-0"
    other = Backfill("orders", Aim(Mode.REPLAY, ".replay", "again"), made().range, ("a", "b"), (), "ada", NOW)
    assert other.id != made().id
    assert Backfill.from_json(made(prepared=(prepared,)).to_json()) == made(prepared=(prepared,))
    boundary = Boundary(NOW, SequenceOffset(5))
    assert Boundary.from_json(boundary.to_json()) == boundary


def test_the_pieces_of_a_flow_are_known_by_the_name_of_its_backfill_dag() -> None:
    wanted = OffsetRange(SequenceOffset(1), SequenceOffset(5))
    made = Backfill("my_orders", Aim(Mode.MISSING), wanted, ("a", "b"), (wanted,), "ada", NOW)
    beginning = pieces_moved_by(dag_name("my_orders"))
    assert beginning is not None
    assert made.piece_name(0).startswith(beginning)
    assert not made.piece_name(0).startswith(pieces_moved_by(dag_name("my")) or "")
    assert [pieces_moved_by(name) for name in ("my_orders", "_backfill", "backfill", "")] == [None] * 4


def test_aims() -> None:
    assert aim_of(Mode.MISSING, ".replay", "", into_live=False) == Aim(Mode.MISSING)
    assert aim_of(Mode.REPLAY, ".replay", "x", into_live=False) == Aim(Mode.REPLAY, ".replay", "x")
    assert aim_of(Mode.REPLAY, ".replay", "", into_live=True) == Aim(Mode.REPLAY)
    with pytest.raises(BackfillRangeError, match="a replay needs a suffix"):
        aim_of(Mode.REPLAY, "", "", into_live=False)


def test_two_ranges_of_many_partitions_are_two_backfills_also_where_their_texts_are_the_same() -> None:
    def made(last: int, **known: object) -> str:
        positions = {"orders": {**dict.fromkeys(range(40), 5), 40: last}}
        end = KafkaOffsets(positions, **known)  # type: ignore[arg-type] # any fields
        return backfill_id(Aim(Mode.REPLAY, ".replay"), OffsetRange(KafkaOffsets({}), end))

    assert made(6) != made(7)
    assert made(6) == made(6, ids={"orders": "x"}, epochs={"orders": {0: 3}})
    assert made(6) != made(6, generations={"orders": {0: 1}})
