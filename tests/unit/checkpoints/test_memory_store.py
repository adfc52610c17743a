from __future__ import annotations

import pytest

from databus.testing.memory_store import MemoryCheckpoints, MemoryServer
from tests.contract.checkpoint_store import CheckpointStoreContract, OpenStore


class TestMemoryCheckpoints(CheckpointStoreContract):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        server = MemoryServer()
        return lambda: MemoryCheckpoints(server, history=self.HISTORY)
