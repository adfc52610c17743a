"""`databus quarantine list` lists as many rows as it may, and says when there are more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from databus import Flow, Mock, Noop
from databus.cli import quarantine
from databus.cli.main import app
from databus.core.batches.receipts import CHECK, RejectedRow
from databus.core.settings import Settings
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore

FLOW = Flow(name="orders", source=Mock(rows=1), sinks=(Noop(),))


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    url, rows = f"sqlite:///{tmp_path / 'r.db'}", 103
    with SqlRecorder(RecordStore(url)) as recorder:
        recorder.quarantine(
            "orders",
            1,
            [RejectedRow(f"e{n:03}", "shop.orders", None, "a cause", CHECK, "b.1:4", "{}") for n in range(rows)],
        )

    @contextmanager
    def opened(*_: Any, **__: Any) -> Iterator[Any]:
        yield FLOW, SimpleNamespace(settings=Settings("t", "", url))

    monkeypatch.setattr(quarantine, "opened", opened)
    return rows


def test_more_rows_than_are_listed_are_told_on_stderr_and_scripts_read_what_they_read(held: int) -> None:
    done = CliRunner().invoke(app, ["quarantine", "list", "orders", "-o", "json"])
    assert [row["event_id"] for row in json.loads(done.stdout)] == [f"e{n:03}" for n in range(100)]
    assert "NOT ALL: the first 100 rows; more match, raise --limit." in done.stderr
    assert f"{held} held (check {held})" in done.stderr
    for limit in (held, held + 1):
        whole = CliRunner().invoke(app, ["quarantine", "list", "orders", "-o", "json", "--limit", str(limit)])
        assert len(json.loads(whole.stdout)) == held
        assert "NOT ALL" not in whole.stderr
