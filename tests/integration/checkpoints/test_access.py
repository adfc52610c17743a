"""Servers that do not answer, and nodes that only their login may read."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from databus.checkpoints.zookeeper import ZooKeeperCheckpoints
from databus.core.connections import Connection
from databus.core.errors import (
    CheckpointError,
    CheckpointUnavailableError,
)
from databus.core.findings import Level
from tests.contract.checkpoint_store import (
    FLOW,
    commit,
    plan_of,
)
from tests.integration.checkpoints.stores import Connect, started, walk

pytestmark = pytest.mark.integration


class TestAccess:
    def test_nobody_listens(self, connect: Connect) -> None:
        store = connect(port=1, connect_timeout_s=0.5)
        with pytest.raises(CheckpointUnavailableError, match=r"127\.0\.0\.1:1: Connection refused") as caught:
            store.load(FLOW)
        assert (caught.value.code, caught.value.retryable) == ("checkpoint_unavailable", True)
        assert "127.0.0.1:1" in caught.value.hint
        (finding,) = store.preflight()
        assert (finding.level, finding.code) == (Level.ERROR, "checkpoint_unavailable")

    def test_open_fails_at_once(self, address: tuple[str, int]) -> None:
        extra = {"connect_timeout_s": 0.5}
        nobody = Connection(conn_id="z", conn_type="zookeeper", host=address[0], port=1, extra=extra)
        with pytest.raises(CheckpointUnavailableError):
            ZooKeeperCheckpoints.open(nobody)

    def test_one_dead_host_of_two_does_not_matter(self, connect: Connect, address: tuple[str, int]) -> None:
        store = connect(hosts=f"127.0.0.1:1,{address[0]}:{address[1]}")
        assert store.claim(FLOW, "run-1", wait_s=0).epoch == 1

    def test_what_a_login_makes_is_its_own(self, connect: Connect, raw: Any, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="databus.checkpoints.kazoo"):
            owner = connect(login="databus", password="s3cret-word")
            lease = started(owner)
            owner.write_plan(lease, plan_of(1, 0, 10))
            commit(owner, lease, plan_of(1, 0, 10))
        assert "Sending request" in caplog.text
        assert "s3cret-word" not in caplog.text
        for intruder in (connect(), connect(login="databus", password="guess")):
            for act in (
                lambda s: s.load(FLOW),
                lambda s: s.claim(FLOW, "run-2", wait_s=0),
                lambda s: s.write_plan(lease, plan_of(2, 10, 20)),
                lambda s: s.server_ids().lease("db:3306"),
            ):
                with pytest.raises(CheckpointError) as caught:
                    act(intruder)
                assert caught.value.code == "checkpoint_access_denied"
                assert not caught.value.retryable
                assert "s3cret" not in str(caught.value)
                assert caught.value.hint
            assert intruder.preflight()[0].code == "checkpoint_access_denied"
        with pytest.raises(NoAuthError):
            raw.get_children(connect.root)
        raw.add_auth("digest", "databus:s3cret-word")
        nodes = list(walk(raw, connect.root))
        assert len(nodes) > 8
        assert all(b"s3cret" not in data for _, data in nodes)
        assert connect(login="databus", password="s3cret-word").load(FLOW).batch == 1
