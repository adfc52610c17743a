"""A run's batches beside the history, on a checkpoint store in memory."""

from __future__ import annotations

from typing import Any

import pytest

from databus.ops.runs import history as run_history
from databus.testing.memory_store import MemoryCheckpoints
from tests.contract.run_audit import RunAuditContract


class TestInMemory(RunAuditContract):
    BATCHES = 330

    @pytest.fixture(autouse=True)
    def smaller_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As they are, the full tier reads them (integration/checkpoints/test_run_audit.py)."""
        monkeypatch.setattr(run_history, "_PAGES", 150)

    @pytest.fixture
    def store(self) -> Any:
        return MemoryCheckpoints(history=self.KEPT)
