"""Flow context: what an opened source or sink knows of its flow and installation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from databus.core.settings import Settings


@dataclass(frozen=True)
class FlowContext:
    """Flow context: what an opened source or sink knows of its surroundings.

    Attributes:
        flow: flow name.
        settings: the installation's settings.
        server_ids: leases replication server ids; None where the source needs none.
        dump_turns: gives turns to dump a server's log; None where each flow dumps for itself.
        staged: name under which a source stages what it reads, FLOW.SOMETHING of who only looks; "" for the flow's own.
    """

    flow: str
    settings: Settings
    server_ids: ServerIds | None = None
    dump_turns: DumpTurns | None = None
    staged: str = ""


class ServerIds(Protocol):
    """Leases replication server ids so that two readers of one server never clash."""

    def lease(self, server: str) -> int:
        """Return an id that no other holder has on `server` ("host:port") until it is released or the session ends."""
        ...

    def release(self, server: str, server_id: int) -> None:
        """Give an id back; safe to call twice."""
        ...


class DumpTurns(Protocol):
    """Lets one of several flows dump a stretch of a server's log while the others wait for what it keeps.

    A turn saves work and guards nothing: two holders are harmless.
    """

    def take(self, server: str, stretch: str) -> bool:
        """Return whether the turn for a stretch of the log of `server` ("host:port") is ours until it is released."""
        ...

    def release(self, server: str, stretch: str) -> None:
        """Give a turn back; safe to call twice."""
        ...

    def wait(self, server: str, stretch: str, timeout_s: float) -> bool:
        """Block until nobody holds the turn; False when somebody still did after that time."""
        ...
