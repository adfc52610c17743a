"""Stable offsets: open transactions of others hold reading back at the last stable offset, while writing goes on.

Where the transaction's owner is gone and the brokers lost its end, nothing more is ever read, and a lag of 0 would say
that all is well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from databus.core.amounts import counted
from databus.kafka.cluster import KafkaCluster, Place
from databus.sources.kafka.rows import log_name

log = logging.getLogger(__name__)

STILL_S = 30.0
"""A stable offset that stood so long, with records behind it, is reported; most owners end a transaction in less."""

EVERY_S = 10.0
_NAMED = 5


@dataclass(frozen=True)
class HeldStableOffset:
    """A stable offset with records behind it.

    Attributes:
        offset: the stable offset.
        records: offsets behind it.
        seconds: for how long it has been seen to stand there.
    """

    offset: int
    records: int
    seconds: float


class StableOffsets:
    """Compares where reading ends with where writing is; used by one thread.

    Args:
        cluster: asked for the high watermarks.
        flow: flow name, for messages.
        clock: seconds that only grow.
    """

    def __init__(self, cluster: KafkaCluster, flow: str, clock: Callable[[], float] = time.monotonic):
        self._cluster, self._flow, self._clock = cluster, flow, clock
        self._looked = -EVERY_S
        self._since: dict[tuple[Place, int], float] = {}
        self._told: frozenset[Place] = frozenset()

    def held_back(self, ends: Mapping[Place, int]) -> dict[Place, int]:
        """Return how many offsets are written behind the last stable one, of partitions where there are any.

        Raises:
            SourceUnavailableError: no answer in time.
        """
        written = self._cluster.written(ends)
        return {place: written[place] - end for place, end in ends.items() if written.get(place, 0) > end}

    def standing(self, ends: Mapping[Place, int]) -> dict[Place, HeldStableOffset]:
        """Return the stable offsets with records behind them, and since when calls of this have found them there.

        Raises:
            SourceUnavailableError: no answer in time.
        """
        now, held = self._clock(), self.held_back(ends)
        self._since = {(place, ends[place]): self._since.get((place, ends[place]), now) for place in held}
        return {place: HeldStableOffset(end, held[place], now - since) for (place, end), since in self._since.items()}

    def watch(self, ends: Mapping[Place, int]) -> None:
        """Say once of which partitions the stable offset stands still; for a caller that has found nothing to read."""
        if self._clock() - self._looked < EVERY_S:
            return
        self._looked = self._clock()
        still = {place: found for place, found in self.standing(ends).items() if found.seconds >= STILL_S}
        if new := sorted(still.keys() - self._told):
            named = ", ".join(
                f"{counted(still[p].records, 'record')} of {log_name(*p)} from {still[p].offset} on"
                for p in new[:_NAMED]
            )
            more = f", and {counted(len(new) - _NAMED, 'more partition')}" if len(new) > _NAMED else ""
            client = self._cluster.settings
            log.warning(
                "flow %s: nothing can be read of %s (%s) for %.0f s: %s%s are kept back by a transaction that is still "
                "open. Where its owner does not end it, find it by `kafka-transactions.sh find-hanging --broker-id N`, "
                "and abort it.",
                self._flow,
                client.conn_id,
                client.servers,
                max(still[place].seconds for place in new),
                named,
                more,
            )
        self._told = frozenset(still)
