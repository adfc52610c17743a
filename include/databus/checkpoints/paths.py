"""Paths of everything kept in ZooKeeper."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

from databus.core.errors.config import ConfigError

_FLOW = re.compile(r"[a-z][a-z0-9_]{0,99}")
_PART = re.compile(r"quarantine|backfill(-[a-z0-9]+)*")
_SERVER = re.compile(r"[^/\x00-\x1f\x7f]{1,200}")
_NUMBER_WIDTH = 10


@dataclass(frozen=True)
class FlowPaths:
    """Paths of one flow, or of a sink of it that is behind: then checkpoint, plan and history are the sink's own.

    Attributes:
        root: `<root>/flows/<flow>`.
        sink: name of the sink; "" for the flow itself.
    """

    root: str
    sink: str = ""

    def of_sink(self, sink: str) -> FlowPaths:
        """Return the paths of a sink that is behind; the flow's own for "".

        Raises:
            ConfigError: the name cannot be part of a path.
        """
        if sink in {".", ".."}:
            raise ConfigError(f"{sink!r} is not a sink's name", hint="Give the sink another name=.")
        return replace(self, sink=sink)

    @property
    def sinks(self) -> str:
        """Parent of one node for each sink that was ever behind; its name is quoted as in a URL."""
        return f"{self.root}/sinks"

    @staticmethod
    def sink_of(node: str) -> str:
        """Return the sink's name from the name of its node."""
        return unquote(node)

    @property
    def _state(self) -> str:
        return f"{self.sinks}/{quote(self.sink, safe='')}" if self.sink else self.root

    def values_folder(self, path: str) -> str:
        """Return the name of the folder that keeps a node's large value: the flow's, or that of one sink of it.

        Known outputs, snapshots and scopes have folders of their own: a databus that does not know their node yet
        sweeps, at its claim, what no node that it knows refers to.
        """
        flow = self.root.rpartition("/flows/")[2].replace("/replays/", ".")
        sink = path.removeprefix(f"{self.sinks}/").partition("/")[0] if path.startswith(f"{self.sinks}/") else ""
        if path == self.of_sink(self.sink_of(sink)).outputs:
            flow = f"{flow}.outputs"
        elif path in (self.snapshot, self.capture_scope):
            flow = f"{flow}.{path.rpartition('/')[2]}"
        return f"{flow}@{sink}" if sink else flow

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
        return f"{self._state}/checkpoint"

    @property
    def outputs(self) -> str:
        """Node of the outputs that the checkpoint knows, written with it where they change."""
        return f"{self._state}/outputs"

    @property
    def plan(self) -> str:
        """The plan in flight."""
        return f"{self._state}/plan"

    @property
    def history(self) -> str:
        """Parent of the history entries."""
        return f"{self._state}/history"

    def history_entry(self, number: int) -> str:
        """Path of a history entry; padded, so that names sort as numbers."""
        return f"{self.history}/{number:0{_NUMBER_WIDTH}d}"

    @property
    def paused(self) -> str:
        """There while a person has the flow paused: who, why, since."""
        return f"{self.root}/paused"

    @property
    def snapshot(self) -> str:
        """The flow's snapshot: the unfinished one, or the last."""
        return f"{self.root}/snapshot"

    @property
    def capture_scope(self) -> str:
        """Node of what the flow captured at its last claim."""
        return f"{self.root}/capture_scope"

    @property
    def accepted(self) -> str:
        """Node of the tables and columns that the flow asks for, and that were found once."""
        return f"{self.root}/accepted"

    @property
    def topics_read(self) -> str:
        """Node of what is known of topics that only patterns name."""
        return f"{self.root}/topics_read"

    @property
    def hidden_columns(self) -> str:
        """Node of the columns that transforms of the flow, or of a sink, hid in each table; parent of further pages."""
        return f"{self.root}/hidden_columns" + (f"@{quote(self.sink, safe='')}" if self.sink else "")

    def hidden_columns_page(self, number: int) -> str:
        """Path of a further page of hidden columns, from 1; padded, so that names sort as numbers."""
        return f"{self.hidden_columns}/{number:0{_NUMBER_WIDTH}d}"

    @property
    def gaps(self) -> str:
        """Parent of the named gaps."""
        return f"{self.root}/gaps"

    def gap(self, number: int) -> str:
        """Path of a gap; padded, so that names sort as numbers."""
        return f"{self.gaps}/{number:0{_NUMBER_WIDTH}d}"

    @property
    def boundaries(self) -> str:
        """Parent of the places in the log at which moments lie, shared by all backfills."""
        return f"{self.root}/boundaries"

    @property
    def backfills(self) -> str:
        """Parent of the backfills that were asked for."""
        return f"{self.root}/backfills"

    @property
    def backfills_finished(self) -> str:
        """Parent of one empty node for each backfill whose ledger was seen to show all of its range."""
        return f"{self.root}/backfills_finished"


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
        """Return the paths of a flow; "<flow>.quarantine" names the replays of what it held back.

        "<flow>.backfill" names the planning of its backfills, "<flow>.backfill-…" a piece of one.

        Raises:
            ConfigError: the name cannot be a flow's, so nothing outside `flows` can be reached by it.
        """
        flow, _, part = name.partition(".")
        if _PART.fullmatch(part) and _FLOW.fullmatch(flow):
            return FlowPaths(f"{self.flows}/{flow}/replays/{part}")
        if not _FLOW.fullmatch(name):
            raise ConfigError(
                f"{name!r} is not a flow name", hint="Lower-case letters, digits and _, starting with a letter."
            )
        return FlowPaths(f"{self.flows}/{name}")

    def alerts(self, flow: str) -> str:
        """Return the parent of a flow's alert states; of those of the installation for "". Raises as `flow`."""
        return f"{self.flow(flow).root}/alerts" if flow else f"{self.root}/alerts"

    def server_ids(self, server: str) -> str:
        """Return the parent of the leased replication ids of `server` ("host:port").

        Raises:
            ConfigError: the text cannot be part of a path.
        """
        return f"{self._server(server)}/ids"

    def dump_turns(self, server: str) -> str:
        """Return the parent of the turns to dump the log of `server` ("host:port"). Raises as `server_ids`."""
        return f"{self._server(server)}/dumps"

    def _server(self, server: str) -> str:
        if not _SERVER.fullmatch(server) or server in {".", ".."}:
            raise ConfigError(f"{server!r} is not a server", hint='Write "host:port".')
        return f"{self.root}/servers/{server}"
