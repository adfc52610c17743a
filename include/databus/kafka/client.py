"""Kafka clients from a connection, and librdkafka's errors as ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from pydantic import SecretStr

from databus.core.connections import Connection
from databus.core.errors.sink import (
    RecordRejectedError,
    SinkAccessError,
    SinkError,
    SinkFencedError,
    SinkSettingError,
    SinkUnavailableError,
)
from databus.core.secrets import redacted, secret_values
from databus.kafka import inherited
from databus.kafka.client_log import ClientLog
from databus.kafka.client_settings import merged, of_connection, servers_of
from databus.kafka.consumer import GrouplessConsumer
from databus.kafka.refusals import SASL_MISSING, check_files, missing_mechanism, only_closed, refusal

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class _Producer(Producer):
    """A producer that can be referred to weakly."""


_CONSUMER = {
    "fetch.queue.backoff.ms": 10,  # a second by default: a reader that takes its queue in gulps then mostly waits
}

_PRODUCER = {
    # Of use to producers too, whose default is true (librdkafka's CONFIGURATION.md): all topics are made by name before
    # they are written to, and one that was deleted since must not come back, empty, with a broker's own settings.
    "allow.auto.create.topics": False,
}

_UNKNOWN_TOPIC_S = 30.0
"""librdkafka's own patience with a topic that no broker knows."""

_SERVERS_HINT = 'Set its extra to {"bootstrap.servers": "host:9092"}, or its host and port.'

_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})  # noqa: SLF001
_FATAL = frozenset({KafkaError._FATAL, KafkaError._STATE})  # noqa: SLF001
_ACCESS = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's own codes begin with an underscore
        KafkaError._SSL,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_SETTING = frozenset(
    {
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._INVALID_ARG,  # noqa: SLF001
    }
)
MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})  # noqa: SLF001
"""Errors of a record whose topic, or partition of it, no broker knows."""

