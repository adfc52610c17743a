"""Read the sinks as any consumer would."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import httpx

from databus.kafka.client_log import ClientLog


def topic_records(
    bootstrap: str, topic: str, security: Mapping[str, Any] | None = None
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield (key, value) of every committed record of a topic, partition by partition, up to its present end.

    Args:
        bootstrap: the brokers.
        topic: its name.
        security: librdkafka's settings of TLS and login; None for a cluster without.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "databus-demo-oracle",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **(security or {}),
        },
        logger=ClientLog("consumer of the demonstration", str),
    )
    try:
        known = consumer.list_topics(topic, timeout=30).topics[topic]
        if known.error is not None:
            raise KafkaException(known.error)
        left = set(known.partitions)
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in left])
        while left:
            message = consumer.poll(30)
            if message is None:
                raise TimeoutError(f"no answer from {bootstrap} for {topic}")
            error = message.error()
            if error is None:
                yield message.key(), message.value()
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name for it
                left.discard(message.partition())
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def holds_a_record(bootstrap: str, topic: str) -> bool:
    """Return whether a read_committed consumer finds a record in a topic; False while the topic is not there."""
    from confluent_kafka import KafkaException

    try:
        return next(topic_records(bootstrap, topic), None) is not None
    except (KeyError, KafkaException):
        return False


def index_documents(address: str, index: str) -> dict[str, Any]:
    """Return `_id` → source of every document of an index, after a refresh."""
    root = f"http://{address}/{index}"
    with httpx.Client(timeout=60) as client:
        client.post(f"{root}/_refresh").raise_for_status()
        documents: dict[str, Any] = {}
        body: dict[str, Any] = {"size": 5000, "query": {"match_all": {}}}
        answer = client.post(f"{root}/_search?scroll=1m", json=body).raise_for_status()
        while True:
            page = json.loads(answer.text, parse_float=Decimal)
            hits = page["hits"]["hits"]
            if not hits:
                return documents
            documents.update({h["_id"]: h["_source"] for h in hits})
            answer = client.post(
                f"http://{address}/_search/scroll", json={"scroll": "1m", "scroll_id": page["_scroll_id"]}
            ).raise_for_status()
