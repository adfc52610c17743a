"""What librdkafka logs is a line of ours, with the client that it is of; nothing goes to stderr beside the log."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import KafkaException

from databus.core.connections import Connection
from databus.kafka.client import ClientSettings, LastError

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def settings() -> ClientSettings:
    extra = {"bootstrap.servers": NOWHERE, "sasl.password": "secret-of-ada", "client.id": "secret-of-ada"}
    return ClientSettings.of(Connection(conn_id="kafka_east", conn_type="kafka", extra=extra), timeout_s=1.0)


def lines(caplog: pytest.LogCaptureFixture, client: Any, text: str = "") -> list[logging.LogRecord]:
    """Return the lines with a text; waits for the first of them."""

    def found() -> list[logging.LogRecord]:
        return [record for record in caplog.records if text in record.getMessage()]

    deadline = time.monotonic() + 20
    while not found() and time.monotonic() < deadline:
        with suppress(KafkaException):
            client.list_topics(timeout=0.1)
        client.poll(0.1)
    return found()


@pytest.mark.parametrize("kind", ["producer", "consumer", "admin"])
def test_a_connection_that_fails_names_the_client_and_is_no_line_of_a_good_run(
    settings: ClientSettings, kind: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "databus.kafka")
    client: Any = {
        "producer": lambda: settings.producer({"transactional.id": "databus.orders.0"}, LastError()),
        "consumer": lambda: settings.consumer({"group.id": "databus.markers"}, LastError()),
        "admin": lambda: settings.admin(LastError()),
    }[kind]()
    found = lines(caplog, client)
    known_as = {
        "producer": "producer databus.orders.0",
        "consumer": "consumer databus.markers",
        "admin": "admin client",
    }
    assert f"Kafka {known_as[kind]} of connection kafka_east: FAIL: " in found[0].getMessage()
    assert "Connection refused" in found[0].getMessage()
    assert {record.levelno for record in found} == {logging.INFO}
    assert "secret-of-ada" not in caplog.text
    if kind == "consumer":
        client.close()
    del client
    shown = capfd.readouterr()
    assert "%3|" not in shown.err + shown.out


def test_what_is_wrong_with_a_setting_keeps_its_level(
    settings: ClientSettings, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    client = settings.producer({"fetch.min.bytes": 2}, LastError())
    # A client of another test may have a line left to say.
    (line, *_) = lines(caplog, client, "CONFWARN")
    assert (line.levelno, line.name) == (logging.WARNING, "databus.kafka.client_log")
    assert line.getMessage().startswith("Kafka producer of connection kafka_east: CONFWARN: ")
    assert "%4|" not in capfd.readouterr().err
