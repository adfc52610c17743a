"""Kafka clients in memory, for what no real broker does on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError


@dataclass
class FakeMessage:
    """Message of partition `of`; `failed` is the code of an error in its place."""

    at: int
    given: bytes | None = b""
    name: bytes | None = None
    failed: int | None = None
    named: Sequence[tuple[str, bytes | None]] = ()
    of: int = 0

    def partition(self) -> int:
        return self.of

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.given

    def key(self) -> bytes | None:
        return self.name

    def headers(self) -> Any:
        return list(self.named) or None

    def error(self) -> KafkaError | None:
        return None if self.failed is None else KafkaError(self.failed)


def end_at(offset: int) -> FakeMessage:
    return FakeMessage(offset, failed=KafkaError._PARTITION_EOF)


class FakeConsumer:
    """Consumer that gives messages in the order of a script."""

    def __init__(self, messages: Sequence[FakeMessage]):
        self._messages = list(messages)

    def assign(self, partitions: Any) -> None:
        pass

    def poll(self, seconds: float) -> FakeMessage | None:
        return self._messages.pop(0) if self._messages else None

    def consume(self, count: int, seconds: float) -> list[FakeMessage]:
        """Return messages up to the next error, as if what follows came later."""
        taken: list[FakeMessage] = []
        while self._messages and len(taken) < count and not (taken and taken[-1].error()):
            taken.append(self._messages.pop(0))
        return taken

    def close(self) -> None:
        pass
