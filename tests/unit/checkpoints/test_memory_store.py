from __future__ import annotations

import pytest

from databus.testing.memory_store import MemoryCheckpoints, MemoryServer
from tests.contract.checkpoint_store import CheckpointStoreContract, OpenStore
from tests.contract.split_store import SplitStoreContract


class TestMemoryCheckpoints(SplitStoreContract, CheckpointStoreContract):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        server = MemoryServer()
        return lambda: MemoryCheckpoints(server, history=self.HISTORY)
