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
from databus.ops.validation.result import DeletedKeys, Difference, ExtraKey, SinkComparison, Validation

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


def test_extra_keys_are_deleted_by_a_flag_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = DeletedKeys("`id` IN (7)", ('{"id":7}',))
    key = ExtraKey("orders", b'{"id":7}', '{"id":7}')
    result = Validation("f", (), 1, 0.1, {"shop.orders": (gone,)}, (key,))
    monkeypatch.setattr("databus.cli.validate.opened", opened)
    monkeypatch.setattr("databus.ops.validation.validate.validate", lambda *_: result)
    said = CliRunner().invoke(app, ["validate", "f", "--repair"]).output
    assert "1 extra key stays; --delete-extra deletes them" in said
    assert "to be deleted" not in said
    said = CliRunner().invoke(app, ["validate", "f", "--repair", "--delete-extra"]).output
    assert "1 extra key to be deleted by a snapshot" in said
    assert 'deleted in orders: {"id":7}' in said
    ended = CliRunner().invoke(app, ["validate", "f", "--delete-extra"])
    assert "--delete-extra deletes nothing without --repair" in str(ended.exception)
