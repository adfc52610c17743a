"""Program that reads changes, as a process of its own that tests kill: `python -m tests.integration.consumer_program`.

It writes what it does to a file, a line at a time, before it does the next: "handled ID PARTITION OFFSET", "acked ID".
With a database it does so in the transaction of the checkpoint instead: a row in `effects` for each change.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

from databus.consumer import Changes, DatabaseCheckpoint, FileCheckpoint
from databus.core.errors import StoredPlaceMovedError

MEMBER = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}


def connection_to(database: dict[str, Any]) -> Callable[[], Any]:
    if "sqlite" in database:
        return lambda: sqlite3.connect(database["sqlite"], timeout=30, isolation_level="IMMEDIATE")
    import pymysql

    return lambda: pymysql.connect(**database)


def main(options: dict[str, Any]) -> None:
    kind, database = options["kind"], options.get("database", {})
    reading: dict[str, Any] = {"client": MEMBER} if options.get("group") else {}
    if kind == "file":
        reading["checkpoint"] = FileCheckpoint(options["file"])
    if kind == "database":
        reading["checkpoint"] = DatabaseCheckpoint("effects", connection_to(database))
    changes = Changes(
        options["servers"], options["topics"], group=options.get("group", ""),
        ack_by="loop" if kind == "database" else "explicit", transaction_topic=options.get("transaction_topic", ""),
        **reading,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: changes.stop())
    if kind == "database":
        into_database(changes, connection_to(database), options.get("every", 1))
    else:
        into_file(changes, options["log"])
    changes.close()


def into_file(changes: Changes, path: str) -> None:
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for change in changes:
        os.write(log, f"handled {change.event_id} {change.partition} {change.offset}\n".encode())
        if changes.ack(change):
            os.write(log, f"acked {change.event_id}\n".encode())


def into_database(changes: Changes, connect: Callable[[], Any], every: int) -> None:
    """Apply changes, `every` of them in a transaction, or whole transactions of the source."""
    checkpoint: Any = changes.checkpoint
    with closing(connect()) as connection:
        mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
        insert = f"INSERT INTO effects (event_id, place, txn) VALUES ({mark}, {mark}, {mark})"
        units = changes.transactions(patience_s=3600) if changes.transaction_topic else ([each] for each in changes)
        number = 0
        for unit in units:
            number += 1
            cursor = connection.cursor()
            for change in unit:
                place = f"{change.topic}:{change.partition}:{change.offset}"
                cursor.execute(insert, (change.event_id, place, change.transaction))
            if number % every:
                continue
            try:
                checkpoint.save(cursor)
                connection.commit()
            except StoredPlaceMovedError:
                connection.rollback()
                changes.rewind()
        try:
            checkpoint.save(connection.cursor())
            connection.commit()
        except StoredPlaceMovedError:
            connection.rollback()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
