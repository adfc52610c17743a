"""Cluster of a consumer, and places in its topics at which reading begins where there is no checkpoint."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from databus.consumer.change import Place
from databus.core.connections import Connection
from databus.kafka.client import ClientSettings

Start = Literal["committed", "earliest", "latest", "state"] | datetime | Mapping[Place, int]
"""Start of a partition without a checkpoint: its earliest record ("committed", "earliest"), behind its last one, with
the state of its keys, at the first record that was written at a time or later, or at offsets (partitions that are not
named: the earliest)."""


def start_places(client: Any, places: Sequence[Place], start: Start, timeout_s: float) -> dict[Place, int]:
    """Return place → offset; OFFSET_BEGINNING for the earliest.

    Raises:
        KafkaException: the brokers do not answer.
    """
    if isinstance(start, datetime):
        asked = [TopicPartition(*place, int(start.timestamp() * 1000)) for place in places]
        found = client.offsets_for_times(asked, timeout=timeout_s) if asked else []
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return {
            (p.topic, p.partition): p.offset if p.offset >= 0 else _end(client, (p.topic, p.partition), timeout_s)
            for p in found
        }
    if isinstance(start, Mapping):
        return {place: start.get(place, OFFSET_BEGINNING) for place in places}
    if start == "latest":
        return {place: _end(client, place, timeout_s) for place in places}
    return dict.fromkeys(places, OFFSET_BEGINNING)


def _end(client: Any, place: Place, timeout_s: float) -> int:
    high: int = client.get_watermark_offsets(TopicPartition(*place), timeout=timeout_s)[1]
    return high


def known_places(client: Any, topics: Iterable[str], timeout_s: float) -> tuple[list[Place], list[str]]:
    """Return the partitions of topics that are there, sorted, and the names that are not.

    Args:
        client: a consumer.
        topics: names, or patterns that begin with `^`.
        timeout_s: patience with the brokers.
    """
    listed = client.list_topics(timeout=timeout_s).topics
    found: set[Place] = set()
    absent = []
    for topic in topics:
        names = [name for name in listed if re.match(topic, name)] if topic.startswith("^") else [topic]
        for name in names:
            partitions = listed[name].partitions if name in listed else {}
            found.update((name, partition) for partition in partitions)
            if not partitions:
                absent.append(name)
    return sorted(found), absent


def shared_out(places: Iterable[Place], share: tuple[int, int]) -> list[Place]:
    """Return the partitions of one share of several; a partition keeps its share as topics grow."""
    number, of = share
    return [place for place in places if (zlib.crc32(place[0].encode()) + place[1]) % of == number]


_TIMEOUT_S = 30.0


def client_settings(cluster: str) -> ClientSettings:
    """Return how to reach a cluster.

    Args:
        cluster: "host:port,…", or the id of a connection.

    Raises:
        ConnectionMissingError: no connection has this id.
        SinkSettingError: the connection names no broker.
    """
    if ":" in cluster:
        return ClientSettings(cluster, cluster, timeout_s=_TIMEOUT_S)
    return ClientSettings.of(connection_of(cluster), _TIMEOUT_S)


def connection_of(conn_id: str) -> Connection:
    """Return a connection of the environment or of the file of connections.

    Raises:
        ConnectionMissingError: none has this id.
    """
    from databus.connections.environment import ChainedConnections

    return ChainedConnections.from_environment().get(conn_id)
