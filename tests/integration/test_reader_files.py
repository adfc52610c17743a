"""The library over several files of real servers: XA across rotations, and tables that the log does not describe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from databus.binlog import read_files, read_server
from databus.binlog.schema_history.given import definitions_of
from databus.core.errors import DecodeError, SchemaUnknownError
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(flavor: str, make_shop: Callable[[str, str], Shop]) -> Shop:
    shop = make_shop(flavor, "numba")
    shop.sql("FLUSH BINARY LOGS")
    shop.begin = shop.open().latest_offset()
    return shop


@pytest.fixture
def undescribed(shop: Shop) -> Iterator[Shop]:
    """The server logs as little of a table as it can."""
    shop.sql(f"SET GLOBAL binlog_row_metadata={'MINIMAL' if shop.flavor == 'mysql' else 'NO_LOG'}")
    shop.reconnect()
    yield shop
    shop.sql("SET GLOBAL binlog_row_metadata=FULL")


def files(shop: Shop) -> list[Path]:
    """Log files since the shop began."""
    ((_, base),) = shop.sql("SHOW VARIABLES LIKE 'log_bin_basename'")
    names = [str(row[0]) for row in shop.sql("SHOW BINARY LOGS")]
    return [Path(base).with_name(name) for name in names[names.index(shop.begin.file) :]]


def after_images(log: Any) -> list[dict[str, Any]]:
    with log:
        return [row["after"] for batch in log for row in batch.to_pylist() if row["op"] in "cu"]


def from_server(shop: Shop, **options: Any) -> Any:
    host, port = str(shop.connection.host), int(shop.connection.port or 0)
    begin = f"{shop.begin.file}:{shop.begin.pos}"
    return read_server(host, port=port, user="root", start=begin, tables=[f"{shop.name}.*"], **options)


def test_xa_is_joined_across_files_as_in_a_dump(shop: Shop) -> None:
    t = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {t} (id INT PRIMARY KEY)")
    shop.sql("XA START 'far'", f"INSERT INTO {t} VALUES (1), (2)", "XA END 'far'", "XA PREPARE 'far'")
    shop.reconnect()
    shop.sql("FLUSH BINARY LOGS", f"INSERT INTO {t} VALUES (3)", "FLUSH BINARY LOGS", "XA COMMIT 'far'")
    shop.sql("XA START 'near'", f"INSERT INTO {t} VALUES (4)", "XA END 'near'", "XA PREPARE 'near'")
    shop.reconnect()
    shop.sql("FLUSH BINARY LOGS")
    paths = files(shop)
    try:
        with read_files(paths, tables=[t]) as log:
            rows = [row for batch in log for row in batch.to_pylist() if row["op"] == "c"]
            assert len(log.prepared) == 1
        assert [row["after"]["id"] for row in rows] == [3, 1, 2]
        assert {row["file"] for row in rows[1:]} == {paths[2].name}
        with from_server(shop) as dumped:
            assert [row for batch in dumped for row in batch.to_pylist() if row["op"] == "c"] == rows
        with pytest.raises(DecodeError, match=r"XA COMMIT .* lies before what is read"):
            after_images(read_files(paths[1:], tables=[t]))
        with pytest.raises(DecodeError, match=r"XA COMMIT .* lies before what is read"):
            after_images(read_files([paths[0], paths[2]], tables=[t]))
    finally:
        shop.sql("XA ROLLBACK 'near'")


def test_given_definitions_describe_what_the_log_does_not(undescribed: Shop) -> None:
    shop, t = undescribed, f"{undescribed.name}.t"
    shop.sql(
        f"CREATE TABLE {t} (id BIGINT UNSIGNED PRIMARY KEY, e ENUM('a','b','ü'), s VARCHAR(30) CHARACTER SET latin1, "
        "b VARBINARY(20))"
    )
    shop.begin = shop.open().latest_offset()
    shop.sql("FLUSH BINARY LOGS")
    paths = files(shop)[-1:]
    given = {t: str(shop.sql(f"SHOW CREATE TABLE {t}")[0][1])}
    assert definitions_of(f"USE {shop.name};\n{given[t]};\n") == given
    shop.sql(f"INSERT INTO {t} VALUES (1, 'ü', 'é', x'00ff'), ({(1 << 64) - 1}, 'b', NULL, NULL)")
    first = [dict(zip(("id", "e", "s", "b"), row, strict=True)) for row in shop.sql(f"SELECT * FROM {t} ORDER BY id")]
    shop.sql("FLUSH BINARY LOGS", f"ALTER TABLE {t} DROP b, ADD u INT UNSIGNED FIRST, CHANGE s word VARCHAR(30)")
    shop.sql("FLUSH BINARY LOGS", f"INSERT INTO {t} VALUES (4294967295, 2, 'a', 'ж')")
    paths = files(shop)[files(shop).index(paths[0]) :]
    expected = [*first, {"u": 4294967295, "id": 2, "e": "a", "word": "ж"}]
    assert after_images(read_files(paths, tables=[t], definitions=given)) == expected
    assert after_images(from_server(shop, definitions=given)) == expected
    with pytest.raises(DecodeError, match=r"is logged without column names"):
        after_images(read_files(paths, tables=[t]))
    # A definition of today is not that of then.
    today = {t: str(shop.sql(f"SHOW CREATE TABLE {t}")[0][1])}
    with pytest.raises(SchemaUnknownError, match=rf"rows of {t} leave open .*the log has|is logged as"):
        after_images(read_files(paths, tables=[t], definitions=today))


def test_members_with_wildcards_are_what_select_gives(undescribed: Shop) -> None:
    shop, t = undescribed, f"{undescribed.name}.m"
    shop.sql(f"CREATE TABLE {t} (id INT PRIMARY KEY)")
    given = {t: str(shop.sql(f"SHOW CREATE TABLE {t}")[0][1])}
    shop.sql("FLUSH BINARY LOGS")
    path = files(shop)[-1]
    # Followed through the log from its own words, not as SHOW CREATE TABLE writes it.
    shop.sql(
        rf"ALTER TABLE {t} ADD e ENUM('a\%b', '\_', 'c\\%', '%'), ADD s SET('\%', 'x')",
        f"INSERT INTO {t} VALUES (1, 1, 3), (2, 2, 1), (3, 3, 2), (4, 4, 0)",
    )
    rows = [dict(zip(("id", "e", "s"), row, strict=True)) for row in shop.sql(f"SELECT * FROM {t} ORDER BY id")]
    assert [row["e"] for row in rows] == [r"a\%b", r"\_", r"c\%", "%"]
    assert after_images(read_files([path], tables=[t], definitions=given)) == rows
