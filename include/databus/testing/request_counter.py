"""Counts what clients ask of a Kafka broker, on the wire and by kind of request."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable

from databus.testing.tcp_proxy import TcpProxy, whole_frames

KINDS = {
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    9: "OffsetFetch",
    10: "FindCoordinator",
    18: "ApiVersions",
    19: "CreateTopics",
    23: "OffsetForLeaderEpoch",
    32: "DescribeConfigs",
    75: "DescribeTopicPartitions",
}
"""Numbers of requests (Kafka protocol guide, "API keys")."""


class RequestCounter(TcpProxy):
    """A proxy before one broker that passes everything on.

    Attributes:
        requests: kind → number so far; a kind that is not known here is "API key N".
    """

    name = "request-counter"

    def __init__(self, address: str) -> None:
        self.requests: Counter[str] = Counter()
        super().__init__(address, kafka=True)

    def reader(self) -> Callable[[bytes], None]:
        """Return what counts the requests of one connection."""
        waiting = b""

        def told(piece: bytes) -> None:
            nonlocal waiting
            whole, waiting = whole_frames(waiting + piece)
            at = 0
            while at < len(whole):
                # Length of the request, its kind, and further fields (Kafka protocol guide, "Request Header").
                length, kind = struct.unpack_from(">ih", whole, at)
                self.requests[KINDS.get(kind, f"API key {kind}")] += 1
                at += 4 + length

        return told
