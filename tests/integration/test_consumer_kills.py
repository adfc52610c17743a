"""`databus.consumer` in processes that are killed, with each kind of checkpoint, and in groups whose members change."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from databus.consumer import DatabaseCheckpoint
from tests.integration.changes_writer import Writer, make_topics
from tests.integration.conftest import Started
from tests.integration.kafka_target import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
_NUMBERS = iter(range(10**6))


@pytest.fixture
def topic(servers: str) -> str:
    name = f"killed.{os.getpid()}.{next(_NUMBERS)}"
    make_topics(servers, (name, 4), (f"{name}.transactions", 1))
    return name


@pytest.fixture
def writer(servers: str, topic: str) -> Writer:
    return Writer(servers, topic, 4)


class Program:
    """Process that reads changes."""

    def __init__(self, **options: Any):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.consumer_program", json.dumps(options)], cwd=ROOT,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        self._process.send_signal(how)
        _, told = self._process.communicate(timeout=60)
        # It may not have got as far as to take the signal for itself.
        assert self._process.returncode in (0, -signal.SIGKILL, -signal.SIGTERM), told.decode()[-3000:]


def kill_often(make: Callable[[], Program], done: Callable[[], bool], kills: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(kills):
        program = make()
        time.sleep(chance.uniform(0.8, 2.0))
        program.kill()
    program = make()
    try:
        wait_until(done, "everything that was written")
    finally:
        program.kill(signal.SIGTERM)


class Log:
    """What a program has written to its file."""

    def __init__(self, path: Path):
        self.path = path

    def lines(self) -> list[list[str]]:
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split() for line in text.splitlines()]

    def handled(self) -> Counter[str]:
        return Counter(line[1] for line in self.lines() if line[0] == "handled")

    def assert_only_unacknowledged_is_repeated(self) -> None:
        acked: set[str] = set()
        for word, event_id, *_ in self.lines():
            assert word == "acked" or event_id not in acked, f"{event_id} came again"
            if word == "acked":
                acked.add(event_id)


def in_order(log: Log) -> None:
    last: dict[str, int] = {}
    repeated: set[str] = set()
    for word, event_id, *place in log.lines():
        if word == "handled" and event_id not in repeated:
            repeated.add(event_id)
            partition, offset = place
            assert int(offset) > last.get(partition, -1)
            last[partition] = int(offset)


@pytest.mark.parametrize("kind", ["group", "file"])
def test_kills_repeat_at_most_what_was_not_acknowledged(
    servers: str, topic: str, writer: Writer, tmp_path: Path, kind: str
) -> None:
    log = Log(tmp_path / "log")
    options = {"servers": servers, "topics": topic, "kind": kind, "log": str(log.path)}
    options |= {"group": topic} if kind == "group" else {"file": str(tmp_path / "places")}
    writer.write(400)
    stop = threading.Event()
    thread = writer.writing(stop)
    stopped = threading.Timer(8, stop.set)
    stopped.start()
    try:
        kill_often(
            lambda: Program(**options), lambda: stop.is_set() and set(log.handled()) >= set(writer.written), 3, 1
        )
    finally:
        stop.set()
        stopped.cancel()
    thread.join()
    assert set(log.handled()) == set(writer.written)
    log.assert_only_unacknowledged_is_repeated()
    in_order(log)
    assert sum(log.handled().values()) - len(log.handled()) <= 3


def effects_of(path: Path) -> Counter[str]:
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return Counter(name for (name,) in connection.execute("SELECT event_id FROM effects"))


def make_tables(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE effects (event_id VARCHAR(100), place VARCHAR(300), txn VARCHAR(100))")
    DatabaseCheckpoint("effects", lambda: connection).create(cursor)
    connection.commit()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "effects.db"
    with closing(sqlite3.connect(path)) as connection:
        make_tables(connection)
    return path


def test_effects_and_checkpoint_in_one_transaction_are_exactly_once_through_kills(
    servers: str, topic: str, writer: Writer, database: Path
) -> None:
    options = {"servers": servers, "topics": topic, "kind": "database", "database": {"sqlite": str(database)}}
    writer.write(500)
    kill_often(lambda: Program(**options, every=7), lambda: len(effects_of(database)) >= len(writer.written) - 6, 3, 2)
    assert not effects_of(database) - Counter(writer.written)
    kill_often(lambda: Program(**options), lambda: len(effects_of(database)) >= len(writer.written), 0, 2)
    assert effects_of(database) == Counter(writer.written)


def test_transactions_are_whole_and_exactly_once_through_kills(
    servers: str, topic: str, writer: Writer, database: Path
) -> None:
    options = {
        "servers": servers, "topics": topic, "kind": "database", "database": {"sqlite": str(database)},
        "transaction_topic": f"{topic}.transactions",
    }  # fmt: skip
    made = writer.write_transactions(f"{topic}.transactions", 120)
    kill_often(lambda: Program(**options), lambda: len(effects_of(database)) >= len(writer.written), 3, 3)
    assert effects_of(database) == Counter(writer.written)
    with closing(sqlite3.connect(database)) as connection:
        found = dict(connection.execute("SELECT txn, COUNT(*) FROM effects GROUP BY txn"))
        order = [name for (name,) in connection.execute("SELECT txn FROM effects ORDER BY rowid")]
    assert found == made
    assert list(dict.fromkeys(order)) == list(made)


def test_three_members_share_and_repeat_at_most_what_was_not_acknowledged(
    servers: str, topic: str, writer: Writer, tmp_path: Path
) -> None:
    """Members come, leave and are killed while changes are written: each acknowledged change was handled once."""
    log = Log(tmp_path / "log")
    options = {"servers": servers, "topics": topic, "kind": "group", "log": str(log.path), "group": topic}
    stop, chance = threading.Event(), random.Random(4)
    thread = writer.writing(stop)
    members = [Program(**options) for _ in range(3)]
    try:
        wait_until(lambda: len(log.handled()) > 0, "a first change")
        for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            time.sleep(chance.uniform(2, 3))
            members.pop(0).kill(how)
            members.append(Program(**options))
        stop.set()
        thread.join()
        wait_until(lambda: set(log.handled()) >= set(writer.written), "everything that was written")
    finally:
        stop.set()
        for member in members:
            member.kill(signal.SIGTERM)
    assert set(log.handled()) == set(writer.written)
    log.assert_only_unacknowledged_is_repeated()
    assert sum(log.handled().values()) - len(log.handled()) <= 3


def test_members_with_a_database_are_exactly_once_through_rebalances(
    servers: str, topic: str, writer: Writer, database: Path
) -> None:
    options = {
        "servers": servers, "topics": topic, "kind": "database", "group": topic,
        "database": {"sqlite": str(database)},
    }  # fmt: skip
    stop, chance = threading.Event(), random.Random(5)
    thread = writer.writing(stop)
    members = [Program(**options) for _ in range(2)]
    try:
        wait_until(lambda: len(effects_of(database)) > 0, "a first change")
        for how in (signal.SIGTERM, signal.SIGKILL):
            time.sleep(chance.uniform(2, 3))
            members.pop(0).kill(how)
            members.append(Program(**options))
        stop.set()
        thread.join()
        wait_until(lambda: len(effects_of(database)) >= len(writer.written) - 8, "nearly everything")
    finally:
        stop.set()
        for member in members:
            member.kill(signal.SIGTERM)
    assert effects_of(database) == Counter(writer.written)


def test_mysql_has_effects_and_checkpoint_in_one_transaction(
    servers: str, topic: str, writer: Writer, started: Started
) -> None:
    host, port = started("mysql").address("mysql").split(":")
    account = {"host": host, "port": int(port), "user": "root", "password": ""}
    name = f"effects_{os.getpid()}"
    with closing(pymysql.connect(**account)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    database = {**account, "database": name}
    with closing(pymysql.connect(**database, autocommit=True)) as connection:
        make_tables(connection)

        def effects() -> Counter[str]:
            with closing(connection.cursor()) as cursor:
                cursor.execute("SELECT event_id FROM effects")
                return Counter(event_id for (event_id,) in cursor.fetchall())

        options = {"servers": servers, "topics": topic, "kind": "database", "database": database, "every": 7}
        writer.write(300)
        kill_often(lambda: Program(**options), lambda: len(effects()) >= len(writer.written) - 6, 2, 6)
        # It may have been stopped before it read the last ones: they are the next reader's.
        last = Program(**{**options, "every": 1})
        try:
            wait_until(lambda: len(effects()) >= len(writer.written), "everything that was written")
        finally:
            last.kill(signal.SIGTERM)
        assert effects() == Counter(writer.written)
