"""`databus stream` on a real Kafka: reads by offset, deliveries to consumers, tokens and TLS."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from databus.core.errors import ConfigError
from databus.kafka.client import ClientSettings
from databus.kafka.groups import ClusterGroups
from databus.sandbox.certificates import Authority
from databus.stream.access import Tokens
from databus.stream.openapi import description
from databus.stream.server import Listener
from databus.testing.tcp_proxy import TcpProxy
from tests.integration.kafka_target import wait_until
from tests.integration.stream_client import Client, Served, new_topic, own_services, problem

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def topic(servers: str) -> str:
    return new_topic(servers)


@pytest.fixture
def serve(servers: str) -> Iterator[Callable[..., Served]]:
    yield from own_services(servers)


@pytest.fixture(scope="module")
def served(servers: str) -> Iterator[Served]:
    service = Served(servers, f"read{os.getpid()}")
    yield service
    service.close()


def texts(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [record["text"] for record in answer.json()["records"]]


def test_records_are_read_by_offset(served: Served, topic: str) -> None:
    served.write(topic, [f"n{number}" for number in range(30)], partition=1, key="k", producer="w", sequence=0)
    served.write(topic, b"\xff\x00", partition=1)
    answer = served.read(topic, partition=1, offset=10, max_records=5)
    assert texts(answer) == [f"n{number}" for number in range(10, 15)]
    first = answer.json()["records"][0]
    assert (first["offset"], first["partition"], first["key"]) == (10, 1, "k")
    came, place = [], 0
    while records := (answer := served.read(topic, partition=1, offset=place, max_bytes=40, wait_s=1).json())[
        "records"
    ]:
        came += records
        place = answer["next"]
    assert [record.get("text") for record in came[:30]] == [f"n{number}" for number in range(30)]
    assert base64.b64decode(came[30]["base64"]) == b"\xff\x00"
    assert served.read(topic, partition=1, offset="latest").json()["records"] == []
    problem(served.read(topic, partition=3), 404, "stream_topic")
    problem(served.read(topic, partition=1, offset="x"), 400, "stream_request")
    problem(served.read(topic, partition=1, offset=10_000), 410, "stream_place_gone")
    problem(served.read(topic, wait_s=31), 400, "stream_request")


def test_a_read_waits_for_what_is_written(served: Served, topic: str) -> None:
    answers: list[httpx.Response] = []
    other = Client(str(served.http.base_url))
    thread = threading.Thread(target=lambda: answers.append(other.read(topic, partition=0, wait_s=30)))
    thread.start()
    wait_until(lambda: served.service.admission.requests == 1, "the read")
    served.write(topic, ["came"], partition=0)
    thread.join(60)
    other.http.close()
    assert texts(answers[0]) == ["came"]


def test_only_committed_records_are_read(servers: str, served: Served, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"other-{topic}"})
    producer.init_transactions(30)
    for commits in (False, True):
        producer.begin_transaction()
        producer.produce(topic, f"committed {commits}", partition=0)
        producer.commit_transaction(30) if commits else producer.abort_transaction(30)
    assert texts(served.read(topic, partition=0, wait_s=10)) == ["committed True"]


def test_what_is_acknowledged_does_not_come_again(serve: Callable[..., Served], topic: str) -> None:
    service = serve()
    written = [f"n{number}" for number in range(60)]
    for partition in range(3):
        service.write(topic, written[partition::3], partition=partition)
    came: Counter[str] = Counter()
    while (taken := service.take(topic, "billing", max_records=7, wait_s=3)).json()["delivery"]:
        came.update(texts(taken))
        acked = service.ack(topic, "billing", taken.json()["delivery"])
        assert acked.json() == {"delivery": taken.json()["delivery"], "stored": True}
        if sum(came.values()) == 28:
            service.close()
            service = serve(name=service.service.options.name)
    assert came == Counter(written)
    assert texts(service.take(topic, "audit", wait_s=10, max_records=1))[0] in written
    problem(service.ack(topic, "billing", "none"), 409, "stream_delivery")
    problem(service.take(topic, "a b"), 400, "stream_request")


def test_without_an_acknowledgement_records_come_again(servers: str, serve: Callable[..., Served], topic: str) -> None:
    service = serve()
    service.write(topic, [f"n{number}" for number in range(10)], partition=0)
    first = service.take(topic, "c", max_records=4, deadline_s=0.5, wait_s=10)
    second = service.take(topic, "c", max_records=4, deadline_s=600)
    assert texts(first) == ["n0", "n1", "n2", "n3"]
    assert texts(second) == ["n4", "n5", "n6", "n7"]
    # What is behind an open delivery is not stored yet: a kill repeats it.
    assert service.ack(topic, "c", second.json()["delivery"]).json()["stored"] is False
    again = service.take(topic, "c", max_records=1, wait_s=10)
    while again.json()["attempt"] != 2:
        service.ack(topic, "c", again.json()["delivery"])
        again = service.take(topic, "c", max_records=1, wait_s=10)
    assert texts(again) == texts(first)
    problem(service.ack(topic, "c", first.json()["delivery"]), 409, "stream_delivery")
    assert service.ack(topic, "c", again.json()["delivery"]).json()["stored"] is True
    while (rest := service.take(topic, "c", wait_s=1).json())["delivery"]:
        service.ack(topic, "c", rest["delivery"])
    group = f"databus.stream.{service.service.options.name}.c"
    assert ClusterGroups(ClientSettings("k", servers)).committed([group])[group][topic, 0] == 10
    assert "databus_stream_redelivered_records_total 4" in service.http.get("/metrics").text


def test_a_late_acknowledgement_counts_while_nobody_took_the_records(serve: Callable[..., Served], topic: str) -> None:
    service = serve()
    service.write(topic, ["a"], partition=0)
    taken = service.take(topic, "c", deadline_s=0.1, wait_s=10).json()
    time.sleep(0.3)
    assert service.ack(topic, "c", taken["delivery"]).json()["stored"] is True
    assert service.take(topic, "c", wait_s=0).json()["delivery"] is None


def test_readers_of_one_consumer_share_the_records(serve: Callable[..., Served], topic: str) -> None:
    service = serve()
    written = [f"n{number}" for number in range(200)]
    service.write(topic, written)
    came: Counter[str] = Counter()
    lock = threading.Lock()

    def read() -> None:
        client = Client(str(service.http.base_url))
        while (taken := client.take(topic, "shared", max_records=11, wait_s=2)).json()["delivery"]:
            with lock:
                came.update(texts(taken))
            client.ack(topic, "shared", taken.json()["delivery"])
        client.http.close()

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert came == Counter(written)


def test_a_small_body_is_bounded(served: Served, topic: str) -> None:
    for route in ("acks", "places"):
        answer = served.http.post(f"/v1/topics/{topic}/consumers/c/{route}", content=b"x" * (64 * 1024 + 1))
        problem(answer, 413, "stream_too_large")


def test_where_a_consumer_began_outlives_a_restart(servers: str, serve: Callable[..., Served], topic: str) -> None:
    service = serve()
    service.write(topic, ["a", "b", "c"], partition=0)
    assert texts(service.take(topic, "c", wait_s=10)) == ["a", "b", "c"]
    service.close()
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_records([TopicPartition(topic, 0, 2)])[TopicPartition(topic, 0, 2)].result(30)
    anew = serve(name=service.service.options.name)
    found = problem(anew.take(topic, "c", wait_s=10), 410, "stream_place_gone")
    assert found["earliest"] == 2


def test_places_are_moved_and_expired_records_are_named(
    servers: str, serve: Callable[..., Served], topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "databus.stream.app")
    service = serve(open_deliveries=2)
    service.write(topic, [f"n{number}" for number in range(20)], partition=0)
    assert len(texts(service.take(topic, "c", wait_s=10, max_records=5))) == 5
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_records([TopicPartition(topic, 0, 12)])[TopicPartition(topic, 0, 12)].result(30)
    found = problem(service.read(topic, partition=0, offset=3, wait_s=10), 410, "stream_place_gone")
    assert found["earliest"] == 12
    moved = service.move(topic, "c", offsets={"0": found["earliest"]}).json()
    assert moved == {"offsets": {"0": 12}}
    assert f"client 127.0.0.1 moved consumer c of {topic} to {{0: 12}}" in caplog.text
    taken = service.take(topic, "c", wait_s=10, max_records=5)
    assert texts(taken) == [f"n{number}" for number in range(12, 17)]
    assert service.move(topic, "c", to="latest").json()["offsets"]["0"] == 20
    problem(service.ack(topic, "c", taken.json()["delivery"]), 409, "stream_delivery")
    service.move(topic, "c", to="earliest")
    for _ in range(2):
        service.take(topic, "c", wait_s=10, max_records=1)
    problem(service.take(topic, "c", max_records=1), 429, "stream_full")
    for wrong in ({}, {"to": "middle"}, {"offsets": {"0": -1}}, {"offsets": {"x": 1}}, {"offsets": {"7": 1}}):
        problem(service.move(topic, "c", **wrong), 400, "stream_request")
    assert service.take(topic, "late", start="latest", wait_s=0).json()["records"] == []
    service.write(topic, ["new"], partition=0)
    assert texts(service.take(topic, "late", start="latest", wait_s=10)) == ["new"]


def test_with_the_brokers_away_reads_are_refused(servers: str, serve: Callable[..., Served], topic: str) -> None:
    with TcpProxy(servers, kafka=True) as proxy:
        service = serve(at=f"127.0.0.1:{proxy.port}", timeout_s=3.0)
        service.write(topic, ["a", "b"], partition=0)
        taken = service.take(topic, "c", wait_s=10, max_records=1)
        assert texts(taken) == ["a"]
        proxy.go_down()
        answer = service.ack(topic, "c", taken.json()["delivery"])
        assert (answer.status_code, answer.json()["retryable"]) == (503, True), answer.text
        proxy.come_back()
        deadline = time.monotonic() + 60
        while (acked := service.ack(topic, "c", taken.json()["delivery"])).status_code != 200:
            assert acked.status_code == 503, acked.text
            assert time.monotonic() < deadline
        assert acked.json()["stored"] is True
        proxy.go_down()
        deadline = time.monotonic() + 60
        while (answer := service.read(topic, partition=1, offset=0)).status_code == 200:
            assert answer.json()["records"] == []  # as long as nobody has noticed
            assert time.monotonic() < deadline
        assert answer.status_code == 503, answer.text
        proxy.come_back()


def test_tokens_are_for_their_topics(serve: Callable[..., Served], topic: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    entries = [
        {"client": "writer", "sha256": hashlib.sha256(b"w-token").hexdigest(), "write": ["streamed.*"]},
        {"client": "reader", "sha256": hashlib.sha256(b"r-token").hexdigest(), "read": ["streamed.*"]},
    ]
    file.write_text(json.dumps({"tokens": entries}))
    service = serve(tokens=Tokens.of_file(file))
    writer, reader = {"Authorization": "Bearer w-token"}, {"Authorization": "Bearer r-token"}
    answer = service.write(topic, ["x"])
    problem(answer, 401, "stream_token")
    assert answer.headers["www-authenticate"] == "Bearer"
    problem(service.write(topic, ["x"], headers=reader), 403, "stream_access")
    assert service.write(topic, ["x"], headers=writer).status_code == 200
    service.http.headers = httpx.Headers(writer)
    problem(service.read(topic), 403, "stream_access")
    problem(service.take(topic, "c"), 403, "stream_access")
    problem(service.ack(topic, "c", "x"), 403, "stream_access")
    problem(service.move(topic, "c", to="latest"), 403, "stream_access")
    service.http.headers = httpx.Headers(reader)
    assert texts(service.take(topic, "c", wait_s=10)) == ["x"]


def test_clients_show_certificates(serve: Callable[..., Served], topic: str, tmp_path: Path) -> None:
    known = Authority(tmp_path / "tls")
    own, client = known.issue("server", ("localhost", "127.0.0.1")), known.issue("client", ())
    ca = str(known.certificate)
    listener = Listener("127.0.0.1", 0, str(own.certificate), str(own.key), ca)
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(client.certificate, client.key)
    service = serve(listener=listener, client={"verify": context})
    assert service.write(topic, ["x"]).status_code == 200
    without = Client(str(service.http.base_url), verify=ssl.create_default_context(cafile=ca))
    with pytest.raises(httpx.TransportError):
        without.write(topic, ["x"])
    without.http.close()
    with pytest.raises(ConfigError, match="TLS cannot be set up"):
        serve(listener=Listener("127.0.0.1", 0, str(own.certificate), str(client.key)))


def test_the_description_names_all_routes(served: Served) -> None:
    found = served.http.get("/v1/openapi.json").json()
    assert found == json.loads(json.dumps(description()))
    from databus.stream.app import StreamRoutes

    routes = {route.path: set(route.methods or ()) - {"HEAD"} for route in StreamRoutes(served.service).routes()}
    assert {path: {method.upper() for method in operations} for path, operations in found["paths"].items()} == routes
