"""A real Debezium's transaction metadata over the same log as ours, made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from databus.sandbox import Sandbox
from tests.integration.debezium_transaction_recorder import record
from tests.ports import ports_from
from tests.unit.formats.debezium_transactions import VARIANTS, TransactionRecording, blocks, boundaries, schemas_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


def test_ours_is_debezium_s(tmp_path: Path) -> None:
    # Servers of its own: the connector reads a server's log from its beginning.
    sandbox = Sandbox(tmp_path / "sandbox", ports_from=ports_from(28_700))
    try:
        sandbox.up(("kafka", "mysql", "debezium"))
        record(sandbox, tmp_path / "recording")
    finally:
        sandbox.destroy()
    made = TransactionRecording(tmp_path / "recording")
    for variant in VARIANTS:
        ours, theirs = made.ours(variant), made.debezium[variant]
        assert boundaries(ours) == boundaries(theirs)
        assert blocks(ours) == blocks(theirs)
    assert schemas_of(made.ours("schemas")) == schemas_of(made.debezium["schemas"])
