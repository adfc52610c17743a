"""The audit of a run of more batches than a real ZooKeeper keeps entries of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.run_audit import RunAuditContract
from tests.integration.checkpoints.stores import Connect

pytestmark = pytest.mark.integration


class TestOnZooKeeper(RunAuditContract):
    @pytest.fixture
    def store(self, connect: Connect) -> Any:
        return connect(history=self.KEPT)
