"""Numbers in tables keep the digits that matter, no id is cut in two, and what does not fit is shown line by line."""

from __future__ import annotations

from typing import Any

import pytest

from databus.cli.terminal.cells import advised, printed, wrapped
from databus.cli.terminal.output import ERR, OUT, Format, print_advice, show_one, show_rows


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.1348, "0.135"),
        (1.405, "1.41"),
        (0.0, "0.0"),
        (12.345, "12.3"),
        (102_460.4, "102,460.4"),
        (-0.25, "-0.25"),
        (1234, "1,234"),
        (True, "yes"),
        (None, "-"),
        ("", "-"),
    ],
)
def test_a_number_in_a_table(value: Any, shown: str) -> None:
    assert printed(value) == shown


LAG = {"flow": "orders_to_kafka", "committed": "mysql-bin.000003:184467", "lag_bytes": 1_234_567, "lag_seconds": 12.5}


@pytest.mark.parametrize("width", [80, 60])
def test_no_name_or_number_is_broken_over_lines(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(OUT, "width", width)
    rows = [{**LAG, "head": LAG["committed"], "headroom_seconds": 86_400}, LAG]
    show_rows(rows, ("flow", "committed", "head", "lag_bytes", "lag_seconds", "headroom_seconds"), Format.TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    for text, count in (("orders_to_kafka", 2), ("mysql-bin.000003:184467", 3), ("1,234,567", 2), ("86,400", 1)):
        assert sum(text in line for line in lines) == count, lines
    assert sum(line.startswith("headroom seconds") for line in lines) == 2  # a line per field, record by record


def test_a_table_that_fits_stays_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(OUT, "width", 80)
    for head in (True, False):
        show_rows([LAG], tuple(LAG), Format.TABLE, head=head)
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.split() == ["flow", "committed", "lag", "bytes", "lag", "seconds"]
    assert second.split() == third.split() == ["orders_to_kafka", "mysql-bin.000003:184467", "1,234,567", "12.5"]


@pytest.mark.parametrize(
    "name", ["pid", "port", "batch", "epoch", "n", "partition", "offset", "from", "to", "server_id"]
)
def test_a_number_that_names_something_has_no_separators(name: str) -> None:
    assert printed(19_092, name) == "19092"
    assert wrapped(printed({name: 19_092}), 80) == [f"{name} 19092"]
    assert printed(19_092, "rows") == "19,092"


RUN = "scheduled__2026-11-25T10:00:00+00:00"
FLOW = "orders_of_the_northern_warehouses_to_kaf"
TOPIC = "cdc.production.northern_warehouses.orders.customer_addresses"
EVENT = "b7a5a3f0-91c5-11ef-8c4a-0242ac120002:1234567:0:0"
GTIDS = "b7a5a3f0-91c5-11ef-8c4a-0242ac120002:1-1234567,c8b6b4a1-91c5-11ef-8c4a-0242ac120003:1-98765"
WHY = "the warehouse was moved, its rows were wrong; all of them are read again from the first of October on"


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize(
    "row",
    [
        {"run_id": RUN, "flow": FLOW, "rows": 1_234_567, "why": WHY},
        {"topic": TOPIC, "partition": 1_000, "from": 1_234_567, "to": 2_345_678, "why": WHY},
        {"event_id": EVENT, "table": "warehouse.order_items", "cause": WHY, "who": "scheduler@airflow-7c9d"},
        {"n": 1_024, "who": RUN, "why": WHY, "from": "mysql-bin.000123:1234567", "to": "mysql-bin.000124:7654321"},
    ],
)
def test_no_id_is_cut_in_two(
    row: dict[str, Any], width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(OUT, "width", width)
    show_rows([row, row], tuple(row), Format.TABLE)
    show_one(row, Format.TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    for name, value in row.items():
        for word in printed(value, name).split():
            assert sum(word in line for line in lines) >= 3, (word, lines)


def test_a_long_value_is_cut_behind_commas_and_else_left_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(OUT, "width", 80)
    show_one({"gtids": GTIDS, "digest": "0123456789abcdef" * 6}, Format.TABLE)
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.split() == ["gtids", GTIDS[: GTIDS.index(",") + 1]]
    assert second.strip() == GTIDS[GTIDS.index(",") + 1 :]
    assert third.split() == ["digest", "0123456789abcdef" * 6]


def test_a_number_is_neither_cut_nor_parted_from_its_name() -> None:
    text = printed({"read": 1_200, "filtered": 0, "dispatched": 1_234_567})
    for width in range(19, 50):
        lines = wrapped(text, width)
        assert max(map(len, lines)) <= max(width, len("dispatched 1,234,567"))
        for part in ("read 1,200", "filtered 0", "dispatched 1,234,567"):
            assert sum(part in line for line in lines) == 1, lines


def test_parts_of_a_field_stand_on_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    sinks = {"kafka": {"dispatched": 12_000, "rejected": 0}, "search": {"dispatched": 11_999, "rejected": 1}}
    show_one({"flow": "orders", "sinks": sinks, "half_written": [], "problems": ["one", "other"]}, Format.TABLE)
    assert [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()] == [
        ["flow", "orders"],
        ["sinks", "kafka: dispatched 12,000, rejected 0"],
        ["search:", "dispatched 11,999, rejected 1"],
        ["half", "written -"],
        ["problems", "one"],
        ["other"],
    ]


def test_a_place_with_a_short_topic_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    ERR.print("offsets:a:0:1", markup=False)
    OUT.print("offsets:a:0:1", markup=False)
    shown = capsys.readouterr()
    assert (shown.err, shown.out) == ("offsets:a:0:1\n", "offsets:a:0:1\n")


def test_a_command_in_advice_stands_on_one_line_to_be_copied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "`databus checkpoint skip orders mysql-bin.000001:1296 --past-gap --reason … --execute`"
    advice = f"Look first, then run {command}, or choose another way of going on from there. Wait."
    assert advised(advice, 40) == [
        "Look first, then run",
        f"{command},",
        "or choose another way of going on from",
        "there. Wait.",
    ]
    monkeypatch.setattr(ERR, "width", 42)
    print_advice(advice)
    assert f"  {command},\n" in capsys.readouterr().err
