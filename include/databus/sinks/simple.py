"""Base of sinks of other packages: `write` is written, everything else of `Sink` has a default."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, PrivateAttr, model_validator

from databus.core.batches.receipts import WriteReceipt
from databus.core.connections import Connection, ConnectionSource
from databus.core.errors.config import ConfigError
from databus.core.flow_specs import FlowContext, SinkSpec
from databus.core.protocols.sink import Sink

if TYPE_CHECKING:
    from databus.sinks.simple_rows import SimpleRows


class SimpleSink(SinkSpec):
    """Base of a sink with one writer. Override `write`.

    At least once, by name (`profile`): a batch that is tried again is written again, under the same event ids and in
    the same order. Exactly once where the class overrides `last_marker`, too, and `write` keeps `rows.marker` in the
    same transaction as the rows.

    Attributes:
        conn_type: expected type of the connection; "" for any.
        conn_id: id of the connection, in `self.connection` once opened, e.g. "http_default"; default "", none.
        profile: "at_least_once", or "exactly_once" for a class that keeps markers, where it is the default.
    """

    direct: ClassVar[bool] = True
    conn_type: ClassVar[str] = ""

    conn_id: str = ""
    profile: Literal["at_least_once", "exactly_once"] = Field("at_least_once", validate_default=False)
    _connection: Connection | None = PrivateAttr(None)

    @abstractmethod
    def write(self, rows: SimpleRows) -> WriteReceipt:
        """Write all rows of a batch in the order given, and return `rows.receipt()` when they are safe.

        Called again with the same rows after anything that was raised or killed. With markers, also for batches
        without rows; `rows.marker` is committed with the rows, if the marker there is still `rows.previous`.

        Raises:
            SinkUnavailableError: no answer, or one that asks to come later; the batch is tried again.
            SinkFencedError: the marker is another than `rows.previous`; nothing was written.
            SinkError: anything else; the flow stops.
        """

    def ping(self) -> None:
        """Ask the server for an answer; asked by preflight and before each plan. Does nothing by default.

        Raises:
            SinkUnavailableError: no answer.
        """

    def last_marker(self, writer: str) -> str | None:
        """Return the marker that a writer last committed with its rows, None where there is none.

        Args:
            writer: "installation/flow/sink", which distinguishes writers of one server.
        """
        raise NotImplementedError

    @classmethod
    def keeps_markers(cls) -> bool:
        """Return whether the class can be exactly once: it overrides `last_marker`."""
        return cls.last_marker is not SimpleSink.last_marker

    @property
    def connection(self) -> Connection:
        """The connection of `conn_id`.

        Raises:
            ConfigError: no connection is set, or the sink was not opened.
        """
        if self._connection is None:
            raise ConfigError(f"sink {self.sink_name} has no connection", hint="Set conn_id, and open the sink.")
        return self._connection

    def open(self, connections: ConnectionSource, context: FlowContext) -> Sink:
        """Return the open sink."""
        from databus.sinks.simple_sink import OpenSimpleSink

        opened = self.model_copy()
        if self.conn_id:
            opened._connection = connections.get(self.conn_id)  # noqa: SLF001 - a copy of its own class
        return OpenSimpleSink(opened, f"{context.settings.installation}/{context.flow}/{self.sink_name}")

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return the connection's id and type."""
        return ((self.conn_id, self.conn_type),) if self.conn_id else ()

    @model_validator(mode="before")
    @classmethod
    def _markers_are_kept(cls, options: Any) -> Any:
        return {"profile": "exactly_once", **options} if cls.keeps_markers() else options

    @model_validator(mode="after")
    def _profile_is_true(self) -> SimpleSink:
        if self.profile == "exactly_once" and not self.keeps_markers():
            raise ValueError(f"{type(self).__name__} keeps no markers: a batch that is tried again is written again")
        return self
