"""Writes whose every version SELECT can tell afterwards, and what a consumer of a flow over them must have seen."""

from __future__ import annotations

import json
import queue
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.integration.kafka_target import consume, event_id
from tests.integration.replicated_pair import DEADLINE_S, Server

BUCKETS = 5
_LIFE = 30

Keep = Callable[[int, int], bool]
"""Whether a flow's row filters keep an image with this id and bucket."""


def everything(_id: int, _bucket: int) -> bool:
    return True


def create(server: Server, name: str) -> None:
    """Make the table `t`, in which version v of row i has the bucket (i + v) mod 5, and `gone`: last versions."""
    server.sql(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT, bucket INT)",
        f"CREATE TABLE {name}.gone (id INT PRIMARY KEY, v INT)",
    )


class Writer:
    """Commits inserts, updates and deletes in a thread, as many transactions as it is told; MariaDB in two domains."""

    def __init__(self, server: Server, name: str, first: int):
        self.server, self.name, self.first = server, name, first
        self._granted = queue.SimpleQueue[int]()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: Exception | None = None
        self._thread.start()

    def begin(self, transactions: int) -> None:
        """Let it write that many more."""
        self._granted.put(transactions)

    def end(self) -> None:
        """Wait until all is written."""
        self._granted.put(0)
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        number = self.first
        try:
            session = self.server.session()
            with session, session.cursor() as cursor:
                while count := self._granted.get():
                    for i in range(number, number + count):
                        self._transaction(cursor, i)
                    number += count
        except Exception as error:  # noqa: BLE001 - handed to the test
            self._failure = error

    def _transaction(self, cursor: Any, i: int) -> None:
        t, gone = f"{self.name}.t", f"{self.name}.gone"
        if self.server.flavor == "mariadb":
            cursor.execute(f"SET SESSION gtid_domain_id = {i % 2}")
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {t} VALUES ({i}, 1, {(i + 1) % BUCKETS})")
        cursor.execute(
            f"UPDATE {t} SET v = v + 1, bucket = (id + v) % {BUCKETS} "
            f"WHERE id BETWEEN {i - 7} AND {i - 1} AND id % 2 = {i % 2}"
        )
        cursor.execute(f"INSERT INTO {gone} SELECT id, v FROM {t} WHERE id = {i - _LIFE}")
        cursor.execute(f"DELETE FROM {t} WHERE id = {i - _LIFE}")
        cursor.execute("COMMIT")


@dataclass
class Seen:
    """What a read_committed consumer saw of the table `t` in one topic.

    Attributes:
        changes: id → op and version of each record, in the consumer's order.
        partitions: id → partitions that its records lie in.
        event_ids: of all records with a value.
    """

    changes: dict[int, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    partitions: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    event_ids: list[str] = field(default_factory=list)


def seen(bootstrap: str, topic: str) -> Seen:
    found = Seen()
    for message in consume(bootstrap, topic):
        if message.value() is None:
            continue
        record: dict[str, Any] = json.loads(message.value())
        found.event_ids.append(event_id(message))
        assert found.event_ids[-1] == record["source"]["event_id"]
        if record["source"]["table"] != "t":
            continue
        image = record["before"] if record["op"] == "d" else record["after"]
        found.changes[image["id"]].append((record["op"], image["v"]))
        found.partitions[image["id"]].add(message.partition())
    return found


def expected(server: Server, name: str, keep: Keep = everything) -> dict[int, list[tuple[str, int]]]:
    """Return id → op and version of each change, from what SELECT gives: versions have no holes."""
    living = server.sql(f"SELECT id, v, 0 FROM {name}.t")
    dead = server.sql(f"SELECT id, v, 1 FROM {name}.gone")
    wanted = {}
    for number, versions, ended in (*living, *dead):
        if changes := _life(number, versions, bool(ended), keep):
            wanted[number] = changes
    return wanted


def _life(number: int, versions: int, ended: bool, keep: Keep) -> list[tuple[str, int]]:
    changes: list[tuple[str, int]] = []
    inside = False
    for version in range(1, versions + 1):
        was, inside = inside, keep(number, (number + version) % BUCKETS)
        if was and not inside:
            changes.append(("d", version - 1))
        elif inside:
            changes.append(("u" if was else "c", version))
    if inside and ended:
        changes.append(("d", versions))
    return changes
