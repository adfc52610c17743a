"""A writer of documents that is killed in mid-batch: the later half of its first window is there, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from databus.sinks.elasticsearch.bulk import Bulk, ItemResult


class KilledError(BaseException):
    """The process ends here."""


def kill_in_mid_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every bulk writer die once it has sent the newest half of its first window's documents."""
    send = Bulk.send

    def cut(self: Bulk, writes: Sequence[Any]) -> Iterator[ItemResult]:
        newest = sorted(writes, key=lambda write: write.version)[len(writes) // 2 :]
        assert len(list(send(self, newest))) == len(newest) > 0
        raise KilledError

    monkeypatch.setattr(Bulk, "send", cut)
