"""What open transactions of others keep back: reading ends at the last stable offset, writing goes on behind it.

Where the transaction's owner is gone and the brokers lost its end, nothing more is ever read, and a lag of 0 would say
that all is well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from databus.kafka.client import ClientSettings
from databus.kafka.cluster import KafkaCluster, Place
from databus.sources.kafka_rows import log_name

log = logging.getLogger(__name__)

STILL_S = 30.0
"""A stable offset that stood so long, with records behind it, is told of; most owners end a transaction in less."""

EVERY_S = 10.0
_NAMED = 5


class StableOffsets:
    """Compares where reading ends with where writing is; used by one thread.

    Args:
        client: how to reach the cluster.
        flow: flow name, for messages.
        clock: seconds that only grow.
    """

    def __init__(self, client: ClientSettings, flow: str, clock: Callable[[], float] = time.monotonic):
        self._client, self._flow, self._clock = client, flow, clock
        self._written = KafkaCluster(client, "read_uncommitted")
        self._looked = -EVERY_S
        self._stands: dict[Place, tuple[int, float]] = {}
        self._told: frozenset[Place] = frozenset()

    def written(self, places: list[Place]) -> dict[Place, int]:
        """Return the high watermark of each partition.

        Raises:
            SourceUnavailableError: no answer in time.
        """
        return {place: edge.offset for place, edge in self._written.ends(places).items()}

    def held_back(self, ends: Mapping[Place, int]) -> dict[Place, int]:
        """Return how many offsets are written behind the last stable one, of partitions where there are any.

        Raises:
            SourceUnavailableError: no answer in time.
        """
        written = self.written(list(ends))
        return {place: written[place] - end for place, end in ends.items() if written.get(place, 0) > end}

    def watch(self, ends: Mapping[Place, int]) -> None:
        """Say once of which partitions the stable offset stands still; for a caller that has found nothing to read."""
        now = self._clock()
        if now - self._looked < EVERY_S:
            return
        self._looked = now
        held = self.held_back(ends)
        self._stands = {
            place: self._stands[place] if self._stands.get(place, (-1, 0.0))[0] == ends[place] else (ends[place], now)
            for place in held
        }
        still = {place for place, (_, since) in self._stands.items() if now - since >= STILL_S}
        if new := sorted(still - self._told):
            named = ", ".join(f"{held[p]} records of {log_name(*p)} from {ends[p]} on" for p in new[:_NAMED])
            more = f", and {len(new) - _NAMED} more partitions" if len(new) > _NAMED else ""
            log.warning(
                "flow %s: nothing can be read of %s (%s) for %.0f s: %s%s are kept back by a transaction that is still "
                "open. Where its owner does not end it, find it by `kafka-transactions.sh find-hanging --broker-id N`, "
                "and abort it.",
                self._flow,
                self._client.conn_id,
                self._client.servers,
                max(now - self._stands[place][1] for place in new),
                named,
                more,
            )
        self._told = frozenset(still)

    def close(self) -> None:
        """Drop the client; safe to call twice."""
        self._written.close()
