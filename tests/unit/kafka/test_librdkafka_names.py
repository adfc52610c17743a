"""The table of settings against what the installed librdkafka lists, and what comes of it for flows and connections."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import pytest
from confluent_kafka import cimpl

from databus import Kafka, KafkaTopics
from databus.core.connections import Connection
from databus.core.errors import ConfigError, SinkSettingError
from databus.kafka import client
from databus.kafka.client import ClientSettings, LastError
from databus.kafka.client_settings import merged
from databus.kafka.librdkafka_names import ALIASES, NOT_OF_LIBRDKAFKA, OURS, REFUSED, TUNES, is_security, setting_of

_ROW = re.compile(r"^([a-z_.]+) +\| +([CP*]) +\|(?:.*?Alias for `([a-z_.]+)`)?")


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str]]:
    """Name, side ("C", "P" or "*") and what it is an alias for, of every setting that the installed library prints."""
    path = tmp_path_factory.mktemp("librdkafka") / "CONFIGURATION.md"
    library, libc = ctypes.CDLL(cimpl.__file__), ctypes.CDLL(None)  # a symbol is looked for in what it links to as well
    libc.fopen.restype, libc.fclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    library.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    file = libc.fopen(str(path).encode(), b"w")
    library.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    rows = map(_ROW.match, path.read_text().splitlines())
    return [(row[1], row[2], row[3] or "") for row in rows if row is not None]


def test_every_setting_of_the_installed_library_is_judged(listed: list[tuple[str, str, str]]) -> None:
    assert len(listed) > 180
    names = {name for name, _, _ in listed}
    judged = TUNES["producer"] | TUNES["consumer"] | REFUSED.keys()
    assert {n for n in names if not is_security(n)} - judged == set()
    assert judged - names == NOT_OF_LIBRDKAFKA
    assert not (TUNES["producer"] | TUNES["consumer"]) & REFUSED.keys()


def test_a_setting_that_tunes_is_of_the_side_that_the_library_says(listed: list[tuple[str, str, str]]) -> None:
    for side, other in (("producer", "C"), ("consumer", "P")):
        assert not {name for name, of, _ in listed if of == other} & TUNES[side]  # type: ignore[index]
    both = {name for name, of, _ in listed if of == "*"} & (TUNES["producer"] | TUNES["consumer"])
    assert both <= TUNES["producer"] & TUNES["consumer"]


def test_every_alias_of_the_installed_library_is_known(listed: list[tuple[str, str, str]]) -> None:
    # Deprecated, of the simple consumer's topics: both names are refused.
    assert {name: of for name, _, of in listed if of} == {**ALIASES, "enable.auto.commit": "auto.commit.enable"}
    for alias, of in ALIASES.items():
        assert (alias in REFUSED, alias in TUNES["producer"], alias in TUNES["consumer"]) == (
            of in REFUSED, of in TUNES["producer"], of in TUNES["consumer"]
        )  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"acks": 1}, "acks cannot be set: exactly once rests on it: the profile says"),
        ({"topic.acks": 1}, "topic.acks cannot be set: exactly once rests on it"),
        ({"transaction.timeout.ms": 1000}, "exactly once rests on it: transactions are ended by the sink"),
        ({"delivery.report.only.error": True}, "a delivery that is not reported is not counted"),
        ({"enabled_events": 255}, "a delivery that is not reported is not counted"),
        ({"topic.blacklist": "orders"}, "a topic would not be seen"),
        ({"allow.auto.create.topics": True}, "come back empty"),
        ({"enable.gapless.guarantee": True}, "the profile says"),
        ({"socket.max.fails": 0}, "a connection ends with a request"),
        ({"partitioner": "random"}, "no effect: each record names its partition"),
        ({"plugin.library.paths": "x"}, "belongs into the connection"),
        ({"client.dns.lookup": "use_all_dns_ips"}, "belongs into the connection"),
        ({"test.mock.num.brokers": 3}, "belongs into the connection"),
        ({"default.topic.config": "x"}, "Databus serves its clients itself"),
        ({"internal.termination.signal": 9}, "Databus serves its clients itself"),
        ({"fetch.max.bytes": 9}, "fetch.max.bytes is a setting of a consumer, and has no effect on a producer"),
        ({"linger.sm": 5}, "linger.sm is no setting of librdkafka: is linger.ms meant?"),
        ({"topic.compression.level": 5}, "is compression.level meant?"),
        ({"nonsense": 5}, "nonsense is no setting of librdkafka"),
        ({"linger.ms": 5, "queue.buffering.max.ms": 6}, "a setting is named once"),
    ],
)
def test_a_producer_refuses_by_name_at_definition(setting: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Kafka(conn_id="k", producer=setting)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"auto.offset.reset": "earliest"}, "the plan says where reading begins"),
        ({"offset.store.method": "file"}, "the plan says where reading begins"),
        ({"group.instance.id": "x"}, "without joining a group"),
        ({"group.protocol": "consumer"}, "without joining a group"),
        ({"api.version.request": False}, "by the old protocol aborted records are read"),
        ({"broker.version.fallback": "0.9.0"}, "by the old protocol aborted records are read"),
        ({"topic.blacklist": "x"}, "a topic would not be seen"),
        ({"linger.ms": 5}, "is a setting of a producer"),
        ({"fetch.max.byte": 5}, "is fetch.max.bytes meant?"),
    ],
)
def test_a_consumer_refuses_by_name_at_definition(setting: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KafkaTopics(conn_id="k", topics=("t",), consumer=setting)
    assert why in str(caught.value)


def test_what_tunes_is_taken() -> None:
    tuned = {"linger.ms": 5, "compression.level": 3, "retries": 9, "message.timeout.ms": 60_000, "max.in.flight": 1}
    assert Kafka(conn_id="k", producer=tuned).producer == tuned
    read = {"max.partition.fetch.bytes": 9, "check.crcs": True, "client.rack": "a"}
    assert KafkaTopics(conn_id="k", topics=("t",), consumer=read).consumer == read


def test_a_later_layer_goes_before_an_earlier_one_under_another_name() -> None:
    assert merged({"request.required.acks": 0, "a": 1}, {"acks": "all"}) == {"acks": "all", "a": 1}
    assert merged({"acks": "all"}, {"topic.acks": 0}, {"acks": 1}) == {"acks": 1}


def _settings(**extra: Any) -> ClientSettings:
    names = {name.replace("__", "."): value for name, value in extra.items()}
    return ClientSettings.of(Connection(conn_id="k", conn_type="kafka", extra=names), 1.0)


class _Asked:
    """Stands for a client's class, and keeps what it was opened with."""

    def __call__(self, config: dict[str, Any], logger: Any) -> _Asked:
        self.config = config
        return self


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
def test_no_layer_leads_to_another_cluster(name: str) -> None:
    asked, elsewhere = _Asked(), {name: "evil:1"}
    ClientSettings("k", "mine:1", elsewhere)._open("client", asked, elsewhere, elsewhere, LastError())
    assert {k: v for k, v in asked.config.items() if k != "error_cb"} == {"bootstrap.servers": "mine:1"}