_ACCESS_WORDS = ("incorrect security.protocol", "SSL routines")
"""In errors of transport: the broker closed a new connection since only one side speaks TLS, or sent a TLS alert."""
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_KEYLESS = (
    "A compacted topic refuses records without a key, as those of a table without a key are: let that topic delete "
    "(kafka-configs.sh --alter --add-config cleanup.policy=delete) and run again, or leave such tables out of the flow."
)
_NAMED = "Change the setting that the broker names, or create the topic by hand."
_NO_PARTITION = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001
_GROWN = (
    "The topic has grown, or was made anew, and not every broker reports its partitions yet: a retry goes on. If none "
    "does, it was made anew with fewer partitions, which brokers before Kafka 2.8 do not report: add partitions to it."
)
_AWAY = "Check that the brokers run and that bootstrap.servers reaches them."
_UNAVAILABLE = frozenset(
    {
        _NO_PARTITION,
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._NOENT,  # noqa: SLF001 - of ListOffsets: no partition has a leader just now
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)


class LastError:
    """Keeps what a client reported in the background: a refused login or a fence shows there only.

    The call itself just times out, or says "fatal".
    """

    def __init__(self) -> None:
        self.access: KafkaError | None = None
        self.fatal: KafkaError | None = None
        self.reports = 0

    def __call__(self, error: KafkaError) -> None:
        """Take one report of librdkafka's error callback."""
        self.reports += 1
        if _is_refusal(error):
            self.access = error
        if error.code() in _FENCED or (error.fatal() and error.code() not in _FATAL):
            self.fatal = error

    def owes_cause_of(self, error: KafkaError) -> bool:
        """Return whether an error's cause is still to be reported."""
        return error.code() in _FATAL and self.fatal is None

    def explain(self, error: KafkaError) -> KafkaError:
        """Return the reported cause of an error that only says "fatal" or "no answer", else the error itself."""
        if error.code() in _FATAL and self.fatal is not None:
            return self.fatal
        if error.code() in _UNAVAILABLE and self.access is not None:
            return self.access
        return error


@dataclass(frozen=True)
class ClientSettings:
    """Kafka client settings of one cluster; picklable, and its repr shows no setting that could be a secret.

    Attributes:
        conn_id: the connection's id, for messages.
        servers: bootstrap servers, "host:port,…".
        values: further librdkafka settings, credentials included.
        password: sasl.password.
        timeout_s: seconds an operation waits for the brokers.
    """

    conn_id: str
    servers: str
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    password: SecretStr = field(default_factory=lambda: SecretStr(""))
    timeout_s: float = 30.0

    @classmethod
    def of(cls, connection: Connection, timeout_s: float) -> ClientSettings:
        """Read a connection: extra as librdkafka settings, host and port where it names no servers, login as SASL user.

        Raises:
            SinkSettingError: no bootstrap server anywhere, or different ones by the setting's two names.
        """
        try:
            servers = servers_of(connection.extra)
        except ValueError as error:
            raise SinkSettingError(f"connection {connection.conn_id}: {error}", hint=_SERVERS_HINT) from None
        values = of_connection(connection.extra)
        if not servers and connection.host:
            servers = f"{connection.host}:{connection.port or 9092}"
        if not servers:
            raise SinkSettingError(
                f"connection {connection.conn_id} names no Kafka broker",
                hint=_SERVERS_HINT,
            )
        if connection.login:
            values["sasl.username"] = connection.login
        check_files(connection.conn_id, values)
        if missing_mechanism(values):
            raise SinkSettingError(
                f"connection {connection.conn_id}: {SASL_MISSING.what}", hint=SASL_MISSING.hint, code=SASL_MISSING.code
            )
        return cls(connection.conn_id, servers, values, connection.password, timeout_s)

    def producer(self, settings: Mapping[str, Any], on_error: LastError) -> Producer:
        """Open a producer, which makes no topics."""
        # Sooner than a flush gives up, which could not name the topic that no broker knows.
        unknown_ms = int(min(_UNKNOWN_TOPIC_S, self.timeout_s * 0.8) * 1000)
        defaults = {"topic.metadata.propagation.max.ms": unknown_ms}
        producer: Producer = self._open("producer", _Producer, defaults, {**_PRODUCER, **settings}, on_error)
        return producer

    def consumer(self, settings: Mapping[str, Any], on_error: LastError) -> Consumer:
        """Open a consumer that joins no group."""
        consumer: Consumer = self._open("consumer", GrouplessConsumer, _CONSUMER, settings, on_error)
        return consumer

    def admin(self, on_error: LastError) -> AdminClient:
        """Open an admin client."""
        from confluent_kafka.admin import AdminClient  # a reader of records needs none

        admin: AdminClient = self._open("admin client", AdminClient, {}, {}, on_error)
        return admin

    def _open(
        self,
        kind: str,
        client: Callable[..., Any],
        defaults: Mapping[str, Any],
        settings: Mapping[str, Any],
        on_error: LastError,
    ) -> Any:
        password = self.password.get_secret_value()
        login = {"sasl.password": password} if password else {}
        # The servers come last: whatever a layer holds, by whichever name, a client goes to its own cluster.
        fixed = {"bootstrap.servers": self.servers, "error_cb": on_error}
        config = merged(defaults, self.values, settings, login, fixed)
        try:
            opened = client(config, logger=self._log(kind, config))
        except (KafkaException, ValueError, TypeError) as error:
            # Without the cause: a traceback would print its text, which may quote a value.
            raise SinkSettingError(
                f"{self.conn_id}: librdkafka refuses the settings: {self.redacted(str(error))}",
                hint="The connection's extra and the sink's `producer` option take librdkafka's setting names.",
            ) from None
        inherited.note(opened)
        return opened

    def _log(self, kind: str, config: Mapping[str, Any]) -> ClientLog:
        known_as = next((f" {config[name]}" for name in ("transactional.id", "group.id") if config.get(name)), "")
        return ClientLog(f"{kind}{known_as} of connection {self.conn_id}", self.redacted)

    def redacted(self, text: str) -> str:
        """Return a text without the secrets among these settings."""
        return redacted(text, secret_values(self.values) | {self.password.get_secret_value()})


def _is_refusal(error: KafkaError) -> bool:
    return error.code() in _ACCESS or any(words in error.str() for words in _ACCESS_WORDS)


def kafka_error(error: KafkaException | KafkaError) -> KafkaError:
    """Return the KafkaError inside an exception."""
    return error.args[0] if isinstance(error, KafkaException) else error


def _access_error(settings: ClientSettings, where: str, text: str, cause: KafkaError) -> SinkAccessError | None:
    found = refusal(cause.str(), settings.conn_id, settings.servers, settings.values)
    if found is None and only_closed(cause.str()):
        return None
    if found is not None:
        detail = settings.redacted(found.detail)
        return SinkAccessError(f"{where}: {found.what}: {detail}", hint=found.hint, code=found.code)
    hint = "Check login, password, security.protocol and sasl.mechanism of the connection, and the user's ACLs."
    return SinkAccessError(text, hint=hint)


def sink_error(settings: ClientSettings, doing: str, error: KafkaException | KafkaError, seen: LastError) -> SinkError:
    """Map a client error to the error tree.

    Args:
        settings: names the connection and servers.
        doing: what was tried, e.g. "read the marker of slot 0".
        error: what the client said.
        seen: what the client reported in the background; a refused login there explains a timeout here.
    """
    cause = seen.explain(kafka_error(error))
    code = cause.code()
    where = f"{settings.conn_id} ({settings.servers}): cannot {doing}"
    text = settings.redacted(f"{where}: {cause.name()}: {cause.str()}")
    if code in _FENCED:
        return SinkFencedError(
            text, hint="Another writer of this flow has taken over; a retry reads the marker and goes on from there."
        )
    if _is_refusal(cause) and (refused := _access_error(settings, where, text, cause)) is not None:
        return refused
    if code in _TOO_LARGE:
        return RecordRejectedError(text, hint="Raise max.message.bytes of the topic, or drop the large column.")
    if code in _SETTING:
        return SinkSettingError(text, hint=_KEYLESS if code == KafkaError.INVALID_RECORD else _NAMED)
    if code in _UNAVAILABLE:
        return SinkUnavailableError(text, hint=_GROWN if code == _NO_PARTITION else _AWAY)
    passing = cause.retriable() or cause.txn_requires_abort() or code in _FATAL
    hint = "A retry opens another producer and goes on from the marker." if passing else ""
    return SinkError(text, hint=hint, retryable=bool(passing))
