from __future__ import annotations

import pickle

import pytest
from confluent_kafka import KafkaError, KafkaException

from databus.core.errors import (
    RecordRejectedError,
    SinkAccessError,
    SinkError,
    SinkFencedError,
    SinkSettingError,
    SinkUnavailableError,
)
from databus.kafka.client import ClientSettings, LastError, sink_error
from databus.testing.tcp_proxy import TcpProxy

SETTINGS = ClientSettings("kafka_east", "a:1")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._FENCED, SinkFencedError),
        (KafkaError.INVALID_PRODUCER_EPOCH, SinkFencedError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SinkAccessError),
        (KafkaError.INVALID_REPLICATION_FACTOR, SinkSettingError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, SinkSettingError),
        (KafkaError._ALL_BROKERS_DOWN, SinkUnavailableError),
        (KafkaError._TIMED_OUT, SinkUnavailableError),
        (KafkaError._NOENT, SinkUnavailableError),
        (KafkaError.MSG_SIZE_TOO_LARGE, RecordRejectedError),
        (KafkaError.INVALID_MSG, SinkError),
    ],
)
def test_mapping(code: int, kind: type[SinkError]) -> None:
    error = sink_error(SETTINGS, "commit", KafkaException(KafkaError(code, "why")), LastError())
    assert type(error) is kind
    for part in ("kafka_east", "a:1", "commit", "why"):
        assert part in error.message
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.hint, copy.retryable) == (kind, error.hint, error.retryable)


def test_a_refused_login_explains_a_timeout() -> None:
    seen = LastError()
    seen(KafkaError(KafkaError._AUTHENTICATION, "bad password"))
    error = sink_error(SETTINGS, "reach the brokers", KafkaException(KafkaError(KafkaError._TRANSPORT)), seen)
    assert isinstance(error, SinkAccessError)
    assert "bad password" in error.message


CLOSED = "Disconnected while requesting ApiVersion: might be caused by incorrect security.protocol configuration"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"])
def test_a_broker_that_closes_new_connections_is_away_unless_it_speaks_tls(protocol: str) -> None:
    """A proxy does so in front of a broker that is gone, and a broker that stops just then."""
    with TcpProxy("127.0.0.1:1") as proxy:
        proxy.go_down()
        settings = ClientSettings("kafka_east", f"127.0.0.1:{proxy.port}", {"security.protocol": protocol})
        error = sink_error(settings, "reach the brokers", KafkaError(KafkaError._TRANSPORT, CLOSED), LastError())
    assert isinstance(error, SinkUnavailableError)
    assert "ApiVersion" in error.message


def test_a_fence_explains_a_fatal_error() -> None:
    seen = LastError()
    seen(KafkaError(KafkaError._FENCED, "newer instance"))
    error = sink_error(SETTINGS, "produce", KafkaException(KafkaError(KafkaError._FATAL)), seen)
    assert isinstance(error, SinkFencedError)


def test_what_only_says_fatal_is_no_cause() -> None:
    seen, fatal = LastError(), KafkaError(KafkaError._FATAL, "swallowed", fatal=True)
    seen(fatal)
    assert seen.owes_cause_of(fatal)
    seen(KafkaError(KafkaError._FENCED, "newer instance", fatal=True))
    seen(fatal)
    assert isinstance(sink_error(SETTINGS, "produce", fatal, seen), SinkFencedError)


def test_an_error_in_the_background_hides_no_other() -> None:
    seen = LastError()
    seen(KafkaError(KafkaError._AUTHENTICATION, "bad password"))
    assert isinstance(
        sink_error(SETTINGS, "create topic t", KafkaError(KafkaError.INVALID_PARTITIONS), seen), SinkSettingError
    )


def test_a_record_that_a_compacted_topic_refuses_is_not_tried_again() -> None:
    error = sink_error(SETTINGS, "write", KafkaError(KafkaError.INVALID_RECORD), LastError())
    assert isinstance(error, SinkSettingError)
    assert not error.retryable
    assert "compacted" in error.hint
    assert "cleanup.policy=delete" in error.hint
