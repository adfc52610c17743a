"""Transactions that a server holds between its log and their visibility, as semi-sync's AFTER_SYNC does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from databus.core.positions.offsets import BinlogOffset
from tests.contract.source_contract import EVERYTHING
from tests.integration.binlog_shop import Shop

_HOLD = {
    # A group waits so long, in microseconds and 1 s at most, before it is synced: dumps have it, tables do not.
    "mysql": ("SET GLOBAL binlog_group_commit_sync_delay = 1000000",),
    # For the answer of a replica that is not there.
    "mariadb": (
        "SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'",
        "SET GLOBAL rpl_semi_sync_master_timeout = 600000",
        "SET GLOBAL rpl_semi_sync_master_wait_no_slave = ON",
        "SET GLOBAL rpl_semi_sync_master_enabled = ON",
    ),
}
_RELEASE = {
    "mysql": ("SET GLOBAL binlog_group_commit_sync_delay = 0",),
    "mariadb": ("SET GLOBAL rpl_semi_sync_master_enabled = OFF",),
}


@contextmanager
def held_commits(shop: Shop) -> Iterator[None]:
    """Hold every commit: MySQL's for a second each, MariaDB's until the end."""
    shop.sql(*_HOLD[shop.flavor])
    try:
        yield
    finally:
        with shop.connect() as session, session.cursor() as cursor:
            for statement in _RELEASE[shop.flavor]:
                cursor.execute(statement)


def begin_insert(shop: Shop, key: int, before: BinlogOffset) -> BinlogOffset:
    """Begin to insert a row of the table `t`; return the place behind it, as a flow has it that read it from the log.

    `shop.receive` waits for the commit.
    """
    source = shop.open((f"{shop.name}.t",))
    shop.send(f"INSERT INTO {shop.name}.t VALUES ({key})")
    deadline = time.monotonic() + 20
    while (plan := source.plan(before, EVERYTHING)) is None or not plan.rows:
        assert time.monotonic() < deadline
    assert plan.rows == 1
    assert isinstance(plan.range.end, BinlogOffset)
    source.release(plan)
    source.close()
    return plan.range.end
