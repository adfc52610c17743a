"""A flow whose owner follows what errors advise: `databus checkpoint skip FLOW FILE:POS`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pymysql.connections import Connection

from databus.core.errors import DecodeError
from tests.contract.source_contract import EVERYTHING, rows_of
from tests.integration.binlog_shop import Shop
from tests.integration.statements import run_sql


def advised(stopped: DecodeError) -> str:
    """Return the place that an error says to go on at."""
    return stopped.hint.partition("checkpoint skip ")[2].split()[1]


def moved(shop: Shop, tables: tuple[str, ...] = ()) -> Iterator[tuple[str, int | str | None]]:
    """Yield (op, id or statement) of what comes, and ("stop", message) of what is passed as advised."""
    source, place = shop.open(tables), shop.begin
    try:
        while True:
            try:
                plan = source.plan(place, EVERYTHING)
            except DecodeError as stopped:
                yield "stop", stopped.message
                source.close()
                source = shop.open(tables, start=advised(stopped))
                place = source.start_offset()
                continue
            if plan is None:
                return
            for row in rows_of(source, plan):
                yield row["op"], json.loads(row["key"])["id"] if row["key"] else row["statement"]
            place = plan.range.end
    finally:
        source.close()


def forget_log(shop: Shop) -> None:
    """Have a server delete what it has logged: it stops whoever reads all of it."""
    shop.reconnect()
    shop.sql("FLUSH BINARY LOGS")
    shop.purge_to(shop.sql("SHOW BINARY LOGS")[-1][0])


def forget_log_of(connection: Connection[Any]) -> None:
    """Do so on a server of which there is a connection alone."""
    run_sql(connection, "FLUSH BINARY LOGS")
    newest = run_sql(connection, "SHOW BINARY LOGS")[-1][0]
    run_sql(connection, f"PURGE BINARY LOGS TO '{newest}'")
