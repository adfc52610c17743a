"""Writers of topics that the service's user may not write, beside writers of others, on a Kafka with access rules."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from databus.connections.environment import EnvironmentConnections
from databus.core.errors import SinkAccessError
from databus.kafka.client import ClientSettings, LastError
from databus.sandbox import Sandbox, SandboxOptions
from databus.sandbox.certificates import authority
from databus.sandbox.connections import secured_connections
from databus.stream.body import StreamRecord
from databus.stream.lane import Lane
from databus.stream.options import StreamOptions
from databus.stream.requests import WriteAnswer, WriteRequest
from databus.stream.topics import ServedTopics
from tests.ports import ports_from

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[ClientSettings]:
    sandbox = Sandbox(tmp_path / "secured", ports_from=ports_from(28_360), options=SandboxOptions())
    try:
        sandbox.up(("kafka-tls",))
        known = secured_connections(sandbox.status(), authority(sandbox.home))
        yield ClientSettings.of(EnvironmentConnections(known).get("kafka_secured"), 20.0)
    finally:
        sandbox.destroy()


def test_a_topic_that_may_not_be_written_fails_its_own_writers(settings: ClientSettings) -> None:
    admin = settings.admin(LastError())
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in ("open", "closed")]).values():
        future.result(30)
    user = f"User:{settings.values['sasl.username']}"
    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    rules = [
        AclBinding(ResourceType.TOPIC, "closed", ResourcePatternType.LITERAL, user, "*", operation, permission)
        for operation, permission in (
            (AclOperation.READ, allow), (AclOperation.DESCRIBE_CONFIGS, allow), (AclOperation.WRITE, deny)
        )
    ]  # fmt: skip
    for done in admin.create_acls(rules).values():
        done.result(30)
    options = StreamOptions(name="rights", lanes=1, timeout_s=10.0)
    topics, go = ServedTopics(settings), threading.Event()

    def prepare() -> None:
        assert go.wait(60)
        topics.make_state(options.state_topic, 1, options.producer_idle_s)

    def send(to: str, producer: str) -> Future[WriteAnswer]:
        return lane.submit(topics.of(to), WriteRequest(to, [StreamRecord(b"x")] * 3, producer))

    lane = Lane(settings, options, 0, prepare)
    with closing(lane):
        first = send("open", "first")  # the lane is opened for it, and what comes meanwhile is one transaction
        good, bad, other, worse = (
            send(*sent) for sent in (("open", "a"), ("closed", "a"), ("open", "b"), ("closed", "b"))
        )
        go.set()
        assert not first.result(90).repeated
        assert not good.result(90).repeated
        assert not other.result(90).repeated
        for refused in (bad, worse, send("closed", "c")):
            error = refused.exception(90)
            assert isinstance(error, SinkAccessError)
            assert not error.retryable
        assert send("open", "a").result(90).repeated
