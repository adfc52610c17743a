"""A place is shown as it may be typed, never as JSON; of many partitions the first few and their number."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from databus.cli.backfill import _COLUMNS, _row, _shown
from databus.cli.terminal.cells import printed, printed_lines
from databus.cli.terminal.output import OUT, Format, show_one, show_rows
from databus.cli.terminal.places import place
from databus.core.batches.counts import TableCounts
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, OffsetRange, SequenceOffset
from databus.core.state.backfill import Backfill, Mode, aim_of
from databus.ops.backfill.status import BackfillState, PieceState
from databus.sources.kafka.spec import named_offsets

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
BINLOG = BinlogOffset("mysql-bin.000042", 1_234_567, "b7a5a3f0-91c5-11ef-8c4a-0242ac120002:1-9")
LATER = BinlogOffset("mysql-bin.000043", 400)
FEW = KafkaOffsets({"orders": {0: 17, 1: 1_234_567}, "items": {0: 3}})
MANY = KafkaOffsets({"orders": {partition: 10 * partition for partition in range(24)}})
FEW_TEXT = "offsets:items:0:3,orders:0:17,orders:1:1234567"
NEXT_TEXT = "24 partitions: orders:0:9, orders:1:10, orders:2:20, …"
MANY_TEXT = "24 partitions: orders:0:0, orders:1:10, orders:2:20, …"


@pytest.mark.parametrize(
    ("offset", "text"),
    [(BINLOG, "mysql-bin.000042:1234567"), (FEW, FEW_TEXT), (MANY, MANY_TEXT), (SequenceOffset(1_000), "1000")],
)
def test_a_place_reads_as_it_is_typed_in_every_form_it_comes_in(offset: BinlogOffset, text: str) -> None:
    assert place(offset) == text
    assert printed(offset.to_json()) == text
    assert printed_lines(offset.to_json(), "offset") == [text]
    assert printed(str(offset), "offset") == text


def test_what_is_shown_of_a_few_partitions_can_be_typed() -> None:
    assert named_offsets(place(FEW)) == {("items", 0): 3, ("orders", 0): 17, ("orders", 1): 1_234_567}


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (BINLOG, LATER, "mysql-bin.000042:1234567 → mysql-bin.000043:400"),
        (KafkaOffsets({"orders": {0: 1}}), KafkaOffsets({"orders": {0: 9}}), "offsets:orders:0:1 → offsets:orders:0:9"),
        (KafkaOffsets({}), KafkaOffsets({"orders": {0: 9}}), "no partitions → offsets:orders:0:9"),
        (SequenceOffset(1), SequenceOffset(2_000), "1 → 2000"),
        (MANY, KafkaOffsets({"orders": {**MANY.positions["orders"], 0: 9}}), f"{MANY_TEXT} → {NEXT_TEXT}"),
    ],
)
def test_a_range_reads_from_place_to_place(start: BinlogOffset, end: BinlogOffset, text: str) -> None:
    moved = OffsetRange(start, end)
    assert printed(moved.to_json()) == printed_lines(moved.to_json(), "range")[0] == text
    if not isinstance(start, KafkaOffsets) or start.positions:
        assert printed(str(moved), "range") == text
        assert printed(f"batch 7 {moved}", "plan_in_flight") == f"batch 7 {text}"


@pytest.mark.parametrize("text", ["0-1-100:0:0", "b7a5a3f0-91c5-11ef-8c4a-0242ac120002:12:0:0", "10:00:00", "(a, b]"])
def test_what_only_looks_like_a_place_is_left_alone(text: str) -> None:
    assert printed(text, "event_id") == printed(text, "key") == text


def test_times_and_words_of_a_field_of_places_are_left_alone() -> None:
    for text in (
        "2026-11-25T10:00:00+00:00",
        "2026-11-25T10:00:00",
        "earliest",
        "offsets:orders:0:17,orders:1:9",
        "gtid:0-1-100",
    ):
        assert printed(text, "from") == text


def state(start: BinlogOffset, end: BinlogOffset, stands: BinlogOffset | None) -> BackfillState:
    moved, rows = OffsetRange(start, end), TableCounts(1_200 if stands else 0, 0, 0, 1_200 if stands else 0)
    aim = aim_of(Mode.REPLAY, ".replay", "", into_live=False)
    backfill = Backfill("orders", aim, moved, ("2026-11-01", "latest"), (moved,), "ada@host", NOON)
    return BackfillState(backfill, (PieceState("orders.1", moved, stands, rows, {}, 9, 1, False, (), ()),))


@pytest.mark.parametrize(
    ("stands", "told_of_it"),
    [
        (None, "not begun"),
        (BinlogOffset("mysql-bin.000042", 2_000_000), "stands at mysql-bin.000042:2000000, 1,200 rows read"),
        (LATER, "done, 1,200 rows read"),
    ],
)
def test_a_backfill_is_told_without_json(
    stands: BinlogOffset | None, told_of_it: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(OUT, "width", 80)
    found = state(BINLOG, LATER, stands).to_json()
    show_one(_shown(found, Format.TABLE), Format.TABLE)
    shown = capsys.readouterr().out
    assert "{" not in shown
    assert "range    mysql-bin.000042:1234567 → mysql-bin.000043:400" in shown.splitlines()
    assert f"pieces mysql-bin.000042:1234567 → mysql-bin.000043:400: {told_of_it}" in " ".join(shown.split())
    show_rows([_row(found)], _COLUMNS, Format.TABLE)
    listed = " ".join(capsys.readouterr().out.split())
    assert "{" not in listed
    assert ("of mysql-bin.000043:400" in listed) == (stands != LATER)
    show_one(_shown(found, Format.JSON), Format.JSON)
    assert json.loads(capsys.readouterr().out) == found
