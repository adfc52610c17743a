"""Paths of everything kept in ZooKeeper."""

from __future__ import annotations

import re
from dataclasses import dataclass

from databus.core.errors import ConfigError

_FLOW = re.compile(r"[a-z][a-z0-9_]{0,99}")
_SERVER = re.compile(r"[^/\x00-\x1f\x7f]{1,200}")
_NUMBER_WIDTH = 10


@dataclass(frozen=True)
class FlowPaths:
    """Paths of one flow.

    Attributes:
        root: `<root>/flows/<flow>`.
    """

    root: str

    @property
    def name(self) -> str:
        """Name of the flow."""
        return self.root.rpartition("/")[2]

    @property
    def epoch(self) -> str:
        """Persistent; raised by each claim."""
        return f"{self.root}/epoch"

    @property
    def lease(self) -> str:
        """Ephemeral: who, epoch, since."""
        return f"{self.root}/lease"

    @property
    def waiters(self) -> str:
        """Parent of one ephemeral per run that waits for the lease."""
        return f"{self.root}/waiters"

    @property
    def checkpoint(self) -> str:
        """The committed checkpoint."""
        return f"{self.root}/checkpoint"

    @property
    def plan(self) -> str:
        """The plan in flight."""
        return f"{self.root}/plan"

    @property
    def history(self) -> str:
        """Parent of the history entries."""
        return f"{self.root}/history"

    def history_entry(self, number: int) -> str:
        """One entry; padded, so that names sort as numbers."""
        return f"{self.history}/{number:0{_NUMBER_WIDTH}d}"


@dataclass(frozen=True)
class Layout:
    """Paths under the root of an installation.

    Attributes:
        root: absolute path without a slash at its end.
    """

    root: str = "/databus"

    @property
    def flows(self) -> str:
        """Parent of all flows."""
        return f"{self.root}/flows"

    def flow(self, name: str) -> FlowPaths:
        """Return the paths of a flow.

        Raises:
            ConfigError: the name cannot be a flow's, so nothing outside `flows` can be reached by it.
        """
        if not _FLOW.fullmatch(name):
            raise ConfigError(
                f"{name!r} is not a flow name", hint="Lower-case letters, digits and _, starting with a letter."
            )
        return FlowPaths(f"{self.flows}/{name}")

    def server_ids(self, server: str) -> str:
        """Return the parent of the leased replication ids of `server` ("host:port").

        Raises:
            ConfigError: the text cannot be part of a path.
        """
        if not _SERVER.fullmatch(server) or server in {".", ".."}:
            raise ConfigError(f"{server!r} is not a server", hint='Write "host:port".')
        return f"{self.root}/servers/{server}/ids"
