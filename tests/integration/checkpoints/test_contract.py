"""The checkpoint store on a real ZooKeeper passes the contract of every store."""

from __future__ import annotations

import pytest

from tests.contract.checkpoint_store import (
    CheckpointStoreContract,
    OpenStore,
)
from tests.contract.split_store import SplitStoreContract
from tests.integration.checkpoints.stores import Connect

pytestmark = pytest.mark.integration


class TestContract(SplitStoreContract, CheckpointStoreContract):
    @pytest.fixture
    def open_store(self, connect: Connect) -> OpenStore:
        return connect
