"""A benchmark that is sent SIGTERM unwinds, so that what it started is removed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from databus.cli.bench.commands import end_when_asked_to


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def _runs(removed: list[str]) -> None:
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    finally:
        removed.append("servers")


def test_what_a_benchmark_started_is_removed_when_it_is_ended() -> None:
    end_when_asked_to()
    removed: list[str] = []
    with pytest.raises(SystemExit) as ended:
        _runs(removed)
    assert (ended.value.code, removed) == (143, ["servers"])