@pytest.mark.parametrize(
    ("timeout_s", "chosen", "patience_ms"), [(30.0, {}, 24_000), (5.0, {}, 4_000), (90.0, {}, 30_000), (30.0, 70, 70)]
)
def test_a_producer_names_an_unknown_topic_before_a_flush_gives_up(
    monkeypatch: pytest.MonkeyPatch, timeout_s: float, chosen: Any, patience_ms: int
) -> None:
    asked, name = _Asked(), "topic.metadata.propagation.max.ms"
    monkeypatch.setattr(client, "_Producer", asked)
    ClientSettings("k", "mine:1", timeout_s=timeout_s).producer({name: chosen} if chosen else {}, LastError())
    assert asked.config[name] == patience_ms


def test_servers_by_their_other_name_are_read() -> None:
    assert _settings(metadata__broker__list="a:1").servers == "a:1"
    assert _settings(metadata__broker__list="a:1").values == {}
    assert _settings(metadata__broker__list="a:1", bootstrap__servers="a:1").servers == "a:1"
    with pytest.raises(SinkSettingError, match=r"connection k: .*different brokers: a:1; b:1"):
        _settings(bootstrap__servers="a:1", metadata__broker__list="b:1")
    with pytest.raises(SinkSettingError, match="only plays"):
        _settings(bootstrap__servers="a:1", test__mock__num__brokers=3)


def test_a_shared_connection_bends_no_guarantee() -> None:
    others = {
        "bootstrap.servers": "a:1", "group.id": "app", "auto.offset.reset": "latest", "acks": 0, "topic.acks": 0,
        "request.required.acks": 0, "queuing.strategy": "lifo", "delivery.report.only.error": True,
        "topic.blacklist": ".*", "api.version.request": False, "enabled_events": 1, "error_cb": "app.on_error",
        "default.topic.config": {"bootstrap.servers": "b:1", "acks": 0}, "allow.auto.create.topics": True,
    }  # fmt: skip
    kept = {"linger.ms": 9, "security.protocol": "PLAINTEXT", "client.id": "x", "compression.codec": "gzip"}
    settings = ClientSettings.of(Connection(conn_id="k", conn_type="kafka", extra=others | kept), 1.0)
    assert settings.values == kept
    decided = {setting_of(name) for name in OURS}
    assert {setting_of(name) for name in others} - decided == {setting_of("bootstrap.servers")}
