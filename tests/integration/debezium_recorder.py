"""Recording of a real Debezium's messages: `python -m tests.integration.debezium_recorder [FOLDER]` writes one anew."""

from __future__ import annotations

import gzip
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from databus.bench.log_files import log_writer
from databus.bench.peer import SETTINGS, DebeziumPeer
from databus.sandbox import Sandbox
from tests.unit.formats.debezium_recording import KEPT, prefix_of
from tests.unit.formats.debezium_tables import DATABASE, SCRIPT, TABLES, VARIANTS, connector_settings

_WITHIN_S = 120.0
_LAST = "last"
"""Table whose one row ends the recording."""


def record(sandbox: Sandbox, folder: Path) -> None:
    """Let a server write the tables' changes, and Debezium read them once for each variant; write it all down.

    Args:
        sandbox: with mysql, kafka and debezium.
        folder: for the recording.
    """
    with log_writer(sandbox, "mysql") as writer:
        writer.run(f"DROP DATABASE IF EXISTS {DATABASE}")
        writer.run(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        written = writer.write(_changes)
        data = written.path.read_bytes()
        peers = {name: _peer(sandbox, name) for name in VARIANTS}
        found = {name: _messages(sandbox, name) for name in VARIANTS}
    for peer in peers.values():
        peer.delete()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{written.path.name}.gz").write_bytes(gzip.compress(data, mtime=0))
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
    (folder / "messages.json.gz").write_bytes(gzip.compress(text, mtime=0))


def _peer(sandbox: Sandbox, variant: str) -> DebeziumPeer:
    tables = [f"{DATABASE}.{table}" for table in (*TABLES, _LAST)]
    number = sorted(VARIANTS).index(variant)
    settings = {**SETTINGS, **connector_settings(variant)}
    peer = _Peer(sandbox, prefix_of(variant), tables, settings)
    peer.server_id = str(5411 + number)
    peer.create()
    return peer


class _Peer(DebeziumPeer):
    server_id = ""

    def _config(self) -> dict[str, str]:
        return {**super()._config(), "database.server.id": self.server_id}


def _changes(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode='', time_zone='+00:00'")
        cursor.execute(f"USE {DATABASE}")
        for statement in SCRIPT:
            cursor.execute(statement)
        cursor.execute(f"CREATE TABLE {_LAST} (id INT PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {_LAST} VALUES (1)")
    return 0


def _messages(sandbox: Sandbox, variant: str) -> dict[str, list[tuple[Any, Any]]]:
    prefix = prefix_of(variant)
    settings = {"bootstrap.servers": sandbox.address("kafka"), "group.id": prefix, "enable.partition.eof": True}
    with closing(Consumer(settings)) as consumer:
        _read(consumer, f"{prefix}.{DATABASE}.{_LAST}", 1)
        return {table: _read(consumer, f"{prefix}.{DATABASE}.{table}", 0) for table in TABLES}


def _read(consumer: Consumer, topic: str, least: int) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    until = time.monotonic() + _WITHIN_S
    consumer.assign([TopicPartition(topic, 0, 0)])
    while time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is None:
            found.append((_parsed(message.key()), _parsed(message.value())))
        elif len(found) >= least:
            return found
    raise TimeoutError(f"{topic} holds {len(found)} messages")


def _parsed(text: bytes | str | None) -> Any:
    # Digits stay as they came: the file is compared as texts are read, not as doubles.
    return None if text is None else json.loads(text)


if __name__ == "__main__":
    with TemporaryDirectory() as home:
        made = Sandbox(Path(home), ports_from=27_400)
        try:
            made.up(("kafka", "mysql", "debezium"))
            record(made, Path(sys.argv[1]) if len(sys.argv) > 1 else KEPT)
        finally:
            made.destroy()
