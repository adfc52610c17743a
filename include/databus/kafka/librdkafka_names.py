"""librdkafka 2.16's settings (its CONFIGURATION.md): which a flow may tune, and why it may not have the others.

`tests/unit/kafka/test_librdkafka_names.py` compares it with what the installed library itself lists: a name that a
newer one brings has to be judged here first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Side = Literal["producer", "consumer"]

_TUNES_BOTH = """
    api.version.request.timeout.ms broker.address.family broker.address.ttl client.id client.rack
    connections.max.idle.ms debug enable.metrics.push enable.random.seed log.connection.close log.thread.name log_level
    max.in.flight max.in.flight.requests.per.connection message.copy.max.bytes metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy receive.message.max.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms
    socket.connection.setup.timeout.ms socket.keepalive.enable socket.nagle.disable socket.receive.buffer.bytes
    socket.send.buffer.bytes socket.timeout.ms topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
"""
_TUNES_PRODUCER = """
    batch.num.messages batch.size compression.codec compression.level compression.type delivery.timeout.ms linger.ms
    message.send.max.retries message.timeout.ms queue.buffering.backpressure.threshold queue.buffering.max.kbytes
    queue.buffering.max.messages queue.buffering.max.ms request.timeout.ms retries
"""
"""Retries and time-outs decide when a batch fails, not what is written: a transaction is aborted, and the profiles
without one write the batch again. librdkafka itself refuses what an idempotent producer cannot have (no retry, more
than five requests in flight, a message that outlives its transaction)."""

_TUNES_CONSUMER = """
    check.crcs fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms
    fetch.wait.max.ms max.partition.fetch.bytes queued.max.messages.kbytes queued.min.messages
"""

_CONNECTIONS = "belongs into the connection: "
_ELSEWHERE = _CONNECTIONS + "a flow keeps to the cluster that it names"
_SHOWN = _CONNECTIONS + "a flow is shown and stored as it is"
_RESTS = "cannot be set: exactly once rests on it"
_NO_EFFECT = "cannot be set: it would have no effect: "

_OF_CONNECTION: Mapping[str, str] = {
    _ELSEWHERE: """
        bootstrap.servers client.dns.lookup metadata.broker.list plugin.library.paths test.mock.broker.rtt
        test.mock.num.brokers
    """,
    _SHOWN: "oauth_cb oauthbearer_token_refresh_cb ssl_ca ssl_certificate ssl_engine_callback_data ssl_key",
}

_OURS: Mapping[str, str] = {
    f"{_RESTS}: the profile says what is acknowledged": """
        acks enable.gapless.guarantee enable.idempotence request.required.acks
    """,
    f"{_RESTS}: transactions are ended by the sink, in its time": "transaction.timeout.ms transactional.id",
    f"{_RESTS}: it decides the order of records": "msg_order_cmp queuing.strategy",
    f"{_RESTS}: a delivery that is not reported is not counted": """
        background_event_cb delivery.report.only.error dr_cb dr_msg_cb enabled_events on_delivery
    """,
    f"{_RESTS}: the size of a record is judged by its topic": "message.max.bytes",
    f"{_RESTS}: a topic would not be seen, or come back empty": "allow.auto.create.topics topic.blacklist",
    f"{_RESTS}: by the old protocol aborted records are read": """
        api.version.fallback.ms api.version.request broker.version.fallback
    """,
    f"{_RESTS}: a connection ends with a request that had no answer": "socket.max.fails",
    f"{_RESTS}: the plan says where reading begins and ends": """
        auto.commit.enable auto.commit.interval.ms auto.offset.reset enable.auto.commit enable.auto.offset.store
        enable.partition.eof group.id isolation.level offset.store.method offset.store.path
        offset.store.sync.interval.ms offset_commit_cb on_commit
    """,
    f"{_NO_EFFECT}each record names its partition": "partitioner partitioner_cb sticky.partitioning.linger.ms",
    f"{_NO_EFFECT}partitions are read without joining a group": """
        consume.callback.max.messages consume_cb coordinator.query.interval.ms group.instance.id group.protocol
        group.protocol.type group.remote.assignor heartbeat.interval.ms max.poll.interval.ms max.poll.records
        partition.assignment.strategy rebalance_cb session.timeout.ms share.acknowledgement.mode
    """,
    f"{_NO_EFFECT}librdkafka does not use it any more": """
        produce.offset.report reconnect.backoff.jitter.ms socket.blocking.max.ms topic.metadata.refresh.fast.cnt
    """,
    "cannot be set: Databus serves its clients itself": """
        builtin.features closesocket_cb connect_cb default.topic.config default_topic_conf error_cb interceptors
        internal.termination.signal log.queue log_cb logger opaque open_cb resolve_cb socket_cb statistics.interval.ms
        stats_cb throttle_cb
    """,
}

_SECURITY = ("sasl.", "ssl.", "security.", "https.", "enable.ssl.", "enable.sasl.")
"""Beginnings of names that say how a client logs in, and whom it trusts."""

NOT_OF_LIBRDKAFKA = frozenset(
    {"default.topic.config", "logger", "oauth_cb", "on_commit", "on_delivery",
     "test.mock.broker.rtt", "test.mock.num.brokers"}
)  # fmt: skip
"""Names that it does not list: confluent-kafka's own, and hidden ones."""

ALIASES: Mapping[str, str] = {
    "acks": "request.required.acks",
    "bootstrap.servers": "metadata.broker.list",
    "compression.type": "compression.codec",
    "delivery.timeout.ms": "message.timeout.ms",
    "linger.ms": "queue.buffering.max.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "retries": "message.send.max.retries",
    "sasl.mechanism": "sasl.mechanisms",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""Name → the name under which librdkafka keeps the same setting."""

TUNES: Mapping[Side, frozenset[str]] = {
    "producer": frozenset(f"{_TUNES_BOTH} {_TUNES_PRODUCER}".split()),
    "consumer": frozenset(f"{_TUNES_BOTH} {_TUNES_CONSUMER}".split()),
}
REFUSED: Mapping[str, str] = {
    name: why for reasons in (_OF_CONNECTION, _OURS) for why, names in reasons.items() for name in names.split()
}
OURS = frozenset(" ".join(_OURS.values()).split())
"""Settings that a connection which other programs share may hold, and Databus' clients do without."""


def setting_of(name: str) -> str:
    """Return the one name of a setting: librdkafka takes aliases, and "topic." before those of topics."""
    bare = name.removeprefix("topic.")
    known = name if name in REFUSED or any(name in names for names in TUNES.values()) else bare
    return ALIASES.get(known, known)


def is_security(name: str) -> bool:
    """Return whether a setting says how a client logs in or whom it trusts."""
    return name.startswith(_SECURITY) or REFUSED.get(name) == _SHOWN
