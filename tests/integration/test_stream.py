"""`databus stream` on a real Kafka: answers to writers that are right or wrong, and while the brokers are away."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import httpx
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from databus.core.errors import SinkSettingError, StreamStateError
from databus.kafka.client import ClientSettings
from databus.rows.murmur2 import murmur2
from databus.stream.body import StreamRecord
from databus.stream.lane import Lane
from databus.stream.options import StreamOptions
from databus.stream.requests import WriteAnswer, WriteRequest
from databus.stream.service import StreamService
from databus.stream.topics import ServedTopics
from databus.testing.tcp_proxy import TcpProxy
from tests.integration.changes_writer import make_topics
from tests.integration.kafka_target import consume, wait_until
from tests.integration.stream_client import Client, Served, new_topic, own_services, problem, until_written, values

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def topic(servers: str) -> str:
    return new_topic(servers)


@pytest.fixture(scope="module")
def served(servers: str) -> Iterator[Served]:
    """Give a service whose bounds are the defaults."""
    service = Served(servers, f"test{os.getpid()}")
    yield service
    service.close()


@pytest.fixture
def serve(servers: str) -> Iterator[Callable[..., Served]]:
    yield from own_services(servers)


def set_topic(servers: str, topic: str, **settings: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.incremental_alter_configs([resource])[resource].result(30)


@pytest.mark.parametrize("acks", ["all", "leader", "1"])
def test_lines_are_in_the_topic_when_they_are_answered(servers: str, served: Served, topic: str, acks: str) -> None:
    lines = [f"line {number} \t é" for number in range(100)]
    answer = served.write(topic, lines, acks=acks).json()
    ((partition, span),) = answer["offsets"].items()
    assert span == {"first": 0, "last": 99, "count": 100}
    assert answer["records"] == 100
    messages = consume(servers, topic)
    assert [m.value().decode() for m in messages] == lines
    assert {m.partition() for m in messages} == {int(partition)}


def test_records_of_json_have_keys_headers_and_partitions(servers: str, served: Served, topic: str) -> None:
    records = [
        {"key": f"k{number % 5}", "value": {"n": number}, **({"headers": {"h": "x"}} if number % 2 else {})}
        for number in range(40)
    ] + [{"text": "here", "partition": 2}, {"base64": "AP8=", "partition": 1}, {"key": "k0", "value": None}]
    keyed = {"records": [{"key": f"k{number % 5}", "value": number} for number in range(15)]}
    for sent in ({}, {"producer": "w", "sequence": 0}):
        body = json.dumps({"records": records}).encode()
        answer = served.write(topic, body, headers={"Content-Type": "application/json"}, **sent)
        assert sum(span["count"] for span in answer.json()["offsets"].values()) == 43, answer.text
        more = {"producer": "w", "sequence": 1} if sent else {}
        form = {"Content-Type": "application/json"}
        assert served.write(topic, json.dumps(keyed).encode(), headers=form, **more).status_code == 200
    messages = consume(servers, topic)
    assert len(messages) == 116
    of_key = {m.key(): {n.partition() for n in messages if n.key() == m.key()} for m in messages if m.key()}
    assert all(len(partitions) == 1 for partitions in of_key.values())
    assert all((murmur2(key) & 0x7FFFFFFF) % 3 in partitions for key, partitions in of_key.items())
    assert Counter(m.value() for m in messages if m.partition() == 1)[b"\x00\xff"] == 2
    assert sum(m.headers() == [("h", b"x")] for m in messages) == 40
    assert sum(m.value() is None for m in messages) == 2


def test_a_repeat_is_answered_with_the_offsets_it_got(servers: str, serve: Callable[..., Served], topic: str) -> None:
    first = serve()
    name = first.service.options.name
    answers = [first.write(topic, [f"{n}a", f"{n}b"], producer="w", sequence=n).json() for n in range(8)]
    assert [answer["repeated"] for answer in answers] == [False] * 8
    again = first.write(topic, ["7a", "7b"], producer="w", sequence=7).json()
    assert again == {**answers[7], "repeated": True}
    first.close()
    anew = serve(name=name)
    assert anew.write(topic, ["5a", "5b"], producer="w", sequence=5).json() == {**answers[5], "repeated": True}
    assert anew.write(topic, ["8a"], producer="w", sequence=8).json()["repeated"] is False
    assert sorted(values(servers, topic)) == sorted([f"{n}{x}" for n in range(8) for x in "ab"] + ["8a"])
    # Of what is older the digests are gone: it is neither written nor told to be.
    found = problem(anew.write(topic, ["0a", "0b"], producer="w", sequence=0), 409, "stream_sequence")
    assert found["expected"] == 9


def test_gaps_and_second_writers_are_refused(servers: str, served: Served, topic: str) -> None:
    assert problem(served.write(topic, ["x"], producer="w", sequence=1), 409, "stream_sequence")["expected"] == 0
    assert served.write(topic, ["mine"], producer="w", sequence=0).status_code == 200
    problem(served.write(topic, ["other"], producer="w", sequence=0), 409, "stream_producer_conflict")
    assert problem(served.write(topic, ["x"], producer="w", sequence=2), 409, "stream_sequence")["expected"] == 1
    assert values(servers, topic) == ["mine"]


def test_requests_of_many_producers_are_each_written_once(
    servers: str, serve: Callable[..., Served], topic: str
) -> None:
    service = serve()

    def send(writer: int) -> None:
        client = Client(str(service.http.base_url))
        for sequence in range(10):
            for _ in range(1 + sequence % 3):
                until_written(client, topic, [f"{writer}.{sequence}.{n}" for n in range(3)], f"w{writer}", sequence)
        client.http.close()

    threads = [threading.Thread(target=send, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    came = values(servers, topic)
    assert Counter(came) == Counter(f"{w}.{s}.{n}" for w in range(8) for s in range(10) for n in range(3))
    for writer in range(8):
        own = [value for value in came if value.startswith(f"{writer}.")]
        assert own == [f"{writer}.{s}.{n}" for s in range(10) for n in range(3)]
    shown = service.http.get("/metrics").text
    assert "databus_stream_written_records_total 240" in shown
    assert "databus_stream_producers 8" in shown


def test_a_refused_request_does_not_fail_its_neighbours(servers: str, topic: str) -> None:
    compacted = f"{topic}.compacted"
    make_topics(servers, (compacted, 1))
    set_topic(servers, compacted, cleanup_policy="compact")
    settings = ClientSettings("k", servers)
    options = StreamOptions(name=topic, lanes=1, timeout_s=10.0)
    topics, go = ServedTopics(settings), threading.Event()

    def prepare() -> None:
        assert go.wait(60)
        topics.make_state(options.state_topic, 1, options.producer_idle_s)

    lane = Lane(settings, options, 0, prepare)

    def send(to: str, producer: str) -> Future[WriteAnswer]:
        return lane.submit(topics.of(to), WriteRequest(to, [StreamRecord(b"x")] * 3, producer))

    first = send(topic, "first")  # the lane is opened for it, and what comes meanwhile is one transaction
    good, bad, other = send(topic, "good"), send(compacted, "bad"), send(topic, "other")
    go.set()
    assert not first.result(60).repeated
    assert isinstance(bad.exception(60), SinkSettingError)
    assert not good.result(60).repeated
    assert not other.result(60).repeated
    assert send(topic, "good").result(60).repeated
    lane.close()
    assert values(servers, topic) == ["x"] * 9


def test_a_state_topic_that_forgets_too_early_is_refused(
    servers: str, serve: Callable[..., Served], topic: str
) -> None:
    short = serve(producer_idle_s=86_400.0)
    assert short.write(topic, ["a"], producer="w", sequence=0).status_code == 200
    short.close()
    week = serve(name=short.service.options.name)
    found = problem(week.write(topic, ["b"], producer="w", sequence=1), 502, "stream_state")
    assert "retention.ms=86400000" in found["detail"]
    assert "retention.ms=604800000" in found["hint"]
    name = week.service.options.name
    for given, said in (({"lanes": 1}, "retention.ms=86400000"), ({"lanes": 3}, "1 partitions, and the service 3")):
        anew = StreamService(ClientSettings("k", servers), StreamOptions(name=name, **given))
        with pytest.raises(StreamStateError, match=said):
            anew.check_state()
    StreamService(ClientSettings("k", servers), StreamOptions(name=f"{name}.new")).check_state()
    StreamService(ClientSettings("k", "127.0.0.1:1", timeout_s=1.0), StreamOptions(name=name)).check_state()


def test_limits_are_named_before_anything_is_written(servers: str, serve: Callable[..., Served], topic: str) -> None:
    service = serve(record_bytes=1_000, batch_bytes=5_000, batch_records=50, waiting_bytes=5_000)
    found = problem(service.write(topic, ["ok", "x" * 1_001]), 413, "stream_too_large")
    assert found["detail"].startswith("record 2 has 1001 bytes, the service takes 1000")
    problem(service.write(topic, ["x" * 900] * 6), 413, "stream_too_large")

    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 99 + b"\n"

    answer = service.http.post(f"/v1/topics/{topic}", content=endless())
    problem(answer, 413, "stream_too_large")
    problem(service.write(topic, ["x"] * 51), 413, "stream_too_large")
    found = problem(service.write(topic, ["x"] * 50, key="k" * 100), 413, "stream_too_large")
    assert found["detail"].startswith("the records have 5050 bytes with their keys, the service takes 5000")
    named = {"records": [{"text": "x", "headers": {"\ud800": "v"}}]}
    form = {"Content-Type": "application/json"}
    problem(service.write(topic, json.dumps(named).encode(), headers=form), 400, "stream_request")
    problem(service.write(topic, b""), 400, "stream_request")
    problem(service.write(topic, b"a\n\nb\n"), 400, "stream_request")
    for header, value in (("Databus-Sequence", "0"), ("Databus-Producer", "w")):
        problem(service.write(topic, ["x"], headers={header: value}), 400, "stream_request")
    problem(service.write(topic, ["x"], partition=3), 404, "stream_topic")
    problem(service.write(f"{topic}.none", ["x"]), 404, "stream_topic")
    problem(service.write("__consumer_offsets", ["x"]), 404, "stream_topic")
    problem(service.write(topic, ["x"], acks="some"), 400, "stream_request")
    assert service.http.get("/v1/nothing").status_code == 404
    assert service.http.put(f"/v1/topics/{topic}").status_code == 405
    assert values(servers, topic) == []


def test_what_the_topic_would_refuse_is_refused_by_name(servers: str, serve: Callable[..., Served], topic: str) -> None:
    set_topic(servers, topic, max_message_bytes="1010000", min_insync_replicas="1")
    service = serve()
    found = problem(service.write(topic, ["ok", "x" * 1_009_990]), 413, "stream_too_large")
    assert found["detail"].startswith("record 2 has 1009990 bytes")
    assert "max.message.bytes" in found["hint"]
    found = problem(service.write(topic, ["x"], acks="2"), 422, "stream_acks")
    assert "min.insync.replicas" in found["detail"]
    # The brokers' limit is for a batch: these stand in several.
    for sent in ({}, {"producer": "w", "sequence": 0}):
        assert service.write(topic, ["x" * 1_009_000, *["x" * 300_000] * 10], **sent).status_code == 200
    assert len(values(servers, topic)) == 22
    small = f"{topic}.small"
    make_topics(servers, (small, 1))
    set_topic(servers, small, max_message_bytes="2000")
    assert "max.message.bytes" in problem(service.write(small, ["x"]), 413, "stream_too_large")["hint"]
    compacted = f"{topic}.keys"
    make_topics(servers, (compacted, 1))
    set_topic(servers, compacted, cleanup_policy="compact")
    assert service.write(compacted, ["x"], key="k").status_code == 200
    for sent in ({}, {"producer": "w", "sequence": 0}):
        found = problem(service.write(compacted, ["x"], **sent), 400, "stream_request")
        assert found["detail"].startswith(f"record 1 has no key, and topic {compacted} is compacted")


def test_a_full_service_says_when_to_come_again(serve: Callable[..., Served], topic: str) -> None:
    service = serve(requests=1)
    began, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[bytes]:
        yield b"first\n"
        began.set()
        go_on.wait(60)
        yield b"last\n"

    answers: list[httpx.Response] = []
    other = Client(str(service.http.base_url))
    thread = threading.Thread(target=lambda: answers.append(other.http.post(f"/v1/topics/{topic}", content=slow())))
    thread.start()
    began.wait(60)
    wait_until(lambda: service.service.admission.requests == 1, "the slow request")
    answer = service.write(topic, ["x"])
    problem(answer, 429, "stream_full")
    assert int(answer.headers["retry-after"]) >= 1
    go_on.set()
    thread.join(60)
    other.http.close()
    assert answers[0].json()["records"] == 2
    assert service.service.admission.bytes == 0
    slow_client = serve(rate=0.01)
    assert slow_client.write(topic, ["x"]).status_code == 200
    answer = slow_client.write(topic, ["x"])
    problem(answer, 429, "stream_full")
    assert int(answer.headers["retry-after"]) > 1


def test_with_the_brokers_away_nothing_is_acknowledged(servers: str, serve: Callable[..., Served], topic: str) -> None:
    with TcpProxy(servers, kafka=True) as proxy:
        service = serve(at=f"127.0.0.1:{proxy.port}", timeout_s=3.0)
        assert service.write(topic, ["a"], producer="w", sequence=0).status_code == 200
        assert service.write(topic, ["p"]).status_code == 200
        proxy.go_down()
        for line, sent in (("w1", {"producer": "w", "sequence": 1}), ("all", {}), ("leader", {"acks": "leader"})):
            answer = service.write(topic, [line], **sent)
            assert answer.status_code == 503, answer.text
            assert answer.json()["retryable"] is True
            assert answer.headers["retry-after"]
        proxy.come_back()
        until_written(service, topic, ["w1"], "w", 1)
        assert until_written(service, topic, ["a"], "w", 0)["repeated"] is True
    came = Counter(values(servers, topic))
    assert [came[line] for line in ("a", "p", "w1")] == [1, 1, 1]


def test_an_idle_instance_learns_that_another_has_taken_over(serve: Callable[..., Served], topic: str) -> None:
    old = serve(confirm_s=0.2)
    assert old.write(topic, ["a"], producer="w", sequence=0).status_code == 200
    new = serve(name=old.service.options.name, confirm_s=0.2)
    assert new.write(topic, ["b"], producer="w", sequence=1).status_code == 200
    wait_until(lambda: old.http.get("/health").status_code == 503, "the old instance to notice")
    assert new.write(topic, ["c"], producer="w", sequence=2).status_code == 200
    assert new.http.get("/health").status_code == 200


def test_a_client_that_takes_nothing_is_cut_off(serve: Callable[..., Served], topic: str) -> None:
    service = serve(body_s=1.0, record_bytes=4_000_000, batch_bytes=32_000_000, waiting_bytes=32_000_000)
    for _ in range(4):
        assert service.write(topic, ["x" * 900_000] * 8, partition=0).status_code == 200
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((service.http.base_url.host, service.http.base_url.port))
    asked = f"/v1/topics/{topic}/records?max_bytes=28000000&wait_s=5"
    client.sendall(f"GET {asked} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    dropped = 'databus_stream_dropped_connections_total{why="unread"} 1'
    wait_until(lambda: dropped in service.http.get("/metrics").text, "the cut")
    wait_until(lambda: service.service.admission.requests == 0, "the request's end")
    assert service.service.admission.answers == 0
    assert len(service.read(topic, max_records=4).json()["records"]) == 4
    client.close()


def test_a_second_instance_takes_over(servers: str, serve: Callable[..., Served], topic: str) -> None:
    old = serve()
    answer = old.write(topic, ["a"], producer="w", sequence=0).json()
    new = serve(name=old.service.options.name)
    assert new.write(topic, ["a"], producer="w", sequence=0).json() == {**answer, "repeated": True}
    # Neither is a gap: what the new one wrote, the old one does not know.
    assert new.write(topic, ["c"], producer="v", sequence=0).status_code == 200
    assert old.write(topic, ["d"], producer="v", sequence=1).status_code == 503
    problem(old.write(topic, ["e"], producer="w", sequence=2), 503, "stream_fenced")
    problem(old.write(topic, ["b"], producer="w", sequence=1), 503, "stream_fenced")
    assert old.http.get("/health").status_code == 503
    assert old.write(topic, ["without an id"]).status_code == 200
    assert new.write(topic, ["b"], producer="w", sequence=1).json()["repeated"] is False
    assert new.http.get("/health").json() == {"healthy": True}
    assert sorted(values(servers, topic)) == ["a", "b", "c", "without an id"]
