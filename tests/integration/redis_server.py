"""Redis servers of the distribution's package, each in a folder of its own, and what a client sees of their state."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from databus.redis import Replica
from databus.redis.byte_reader import ByteReader
from databus.redis.rdb.values import Consumer, Group, Pending, Stream, StreamEntry, StreamId
from databus.sandbox import packages

Word = bytes | str | int | float
State = dict[tuple[int, bytes], tuple[str, Any, int | None]]
DATABASES = 16


class RefusedError(Exception):
    """The server's answer is an error."""


class Client:
    """A client of one connection; answers as Python values, text as bytes."""

    def __init__(self, port: int):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._bytes = ByteReader(self._socket.recv, f"client of {port}")

    def __call__(self, *words: Word) -> Any:
        return self.pipeline([words])[0]

    def pipeline(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        self._socket.sendall(b"".join(encoded(command) for command in commands))
        answers = [self._answer() for _ in commands]
        for command, answer in zip(commands, answers, strict=True):
            if isinstance(answer, RefusedError):
                raise RefusedError(f"{command[:2]}: {answer}")
        return answers

    def close(self) -> None:
        self._socket.close()

    def _answer(self) -> Any:
        line = self._bytes.line(1 << 20)[:-2]
        mark, text = line[:1], line[1:]
        if mark == b"+":
            return text
        if mark == b"-":
            return RefusedError(text.decode())
        if mark == b":":
            return int(text)
        if mark == b"$":
            return None if text == b"-1" else self._bytes.take(int(text) + 2)[:-2]
        assert mark == b"*", line
        return None if text == b"-1" else [self._answer() for _ in range(int(text))]


def encoded(command: Sequence[Word]) -> bytes:
    words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


@dataclass
class RedisServer:
    """A server that is started, killed and started again on one port."""

    folder: Path
    options: dict[str, str] = field(default_factory=dict)
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _clients: list[Client] = field(default_factory=list)

    def start(self) -> RedisServer:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = self.port or _free_port()
        settings = {
            "port": str(self.port), "bind": "127.0.0.1", "dir": str(self.folder), "save": "",
            "repl-diskless-sync-delay": "0", "enable-debug-command": "yes", "logfile": str(self.folder / "log"),
            "repl-backlog-size": "32mb", "repl-ping-replica-period": "3600", **self.options,
        }  # fmt: skip
        argv = [str(packages.require(packages.REDIS))]
        for name, value in settings.items():
            argv += [f"--{name}", *(value.split(" ") if value else [""])]
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                client = self.client()
                client("PING")
            except (OSError, RefusedError) as error:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise AssertionError(f"{error}: {(self.folder / 'log').read_text()[-2000:]}") from None
                time.sleep(0.02)
            else:
                return self

    def client(self) -> Client:
        client = Client(self.port)
        self._clients.append(client)
        return client

    def settled(self) -> bool:
        """Whether no key is about to expire, and none that has expired is still held: KEYS leaves those out."""
        client = self.client()
        for database in range(DATABASES):
            client("SELECT", database)
            names = client("KEYS", "*")
            if client("DBSIZE") != len(names) or any(0 <= client("PTTL", name) < 60_000 for name in names):
                return False
        return True

    def saved(self) -> bool:
        """Whether no snapshot is being written: FLUSHALL ends one, and with it who waits for it."""
        return self.info("persistence")["rdb_bgsave_in_progress"] == "0"

    def follow(self, **arguments: Any) -> Replica:
        from databus.redis import read_server

        return read_server("127.0.0.1", self.port, **arguments)

    def offset(self) -> int:
        """`master_repl_offset`: bytes of the stream so far."""
        return int(self.info("replication")["master_repl_offset"])

    def info(self, section: str) -> dict[str, str]:
        text = self.client()("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def kill(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def state(client: Client) -> State:
    """All keys as a client sees them: (database, name) → (kind, value, expiry in ms)."""
    found: State = {}
    for database, name in _each_key(client):
        kind = client("TYPE", name).decode()
        expires = client("PEXPIRETIME", name)
        found[database, name] = (kind, value_of(client, kind, name), None if expires == -1 else expires)
    return found


def data(client: Client) -> State:
    """All keys without when consumers were last seen, which a server notes by its own clock."""
    return {
        name: (kind, _unseen(value) if isinstance(value, Stream) else value, expires)
        for name, (kind, value, expires) in state(client).items()
    }


def _unseen(stream: Stream) -> Stream:
    return replace(
        stream,
        groups=tuple(
            replace(group, consumers=tuple(Consumer(consumer.name, 0) for consumer in group.consumers))
            for group in stream.groups
        ),
    )


def _each_key(client: Client) -> Iterator[tuple[int, bytes]]:
    for database in range(DATABASES):
        client("SELECT", database)
        for name in client("KEYS", "*"):
            yield database, name
    client("SELECT", 0)


def value_of(client: Client, kind: str, name: bytes) -> Any:
    if kind == "string":
        return client("GET", name)
    if kind == "list":
        return client("LRANGE", name, 0, -1)
    if kind == "set":
        return set(client("SMEMBERS", name))
    if kind == "hash":
        return dict(_pairs(client("HGETALL", name)))
    if kind == "zset":
        return {member: float(score) for member, score in _pairs(client("ZRANGE", name, 0, -1, "WITHSCORES"))}
    return _stream(client, name)


def _stream(client: Client, name: bytes) -> Stream:
    entries = tuple(StreamEntry(_id(i), tuple(_pairs(fields))) for i, fields in client("XRANGE", name, "-", "+"))
    info = dict(_pairs(client("XINFO", "STREAM", name, "FULL", "COUNT", 0)))
    return Stream(
        entries,
        _id(info[b"last-generated-id"]),
        _id(info[b"recorded-first-entry-id"]),
        _id(info[b"max-deleted-entry-id"]),
        info[b"entries-added"],
        tuple(_group(dict(_pairs(group))) for group in info[b"groups"]),
    )


def _group(group: dict[bytes, Any]) -> Group:
    pending = tuple(Pending(_id(i), delivered, count, consumer) for i, consumer, delivered, count in group[b"pending"])
    listed = [dict(_pairs(each)) for each in group[b"consumers"]]
    consumers = tuple(Consumer(consumer[b"name"], consumer[b"seen-time"]) for consumer in listed)
    return Group(group[b"name"], _id(group[b"last-delivered-id"]), group[b"entries-read"], pending, consumers)


def _id(text: bytes) -> StreamId:
    ms, _, seq = text.partition(b"-")
    return StreamId(int(ms), int(seq))


def _pairs(items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(items[::2], items[1::2], strict=True)
