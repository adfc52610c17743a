"""Targets of `databus outbox install`, and the texts of its statements."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pymysql
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from databus.core.connections import Connection
from databus.core.errors import ConfigError, SourceAccessError
from databus.core.findings import Level
from databus.ops import outbox
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


LOG = InstallTarget("shop", "shop.orders_log", "shop.orders")


def trigger(name: str, body: str) -> Any:
    return SimpleNamespace(name=name, event="INSERT", timing="AFTER", body=body, of_table="orders")


def step_of(*there: Any) -> InstallStep:
    """Return the step of the trigger of inserts, with these on the server."""
    session = MagicMock()
    session.dialect.name = "mysql"
    columns = {"id": {"name": "id", "type": sa.Integer()}}
    return mysql.MysqlInstaller()._trigger(session, LOG, "insert", columns, there)


def test_a_trigger_of_mysql_is_there_until_its_successor_is() -> None:
    (create,) = step_of().statements
    body = create.partition(" FOR EACH ROW ")[2]
    first, second, drop, drop_second = (
        "CREATE TRIGGER `shop`.`orders_log_insert` ", "CREATE TRIGGER `shop`.`orders_log_insert_2` ",
        "DROP TRIGGER `shop`.`orders_log_insert`", "DROP TRIGGER `shop`.`orders_log_insert_2`",
    )  # fmt: skip
    assert create.startswith(first)
    old, other = trigger("orders_log_insert", f"{body} "), trigger("orders_log_insert_2", f"{body} ")
    new, newer = trigger("orders_log_insert", body), trigger("orders_log_insert_2", body)
    for there, statements in (
        ((new,), []),
        ((newer,), []),
        ((old,), [second, drop]),
        ((other,), [first, drop_second]),
        ((old, newer), [drop]),
        ((new, other), [drop_second]),
        ((new, newer), [drop_second]),
        ((old, other), [drop_second, second, drop]),
    ):
        found = step_of(*there).statements
        assert [each.partition("AFTER")[0] for each in found] == statements


def test_two_triggers_that_write_each_change_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "INSERT INTO `shop`.`orders_log` (`op`) VALUES (NEW.`id`)"
    names = ("orders_log_insert", "orders_log_insert_2", "orders_log_update", "orders_log_delete")
    monkeypatch.setattr(mysql, "_of_cascades", lambda *_: ())
    session = MagicMock()
    session.execute.return_value.all.return_value = [trigger(name, body) for name in names]
    (found,) = mysql.MysqlInstaller().findings(session, LOG, ("id",), "orders")
    assert "orders_log_insert and orders_log_insert_2 write each change of shop.orders twice" in found.message
    assert "--exclude" in found.hint


def test_a_server_that_trusts_no_creators_of_triggers_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "You do not have the SUPER privilege and binary logging is enabled (you *might* want to use the less safe "
        "log_bin_trust_function_creators variable)"
    )
    driver = MagicMock(side_effect=pymysql.err.OperationalError(1419, text))
    monkeypatch.setattr(pymysql, "connect", driver)
    with pytest.raises(SourceAccessError, match="SUPER") as caught:
        outbox.install(SHOP, LOG)
    assert "SET PERSIST log_bin_trust_function_creators = ON" in caught.value.hint


@pytest.mark.parametrize(("code", "levels"), [(1360, [Level.ERROR] * 3), (1227, [Level.WARN])])
def test_triggers_that_are_gone_are_an_error_and_hidden_ones_a_warning(
    monkeypatch: pytest.MonkeyPatch, code: int, levels: list[Level]
) -> None:
    monkeypatch.setattr(mysql, "_of_cascades", lambda *_: ())
    session = MagicMock()
    session.execute.return_value.all.return_value = []
    session.exec_driver_sql.side_effect = sa.exc.OperationalError("", {}, pymysql.err.OperationalError(code, "no"))
    assert [each.level for each in mysql.MysqlInstaller().findings(session, LOG, ("id",), "orders")] == levels
