"""Recording of a real Debezium's transaction metadata.

`python -m tests.integration.debezium_transaction_recorder [FOLDER]` writes one anew.
"""

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
from tests.unit.formats.debezium_transactions import DATABASE, KEPT, SCRIPT, TABLES, VARIANTS, prefix_of

_WITHIN_S = 120.0
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


def record(sandbox: Sandbox, folder: Path) -> None:
    """Let a server write transactions, and Debezium read them once for each variant; write it all down.

    Args:
        sandbox: with mysql, kafka and debezium.
        folder: for the recording.
    """
    with log_writer(sandbox, "mysql") as writer:
        writer.run(f"DROP DATABASE IF EXISTS {DATABASE}")
        writer.run(f"CREATE DATABASE {DATABASE}")
        written = writer.write(_changes)
        data = written.path.read_bytes()
        peers = [_peer(sandbox, name) for name in VARIANTS]
        found = {name: _messages(sandbox, prefix_of(name)) for name in VARIANTS}
    for peer in peers:
        peer.delete()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{written.path.name}.gz").write_bytes(gzip.compress(data, mtime=0))
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
    (folder / "messages.json.gz").write_bytes(gzip.compress(text, mtime=0))


class _Peer(DebeziumPeer):
    server_id = ""

    def _config(self) -> dict[str, str]:
        return {**super()._config(), "database.server.id": self.server_id}


def _peer(sandbox: Sandbox, variant: str) -> DebeziumPeer:
    schemas = "true" if VARIANTS[variant].get("schemas") else "false"
    settings = {
        **SETTINGS,
        "provide.transaction.metadata": "true",
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        "key.converter.schemas.enable": schemas,
        "value.converter.schemas.enable": schemas,
    }
    peer = _Peer(sandbox, prefix_of(variant), [f"{DATABASE}.{table}" for table in TABLES], settings)
    peer.server_id = str(5421 + sorted(VARIANTS).index(variant))
    peer.create()
    return peer


def _changes(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"USE {DATABASE}")
        for statement in SCRIPT:
            cursor.execute(statement)
    return 0


def _messages(sandbox: Sandbox, prefix: str) -> dict[str, list[tuple[Any, Any]]]:
    settings = {"bootstrap.servers": sandbox.address("kafka"), "group.id": prefix, "enable.partition.eof": True}
    with closing(Consumer(settings)) as consumer:
        ended = _read(consumer, f"{prefix}.transaction", f"{DATABASE}.last")
        return {f"{DATABASE}.{t}": _read(consumer, f"{prefix}.{DATABASE}.{t}") for t in TABLES} | {"transaction": ended}


def _read(consumer: Consumer, topic: str, last: str = "") -> list[tuple[Any, Any]]:
    """Return the messages of a topic, to the one that names its last table, or to its end."""
    found: list[tuple[Any, Any]] = []
    until = time.monotonic() + _WITHIN_S
    consumer.assign([TopicPartition(topic, 0, 0)])
    while time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is None:
            found.append((_parsed(message.key()), _parsed(message.value())))
            if last and f'"{last}"' in (message.value() or b"").decode():
                return found
        elif found and not last:
            return found
    raise TimeoutError(f"{topic} holds {len(found)} messages")


def _parsed(text: bytes | str | None) -> Any:
    return None if text is None else json.loads(text)


if __name__ == "__main__":
    with TemporaryDirectory() as home:
        made = Sandbox(Path(home), ports_from=27_600)
        try:
            made.up(("kafka", "mysql", "debezium"))
            record(made, Path(sys.argv[1]) if len(sys.argv) > 1 else KEPT)
        finally:
            made.destroy()
