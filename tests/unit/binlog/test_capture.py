"""Table patterns."""

from __future__ import annotations

import pickle

import pytest

from databus.binlog.log.capture import TableCapture
from databus.core.errors import ConfigError


@pytest.mark.parametrize(
    ("include", "exclude", "name", "captured"),
    [
        (("shop.orders",), (), "shop.orders", True),
        (("shop.orders",), (), "shop.Orders", False),
        (("shop.*",), ("shop.tmp_*",), "shop.tmp_1", False),
        (("shop_?.o*",), (), "shop_7.orders", True),
        ((r"re:shop\.(a|b)",), (), "shop.b", True),
        ((r"re:shop\.(a|b)",), (), "shop.bc", False),
        (("*.*",), (), "mysql.user", False),
        (("mysql.*",), (), "mysql.user", True),
    ],
)
def test_patterns(include: tuple[str, ...], exclude: tuple[str, ...], name: str, captured: bool) -> None:
    capture = pickle.loads(pickle.dumps(TableCapture(include, exclude)))
    assert capture(*name.split(".")) is captured


@pytest.mark.parametrize("pattern", ["orders", "re:(", "."])
def test_bad_patterns_are_named(pattern: str) -> None:
    with pytest.raises(ConfigError, match="pattern"):
        TableCapture((pattern,))


@pytest.mark.parametrize(
    ("include", "exclude", "database", "has"),
    [
        (("shop.orders",), (), "shop", True),
        (("shop.orders",), (), "shops", False),
        (("sh*.orders",), (), "shops", True),
        (("*.*",), (), "any", True),
        (("*.*",), (), "mysql", False),
        (("mysql.user",), (), "mysql", True),
        (("a.b.c",), (), "a", True),
        (("re:shop\\..*",), (), "shop", True),
        (("re:shop\\..*",), (), "sys", False),
        (("*.*",), ("old_*.*",), "old_1", False),
        (("*.*",), ("old_*.log",), "old_1", True),
    ],
)
def test_databases_of_captured_tables(
    include: tuple[str, ...], exclude: tuple[str, ...], database: str, has: bool
) -> None:
    assert TableCapture(include, exclude).has_database(database) is has
