"""Findings of `databus validate` are shown whatever becomes of the repair that was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from databus.cli.main import app
from databus.core.errors import SnapshotUnfinishedError
from databus.ops.validation.result import Difference, SinkComparison, Validation

LACKS = Difference("missing", "shop.orders", "orders", b'{"id":7}', b'{"id":7,"v":1}', None)
FOUND = Validation("f", (SinkComparison("a", {}, [LACKS], repairs={"shop.orders": ("`id` IN (7)",)}),), 1, 0.1)


@contextmanager
def opened(*_: Any, **__: Any) -> Iterator[tuple[None, None]]:
    yield None, None


def refused(*_: Any) -> None:
    raise SnapshotUnfinishedError("flow f: snapshot 3 is unfinished")


def test_findings_are_shown_though_the_repair_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databus.cli.validate.opened", opened)
    monkeypatch.setattr("databus.ops.validation.validate.validate", lambda *_: FOUND)
    monkeypatch.setattr("databus.ops.validation.repair.repair", refused)
    ended = CliRunner().invoke(app, ["validate", "f", "--repair", "--reason", "why", "--execute", "-o", "json"])
    assert isinstance(ended.exception, SnapshotUnfinishedError), ended.output
    (sink,) = json.loads(ended.stdout)["sinks"]
    assert [each["key"] for each in sink["differences"]] == ['{"id":7}']
