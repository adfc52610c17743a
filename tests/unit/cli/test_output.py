"""Numbers in tables keep the digits that matter, and a table that does not fit is shown line by line."""

from __future__ import annotations

from typing import Any

import pytest

from databus.cli.output import OUT, Format, _cell, show_rows


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
    ],
)
def test_a_number_in_a_table(value: Any, shown: str) -> None:
    assert _cell(value).plain == shown


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
