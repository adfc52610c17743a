"""What an operator does where the source's brokers lost the end of a transaction: finds it, and aborts it by hand.

It is no fault of the mirror, which moves nothing behind it, and says so (docs/mirror.md, "How far behind").
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence

import psutil
from confluent_kafka import KafkaException

from databus.core.connections import Connection
from databus.kafka.client import ClientSettings
from databus.kafka.cluster import KafkaCluster, Place
from databus.sandbox import Sandbox
from databus.sandbox.servers.java import java_argv
from databus.sources.kafka.stable_offsets import StableOffsets

HUNG_S = 120.0
"""The brokers end a transaction by themselves after the minute that the writer gave it, and look every ten seconds."""

_EVERY_S = 10.0


class Operator:
    """Looks now and then whether a stable offset stands still; used by one thread.

    Args:
        sandbox: where the source's brokers run.
        server: its name there.
        topics: topic → number of partitions.
        note: takes what was seen and done.
        hung_s: a stable offset that stood so long with records behind it belongs to a transaction that hangs.

    Attributes:
        aborted: partitions that could be read on after a transaction had been aborted by hand.
    """

    def __init__(
        self, sandbox: Sandbox, server: str, topics: dict[str, int], note: Callable[[str], None], hung_s: float = HUNG_S
    ):
        self._sandbox, self._server, self._note, self._hung_s = sandbox, server, note, hung_s
        self._places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        connection = Connection(
            conn_id="operator", conn_type="kafka", extra={"bootstrap.servers": sandbox.address(server)}
        )
        self._cluster = KafkaCluster(ClientSettings.of(connection, 5.0))
        self._stable = StableOffsets(self._cluster, "operator")
        self._tried: dict[Place, int] = {}
        self._looked = 0.0
        self.aborted = 0

    def look(self) -> None:
        """Look, at most every ten seconds, and end what hangs; brokers that do not answer are asked the next time."""
        now = time.monotonic()
        if now - self._looked < min(_EVERY_S, self._hung_s):
            return
        self._looked = now
        try:
            ends = {place: edge.offset for place, edge in self._cluster.ends(self._places).items()}
            standing = self._stable.standing(ends)
        except Exception as error:  # noqa: BLE001 - brokers are killed all the time
            self._note(f"the operator got no answer: {error}")
            return
        self.aborted += sum(ends[place] > offset for place, offset in self._tried.items())
        self._tried = {place: offset for place, offset in self._tried.items() if ends[place] <= offset}
        for place, found in standing.items():
            if found.seconds >= self._hung_s:
                self._note(f"{place}: {found}")
                self._abort(place, found.offset)

    def close(self) -> None:
        """Drop the client."""
        self._cluster.close()

    def _abort(self, place: Place, offset: int) -> None:
        where = ("--topic", place[0], "--partition", str(place[1]))
        try:
            over = ("CompleteCommit", "CompleteAbort", "Empty")
            listed = [line for line in self._transactions("list") if not any(state in line for state in over)]
            told = self._transactions("describe-producers", *where)
            told += self._transactions("abort", *where, "--start-offset", str(offset)) or [f"{place} is aborted"]
            self._note("\n".join([*listed, *told]))
            self._tried[place] = offset
        except (subprocess.SubprocessError, KafkaException) as error:
            self._note(f"by hand: {error}")

    def _transactions(self, *arguments: str) -> list[str]:
        """Run kafka-transactions.sh's program; return the lines that it writes."""
        (pid,) = (server.pid for server in self._sandbox.status() if server.name == self._server)
        command: Sequence[str] = psutil.Process(pid).cmdline()
        class_path = command[command.index("-cp") + 1]
        argv = java_argv(
            "org.apache.kafka.tools.TransactionsCommand",
            class_path, "--bootstrap-server", self._sandbox.address(self._server), *arguments, heap="128m",
        )  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        errors = [
            line for line in done.stderr.splitlines() if line and "SLF4J" not in line and "StatusLogger" not in line
        ]
        return [*done.stdout.splitlines(), *errors]
