"""Targets of `databus outbox install`, and the texts of its statements."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.core.connections import Connection
from databus.core.errors import ConfigError
from databus.ops.outbox import install, remove, steps_of, target_of
from databus.sources.sequence_table.install import mysql, postgres
from databus.sources.sequence_table.install.target import InstallStage, InstallStep, InstallTarget

SHOP = Connection(conn_id="shop", conn_type="mysql", host="x", db_schema="shop")


def test_names_by_default() -> None:
    assert target_of(SHOP).name == "shop.outbox"
    assert target_of(Connection(conn_id="p", conn_type="postgres", host="x")).name == "public.outbox"
    assert target_of(SHOP, changes_of="shop.orders").name == "shop.orders_log"
    assert target_of(SHOP, "audit.all", "shop.orders") == InstallTarget("shop", "audit.all", "shop.orders")


@pytest.mark.parametrize(
    ("name", "changes_of", "exclude", "said"),
    [
        ("outbox", "", (), "is not of the form schema.table"),
        ("a.b.c", "", (), "is not of the form schema.table"),
        ("", "orders", (), "is not of the form schema.table"),
        ("a.b\0", "", (), "is not of the form schema.table"),
        ("shop.orders", "shop.orders", (), "cannot be its own log"),
        ("shop.outbox", "", ("photo",), "--exclude is of a table's log"),
    ],
)
def test_what_is_no_target_is_named(name: str, changes_of: str, exclude: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        target_of(SHOP, name, changes_of, exclude)
    assert caught.value.hint


def test_an_outbox_of_a_connection_without_a_database_wants_a_name() -> None:
    with pytest.raises(ConfigError, match="names no database") as caught:
        target_of(Connection(conn_id="m", conn_type="mysql", host="x"))
    assert "--name" in caught.value.hint


def test_a_server_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = Connection(conn_id="file", conn_type="sqlite", host=str(tmp_path / "a.db"))
    for ask in (install, remove):
        with pytest.raises(ConfigError, match="'sqlite'"):
            ask(file, InstallTarget("file", "main.outbox"))


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (postgres.PostgresInstaller(), "public." + "o" * 60),
        (postgres.PostgresInstaller(), "public." + "ö" * 30),
        (mysql.MysqlInstaller(), "shop." + "o" * 60),
    ],
)
def test_a_name_that_the_server_would_cut_is_refused(of: postgres.PostgresInstaller, name: str) -> None:
    with pytest.raises(ConfigError, match="longer than the") as caught:
        of.install(MagicMock(), InstallTarget("shop", name, "shop.orders"))
    assert "--name" in caught.value.hint


@given(st.text(min_size=1))
def test_names_and_texts_are_quoted(text: str) -> None:
    assert postgres.quoted(text)[1:-1].replace('""', "").count('"') == 0
    assert mysql.quoted(text)[1:-1].replace("``", "").count("`") == 0
    literal = mysql.literal(text)
    if literal.startswith("'"):
        assert literal == f"'{text}'"
        assert not set("'\\") & set(text)
    else:
        assert bytes.fromhex(literal.removeprefix("CONVERT(0x").partition(" ")[0]).decode() == text
    plain = postgres.literal(text).removeprefix("E")[1:-1]
    assert plain.replace("''", "").count("'") == 0
    assert plain.replace("''", "'").replace("\\\\", "\\") == text


def test_steps_have_the_statements_around_them() -> None:
    steps = (
        InstallStep("a", "there"),
        InstallStep("b", "missing", ("B",)),
        InstallStep("c", "differs", ("C1", "C2"), "x"),
        InstallStep("d", "there"),
    )
    found = steps_of([InstallStage(steps, (("LOCK",), ("UNLOCK",)))])
    assert [step.statements for step in found] == [(), ("LOCK", "B"), ("C1", "C2", "UNLOCK"), ()]
    assert [step.statements for step in steps_of([InstallStage(steps[:1], (("LOCK",), ("UNLOCK",)))])] == [()]
    assert found[2].to_json() == {
        "what": "c", "state": "differs", "differs": "x", "statements": ["C1", "C2", "UNLOCK"],
    }  # fmt: skip
