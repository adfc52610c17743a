"""A run's batches beside the history, on a checkpoint store in memory."""

from __future__ import annotations

from typing import Any

import pytest

from databus.testing.memory_store import MemoryCheckpoints
from tests.contract.run_audit import RunAuditContract


class TestInMemory(RunAuditContract):
    @pytest.fixture
    def store(self) -> Any:
        return MemoryCheckpoints(history=self.KEPT)
