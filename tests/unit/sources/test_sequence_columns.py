"""Types of a `SequenceTable` of MySQL, as its driver gives them."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from databus import SequenceTable
from databus.sources.sequence_table import columns


@pytest.fixture
def reflected(monkeypatch: pytest.MonkeyPatch) -> columns.Columns:
    kinds: dict[str, Any] = {
        "id": mysql.BIGINT(),
        "created_at": mysql.DATETIME(fsp=6),
        "f": mysql.DOUBLE(),
        "r": mysql.REAL(),
    }
    kinds |= {"s": mysql.SET("red", "green"), "e": mysql.ENUM("small", "large"), "m": mysql.DECIMAL(12, 2)}
    inspector = MagicMock()
    inspector.get_columns.return_value = [
        {"name": name, "type": kind, "nullable": False} for name, kind in kinds.items()
    ]
    inspector.get_pk_constraint.return_value = {"constrained_columns": ["id"]}
    inspector.get_indexes.return_value = inspector.get_unique_constraints.return_value = []
    monkeypatch.setattr(sa, "inspect", lambda _: inspector)
    session: Any = MagicMock()
    session.dialect.name = "mysql"
    found, lacking = columns.reflected(session, SequenceTable(conn_id="m", table="shop.outbox"))
    assert lacking == []
    return found


def test_a_floating_number_is_no_decimal(reflected: columns.Columns) -> None:
    dialect = mysql.dialect()
    for name in ("f", "r"):
        assert reflected.table.columns[name] == "double"
        process = reflected.selected(name, sa.CHAR()).type.result_processor(dialect, None)
        assert isinstance(process(0.5) if process else 0.5, float)
    assert reflected.types["m"].asdecimal


def test_sets_and_enums_are_read_as_the_server_writes_them(reflected: columns.Columns) -> None:
    assert reflected.as_text == {"s", "e"}
    selected = sa.select(reflected.selected("s", sa.CHAR()))
    assert "CAST(s AS CHAR)" in str(selected.compile(dialect=mysql.dialect()))
