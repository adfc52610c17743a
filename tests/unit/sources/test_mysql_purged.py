"""What is missing after a purge, and how long the rest is kept."""

from __future__ import annotations

import pickle

import pytest

from databus.core.positions.offsets import BinlogOffset, PreparedTransaction
from databus.sources.mysql.failover.purged_log import purged
from databus.sources.mysql.headroom import retention_s

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
PENDING = (PreparedTransaction("X'78',X'',1", "b.000001", 4, 90),)


def test_the_missing_range_is_exact_and_survives_pickling() -> None:
    standing = BinlogOffset("b.000002", 500, f"{UUID}:1-10", server="s", timeline=2, prepared=PENDING)
    error = pickle.loads(
        pickle.dumps(purged("db", standing, BinlogOffset("b.000004", 4, f"{UUID}:1-25", server="s"), "orders"))
    )
    assert f"{UUID}:11-25" in error.message
    assert "`databus checkpoint skip orders --past-gap --repair --reason" in error.hint
    assert error.missing.start == standing
    assert error.missing.end == BinlogOffset("b.000004", 4, f"{UUID}:1-25", "mysql", "s", 2, PENDING)


def test_files_without_transactions_are_said_to_miss_none() -> None:
    standing = BinlogOffset("b.000002", 500, f"{UUID}:1-10", server="s")
    message = purged("db", standing, BinlogOffset("b.000004", 4, f"{UUID}:1-10", server="s"), "orders").message
    assert "no transaction is missing" in message
    assert "missing are" not in purged("db", standing, BinlogOffset("b.000004", 4, "", server="s"), "orders").message


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({"binlog_expire_logs_seconds": "2592000"}, 2592000),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "3"}, 259200),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "0.000000"}, None),
        ({"binlog_expire_logs_seconds": "60", "binlog_expire_logs_auto_purge": "OFF"}, None),
        ({}, None),
    ],
)
def test_retention(settings: dict[str, str], seconds: int | None) -> None:
    assert retention_s(settings) == seconds
