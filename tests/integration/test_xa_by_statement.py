"""An XA transaction that is logged by statement: both of its phases stop a flow by name, and can be passed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.binlog_shop import Shop
from tests.integration.followed_hints import forget_log, moved

pytestmark = pytest.mark.integration


@pytest.fixture
def prepared(shop: Shop) -> Iterator[Shop]:
    """A shop with a prepared transaction between rows."""
    shop.sql(
        f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)",
        f"INSERT INTO {shop.name}.t VALUES (1)",
        "SET SESSION binlog_format = 'STATEMENT'",
        "XA START 'x'",
        f"INSERT INTO {shop.name}.t VALUES (2)",
        "XA END 'x'",
        "XA PREPARE 'x'",
    )
    shop.reconnect()
    shop.sql(f"INSERT INTO {shop.name}.t VALUES (3)")
    yield shop
    forget_log(shop)


def test_behind_its_prepare_the_commit_is_passed_too(prepared: Shop) -> None:
    prepared.sql("XA COMMIT 'x'", f"INSERT INTO {prepared.name}.t VALUES (4)")
    found = [(op, what) for op, what in moved(prepared) if op in ("c", "stop")]
    assert [what if op == "c" else op for op, what in found] == [1, "stop", 3, "stop", 4]
    commit = str(found[3][1])
    assert "XA COMMIT X'78',X'',1 commits what is logged by statement: " in commit
    assert f"'INSERT INTO {prepared.name}.t VALUES (2)'" in commit


def test_behind_its_prepare_a_rollback_stops_nothing(prepared: Shop) -> None:
    prepared.sql("XA ROLLBACK 'x'", f"INSERT INTO {prepared.name}.t VALUES (4)")
    found = [what if op == "c" else op for op, what in moved(prepared) if op in ("c", "stop")]
    assert found == [1, "stop", 3, 4]
