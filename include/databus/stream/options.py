"""Options of the stream service: what bounds it, and how long things may take."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from databus.core.errors.config import ConfigError

MIB = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True)
class StreamOptions:
    """Options of a service.

    Attributes:
        name: of the service, e.g. "shop": begins its transactional ids and consumer groups. One process runs it.
        topics: patterns of the topics that are served, e.g. ("events.*",).
        record_bytes: the largest record, key and headers included.
        batch_bytes: the largest body of a request.
        batch_records: the most records of a request.
        waiting_bytes: bodies that are read or written at a time, together.
        requests: requests at a time.
        connections: connections at a time; to a further one the server answers 503 without a code.
        lanes: transactional writers among which producers are shared out; fixed for a name.
        producers: producer ids that are known at a time.
        producer_idle_s: seconds after which a producer id that wrote nothing is forgotten.
        confirm_s: seconds without a request after which a lane asks whether it is still this instance's.
        timeout_s: seconds in which the brokers confirm a request.
        body_s: seconds in which a client sends the head of a request, its body, and takes each 64 KiB of the answer.
        readers: reads at a time; each has a Kafka client of its own.
        wait_s: the longest wait of a read for records.
        deadline_s: seconds until a delivery that is not acknowledged is made again.
        open_deliveries: deliveries of a consumer that wait for their acknowledgement.
        consumers: consumers of all topics that are known at a time.
        rate: records a second of one client; 0 for no bound.
    """

    name: str = "stream"
    topics: tuple[str, ...] = ("*",)
    record_bytes: int = MIB
    batch_bytes: int = 4 * MIB
    batch_records: int = 10_000
    waiting_bytes: int = 64 * MIB
    requests: int = 256
    connections: int = 1_024
    lanes: int = 4
    producers: int = 100_000
    producer_idle_s: float = 7 * 86_400.0
    confirm_s: float = 30.0
    timeout_s: float = 20.0
    body_s: float = 30.0
    readers: int = 16
    wait_s: float = 30.0
    deadline_s: float = 30.0
    open_deliveries: int = 100
    consumers: int = 1_000
    rate: float = 0.0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{self.name!r} is no name of a stream service",
                hint="Take letters, digits, '.', '_' and '-', 100 at most: it begins transactional ids and groups.",
            )
        if self.record_bytes > self.batch_bytes:
            raise ConfigError(
                f"a record may have {self.record_bytes} bytes, a request {self.batch_bytes}",
                hint="Raise --batch-bytes, or lower --record-bytes.",
            )
        if self.batch_bytes > self.waiting_bytes:
            raise ConfigError(
                f"a request may have {self.batch_bytes} bytes, all together {self.waiting_bytes}",
                hint="Raise --waiting-bytes, or lower --batch-bytes.",
            )

    @property
    def state_topic(self) -> str:
        """Name of the compacted topic with the producers' state; partition = lane."""
        return f"databus.stream.{self.name}.producers"

    def serves(self, topic: str) -> bool:
        """Return whether a topic is served: it matches a pattern, and is none of Kafka's or databus's own."""
        if not TOPIC_NAME.fullmatch(topic) or topic.startswith(("__", "databus.stream.")):
            return False
        return any(fnmatchcase(topic, pattern) for pattern in self.topics)
