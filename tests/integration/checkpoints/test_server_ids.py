"""Replication server ids, leased once each."""

from __future__ import annotations

import pytest

from databus.core.errors import (
    LeaseBusyError,
)
from tests.contract.checkpoint_store import (
    DEADLINE_S,
)
from tests.integration.checkpoints.stores import Connect, in_thread

pytestmark = pytest.mark.integration


class TestServerIds:
    def test_twenty_at_once_get_twenty_ids(self, connect: Connect) -> None:
        stores = [connect(first_server_id=7000, last_server_id=7019) for _ in range(5)]
        running = [in_thread(lambda s=stores[i % 5]: s.server_ids().lease("db:3306")) for i in range(20)]
        for thread, _ in running:
            thread.join(DEADLINE_S)
        ids = [results[0] for _, results in running]
        assert sorted(ids) == list(range(7000, 7020))
        with pytest.raises(LeaseBusyError, match="db:3306"):
            stores[0].server_ids().lease("db:3306")
        assert stores[0].server_ids().lease("other:3306") in ids

    def test_released_or_ended_ids_are_free_again(self, connect: Connect) -> None:
        only = {"first_server_id": 7000, "last_server_id": 7000}
        first, second = connect(**only), connect(**only)
        assert first.server_ids().lease("db:3306") == 7000
        second.server_ids().release("db:3306", 7000)  # not its own: stays
        with pytest.raises(LeaseBusyError):
            second.server_ids().lease("db:3306")
        first.server_ids().release("db:3306", 7000)
        first.server_ids().release("db:3306", 7000)
        assert second.server_ids().lease("db:3306") == 7000
        second.close()
        assert first.server_ids().lease("db:3306") == 7000

    def test_default_range(self, connect: Connect) -> None:
        assert 5_400_000 <= connect().server_ids().lease("db:3306") <= 5_499_999
