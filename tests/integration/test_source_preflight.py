"""What a server refuses or lacks is named by the binlog source, before and while it reads."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from databus.core.errors import (
    SourceAccessError,
    SourceUnavailableError,
)
from databus.core.findings import Level
from tests.contract.source_contract import IMPATIENT
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration


def test_refused_logins_and_grants_are_named(shop: Shop) -> None:
    shop.sql(f"CREATE USER IF NOT EXISTS '{shop.name}'@'%' IDENTIFIED BY 'secret'")
    wrong = shop.connection.model_copy(update={"login": shop.name, "password": SecretStr("guess")})
    right = wrong.model_copy(update={"password": SecretStr("secret")})
    nobody = shop.connection.model_copy(update={"port": 1})
    try:
        for connection, error in (
            (wrong, SourceAccessError),
            (right, SourceAccessError),
            (nobody, SourceUnavailableError),
        ):
            shop.connection = connection
            source = shop.open()
            with pytest.raises(error) as caught:
                source.plan(shop.begin, IMPATIENT)
            assert caught.value.hint
            assert "guess" not in str(caught.value)
            errors = {f.code for f in source.preflight(None) if f.level is Level.ERROR}
            assert error.code in errors
            source.close()
    finally:
        shop.sql(f"DROP USER '{shop.name}'@'%'")


def test_preflight_names_foreign_keys_whose_changes_are_not_logged(shop: Shop) -> None:
    name = shop.name
    shop.sql(
        f"CREATE TABLE {name}.parent (id INT PRIMARY KEY)",
        f"CREATE TABLE {name}.gone (id INT PRIMARY KEY, p INT, "
        f"CONSTRAINT goes FOREIGN KEY (p) REFERENCES {name}.parent (id) ON DELETE CASCADE ON UPDATE SET NULL)",
        f"CREATE TABLE {name}.kept (id INT PRIMARY KEY, p INT, "
        f"CONSTRAINT stays FOREIGN KEY (p) REFERENCES {name}.parent (id) ON DELETE RESTRICT)",
        f"CREATE TABLE {name}.other (id INT PRIMARY KEY, p INT, "
        f"CONSTRAINT others FOREIGN KEY (p) REFERENCES {name}.parent (id) ON DELETE CASCADE)",
        f"INSERT INTO {name}.parent VALUES (1)",
        f"INSERT INTO {name}.gone VALUES (7, 1)",
    )
    source = shop.open((f"{name}.gone", f"{name}.kept", f"{name}.parent"))
    found = [f for f in source.preflight(None) if f.code == "source_unlogged_cascade"]
    assert [f.level for f in found] == [Level.WARN]
    for word in (f"{name}.gone", "goes", "ON DELETE CASCADE, ON UPDATE SET NULL", f"{name}.parent"):
        assert word in found[0].message
    source.close()
    # It is so: the row is gone, and the log tells of its parent only.
    shop.sql(f"DELETE FROM {name}.parent WHERE id = 1")
    assert shop.sql(f"SELECT COUNT(*) FROM {name}.gone") == [(0,)]
    assert [(r["table"], r["op"]) for r in shop.read() if r["op"] == "d"] == [("parent", "d")]


def test_preflight_names_what_is_missing(shop: Shop) -> None:
    shop.sql(f"CREATE TABLE {shop.name}.keyless (id INT)")
    source = shop.open((f"{shop.name}.*", f"{shop.name}.nothing_like_it"))
    settings = {"binlog_format": "MIXED", "binlog_row_metadata": "MINIMAL", "binlog_row_image": "NOBLOB"}
    before = {name: shop.sql(f"SELECT @@GLOBAL.{name}")[0][0] for name in settings}
    try:
        for name, value in settings.items():
            shop.sql(f"SET GLOBAL {name} = '{value}'")
        found = {f.subject.partition(": ")[2]: f for f in source.preflight(None)}
    finally:
        for name, value in before.items():
            shop.sql(f"SET GLOBAL {name} = '{value}'")
    assert {name: found[name].level for name in settings} == {
        "binlog_format": Level.ERROR,
        "binlog_row_metadata": Level.WARN,
        "binlog_row_image": Level.WARN,
    }
    assert all(name in found[name].hint for name in settings)
    assert found[f"table {shop.name}.keyless"].code == "source_no_primary_key"
    assert all(f.level is not Level.ERROR for f in source.preflight(None))
    source.close()
