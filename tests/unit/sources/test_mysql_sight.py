"""What an account is shown, by its grants: only what it would be shown can be missing."""

from __future__ import annotations

import pytest

from databus.sources.mysql.tables.visibility import MysqlSight


def sight(*grants: str) -> MysqlSight:
    return MysqlSight.of((grant,) for grant in grants)


@pytest.mark.parametrize(
    "grant",
    [
        "GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION",
        "GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `u`@`%` IDENTIFIED BY PASSWORD '*6BB'",
        "GRANT INSERT ON *.* TO 'u'@'%'",
    ],
)
def test_a_privilege_on_all_tables_shows_all(grant: str) -> None:
    assert sight(grant).shows("shop", "orders")
    assert all(sight(grant).tells(pattern) for pattern in ("shop.nothing", "s*.x?", r"re:shop\.(a|b)"))


@pytest.mark.parametrize(
    "grant",
    [
        "GRANT USAGE ON *.* TO `u`@`%`",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `u`@`%`",
        "GRANT BACKUP_ADMIN,SHOW_ROUTINE ON *.* TO `u`@`%`",
        "GRANT EXECUTE ON PROCEDURE `shop`.`p` TO `u`@`%`",
        "GRANT SELECT (`id`, `a)`), INSERT (`id`) ON `shop`.`orders` TO `u`@`%`",
        "GRANT `reader`@`%` TO `u`@`%`",
    ],
)
def test_others_show_no_table_whole(grant: str) -> None:
    assert not sight(grant).shows("shop", "orders")
    assert not any(sight(grant).tells(pattern) for pattern in ("shop.orders", "shop.*", "re:shop.*"))


def test_a_privilege_on_a_database_shows_its_tables() -> None:
    granted = sight("GRANT SELECT ON `my\\_shop`.* TO `u`@`%`", "GRANT DROP ON `test_%`.* TO `u`@`%`")
    assert granted.shows("my_shop", "orders")
    assert granted.shows("test_1", "t")
    assert not granted.shows("myxshop", "orders")
    assert granted.tells("my_shop.nothing")
    assert granted.tells("my_*.nothing")
    assert not granted.tells("other.nothing")
    assert not granted.tells("re:my_shop.x")


def test_a_privilege_on_a_table_shows_that_one() -> None:
    granted = sight(
        'GRANT SELECT, UPDATE (`a`) ON "shop"."or""ders" TO "u"@"%"', "GRANT DELETE ON `a``b`.`t` TO `u`@`%`"
    )
    assert granted.shows("shop", 'or"ders')
    assert granted.shows("a`b", "t")
    assert not granted.shows("shop", "customers")
    assert not granted.tells("shop.custmers")


def test_a_database_that_was_taken_back_is_not_shown() -> None:
    granted = sight("GRANT SELECT ON *.* TO `u`@`%`", "REVOKE SELECT ON `hr`.* FROM `u`@`%`")
    assert granted.shows("shop", "orders")
    assert not granted.shows("hr", "people")
    assert not granted.tells("*.people")
