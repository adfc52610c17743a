"""Service over the topics of one Kafka cluster: its writers, its readers, and what bounds them."""

from __future__ import annotations

import asyncio
import logging
import zlib

from databus.core.errors.source import SourceError
from databus.kafka.client import ClientSettings
from databus.stream.access import Rates, Tokens
from databus.stream.admission import Admission
from databus.stream.consumers import Consumers
from databus.stream.lane import Lane
from databus.stream.metrics import StreamMetrics
from databus.stream.options import StreamOptions
from databus.stream.plain import PlainWriter
from databus.stream.requests import WriteAnswer, WriteRequest
from databus.stream.topics import ServedTopics, Topic

log = logging.getLogger(__name__)


class StreamService:
    """Service; `start` and `close` in the event loop that serves it.

    Args:
        settings: the cluster.
        options: bounds.
        tokens: of clients; none lets everybody in.
    """

    def __init__(self, settings: ClientSettings, options: StreamOptions, tokens: Tokens | None = None):
        self.options, self.tokens = options, tokens or Tokens()
        self.rates, self.admission, self.metrics = Rates(options.rate), Admission(options), StreamMetrics()
        self._settings = settings
        self.topics = ServedTopics(settings)
        self.consumers = Consumers(settings, options, self.admission.check_answers)
        self._lanes: list[Lane] = []
        self._plain: dict[bool, PlainWriter] = {}

    def check_state(self) -> None:
        """Compare the topic of the producers' state with the options; brokers that are away are waited for later.

        Raises:
            StreamStateError: it does not do.
        """
        options = self.options
        try:
            self.topics.check_state(options.state_topic, options.lanes, options.producer_idle_s)
        except SourceError as error:
            log.warning("stream %s: the producers' state is looked at later: %s", options.name, error)

    async def start(self) -> None:
        """Start the writers; brokers may be away."""
        self._plain = {leader: PlainWriter(self._settings, self.options, leader=leader) for leader in (False, True)}

        def prepare() -> None:
            options = self.options
            self.topics.make_state(options.state_topic, options.lanes, options.producer_idle_s)

        self._lanes = [Lane(self._settings, self.options, n, prepare) for n in range(self.options.lanes)]

    async def close(self) -> None:
        """Answer what is under way, then stop."""
        await asyncio.gather(
            *(writer.close() for writer in self._plain.values()),
            *(asyncio.to_thread(lane.close) for lane in self._lanes),
            self.consumers.close(),
        )

    async def topic(self, name: str) -> Topic:
        """Return a topic of the cluster.

        Raises:
            StreamTopicError: it is not there.
            SourceUnavailableError: no broker answers.
        """
        known = self.topics.known(name)
        return known if known is not None else await asyncio.to_thread(self.topics.of, name)

    async def write(self, topic: Topic, request: WriteRequest, *, leader: bool) -> WriteAnswer:
        """Write a request; returns once it is confirmed.

        Args:
            topic: where to.
            request: what.
            leader: whether the leader's confirmation is enough; one with a producer id waits for all in sync.

        Raises:
            DatabusError: nothing of it is acknowledged.
        """
        if not request.producer:
            return await self._plain[leader].write(topic, request)
        lane = self._lanes[zlib.crc32("/".join(request.key).encode()) % len(self._lanes)]
        # A client that goes away does not take its request along: the lane goes on with it.
        return await asyncio.shield(asyncio.wrap_future(lane.submit(topic, request)))

    def count_dropped(self, why: str) -> None:
        """Count a connection that was closed for what its client did not do."""
        self.metrics.count("dropped_connections", why=why)

    @property
    def healthy(self) -> bool:
        """True while no other instance has taken it over."""
        return not any(lane.fenced for lane in self._lanes)

    def gauges(self) -> dict[str, float]:
        """Return the values of gauges."""
        return {
            "requests_now": self.admission.requests,
            "waiting_bytes": self.admission.bytes,
            "answer_bytes": self.admission.answers,
            "producers": sum(lane.producers for lane in self._lanes),
            "producers_used_ratio": max((lane.used for lane in self._lanes), default=0.0),
            "consumers": len(self.consumers),
            "fenced_lanes": sum(lane.fenced for lane in self._lanes),
        }
