"""The binary log of a MySQL or MariaDB server as a source: what a flow writes down."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from pydantic import Field, field_validator, model_validator

from databus.binlog.log.capture import TableCapture, check_pattern, is_name
from databus.core.connections import ConnectionSource
from databus.core.errors.config import ConfigError
from databus.core.errors.source import OffsetInvalidError
from databus.core.flow_specs import FlowContext, SourceSpec
from databus.core.packages import require
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.state.snapshot import CaptureScope
from databus.core.stored_options import SECOND, ZERO, Duration, StoredOption
from databus.sources.mysql.row_filters import AnyRowFilter
from databus.sources.mysql.segments.address import LARGE_VALUE_OVER_BYTES, MOST_BYTES
from databus.sources.mysql.snapshot_options import SnapshotOptions

if TYPE_CHECKING:
    from databus.core.protocols.source import Source
    from databus.core.tables.schemas import TableSchema

_FILE_AND_POSITION = re.compile(r"^(?P<file>.+\.\d{6,}):(?P<pos>\d+)$")
GTID_PREFIX = "gtid:"
OnMissingTable = Literal["fail", "wait"]
OnPartitionDdl = Literal["event", "fail"]
BeginsWith = Literal["never", "initial", "only"]
_SAYS_NOTHING = {"on_missing_table": "fail", "on_partition_ddl": "event", "snapshot": "never", "snapshot_options": None}


class MysqlBinlog(SourceSpec):
    """Row changes of tables, read from the server's binary log.

    Attributes:
        conn_id: connection of type mysql, e.g. "mysql_shop".
        tables: what is captured: "shop.orders", fnmatch patterns "shop.*", or "re:" and a regular expression over
            `database.table`.
        exclude_tables: patterns of the same form that are left out, e.g. ("shop.tmp_*",); default none.
        row_filters: RangePartition, ModuloPartition, HashPartition: which rows of which tables are wanted. A row must
            pass all that concern its table. The others are left out before they are encoded, and count as filtered; an
            update that moves a row into a partition is an insert, one that moves it out a delete. Default none.
        start: where a flow without a checkpoint begins in the log: "latest" (default), "earliest", "FILE:POS",
            "gtid:<set>", or a time (ISO 8601; UTC without a zone). One that is given begins without the rows from
            before it.
        snapshot: "initial" (default where `start` is unset) lets a flow without a checkpoint begin with the rows that
            its tables hold: they are read in chunks beside the stream and delivered as op "r"; nothing is missing, and
            nothing comes twice. A table that is added to such a flow is read by itself. "only" ends behind the rows:
            changes come as far as the rows need them, and none once the snapshot is finished. "never" (default where
            `start` is given) delivers changes alone.
        snapshot_options: how tables are read as they stand, e.g. SnapshotOptions(max_rows_per_second=20_000); default
            None: all rows, as fast as batches take them along.
        decoder: "numba" (default, columnar) or "library" (python-mysql-replication; slow, refuses the types it gets
            wrong).
        flavor: "mysql", "mariadb", or "auto" (default) to ask the server.
        headroom: least time until the server deletes what the flow needs next, below which it warns, e.g.
            timedelta(hours=12); default 6 hours.
        large_values_over_bytes: most bytes of text and binary values in a row image. Of a larger one the largest values
            are written to the segment store, and the row carries a reference in their place
            (`databus.binlog.segments.large_values`),
            with the flag "claimed". Below a topic's max.message.bytes it spares large rows the quarantine. E.g.
            500_000; default 15 MiB.
        on_missing_table: "fail" (default) refuses to begin with a name or pattern in `tables` that no table matches;
            "wait" is for tables that come later. A table that a flow once had stops no flow.
        on_partition_ddl: what to do at a statement that takes rows of a captured table away, or brings some, without
            row events: DROP, TRUNCATE, EXCHANGE, CONVERT PARTITION, DISCARD and IMPORT TABLESPACE, MariaDB's ALTER
            IGNORE TABLE where it makes unique keys or partitions. "event" (default) delivers it as an event of op "m"
            and warns in the log and the run; "fail" stops before it, with all rows up to it delivered (`databus
            checkpoint skip` goes on behind it). A backfill over it always takes it as an event, and so does a sink that
            fell behind, where the flow has passed it.
    """

    kind: ClassVar[str] = "mysql_binlog"
    without_effect: ClassVar[frozenset[str]] = frozenset(
        {"start", "snapshot", "snapshot_options", "headroom", "on_missing_table", "on_partition_ddl"}
    )
    direct: ClassVar[bool] = True
    ranged: ClassVar[bool] = True
    snapshots: ClassVar[bool] = True
    transactional: ClassVar[bool] = True
    places: ClassVar[tuple[str, ...]] = (
        "FILE:POS (mysql-bin.000042:4)",
        "gtid:SET (gtid:3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77; of MariaDB gtid:0-1-77)",
    )

    conn_id: str
    tables: tuple[str, ...] = Field(min_length=1)
    exclude_tables: tuple[str, ...] = ()
    row_filters: tuple[AnyRowFilter, ...] = ()
    start: str = "latest"
    snapshot: BeginsWith = "never"
    snapshot_options: SnapshotOptions | None = None
    decoder: Literal["numba", "library"] = "numba"
    flavor: Literal["auto", "mysql", "mariadb"] = "auto"
    headroom: Duration = Field(timedelta(hours=6), ge=ZERO)
    large_values_over_bytes: int = Field(default=LARGE_VALUE_OVER_BYTES, ge=1024, le=MOST_BYTES)
    on_missing_table: OnMissingTable = "fail"
    on_partition_ddl: OnPartitionDdl = "event"

    headroom_s: ClassVar = StoredOption[int]("headroom", SECOND, whole=True)
    claim_over_bytes: ClassVar = StoredOption[int]("large_values_over_bytes")

    @field_validator("tables", "exclude_tables")
    @classmethod
    def _patterns_are_valid(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(check_pattern(p) for p in patterns)
        except ConfigError as error:
            raise ValueError(f"{error.message} {error.hint}") from None

    @field_validator("snapshot_options", mode="before")
    @classmethod
    def _stored_options_are_read(cls, value: object) -> object:
        return SnapshotOptions.from_stored(value) if isinstance(value, dict) else value

    @field_validator("start", mode="before")
    @classmethod
    def _start_is_known(cls, value: object) -> str:
        if isinstance(value, datetime):
            return parse_time(value.isoformat()).isoformat()
        text = str(value)
        if text in ("latest", "earliest") or _FILE_AND_POSITION.match(text):
            return text
        if text.startswith(GTID_PREFIX):
            _check_gtids(text[len(GTID_PREFIX) :])
            return text
        try:
            parse_time(text)
        except ValueError:
            raise ValueError(
                f"start {text!r} is none of latest, earliest, FILE:POS "
                "(mysql-bin.000042:4), gtid:<set>, an ISO 8601 time"
            ) from None
        return text

    @model_validator(mode="before")
    @classmethod
    def _snapshot_is_the_default(cls, options: Any) -> Any:
        """Begin with the rows where no start is given; what is stored always has one."""
        if isinstance(options, dict) and not {"start", "snapshot"} & options.keys():
            return {**options, "snapshot": "initial"}
        return options

    @model_validator(mode="after")
    def _snapshot_begins_at_head(self) -> MysqlBinlog:
        if self.begins_with_snapshot() and self.start != "latest":
            raise ValueError(
                f'snapshot="{self.snapshot}" reads the tables as they stand: with start={self.start!r} '
                "older changes would come after the rows that hold them. Leave start unset."
            )
        return self

    @model_validator(mode="after")
    def _conditions_are_of_its_tables(self) -> MysqlBinlog:
        capture = TableCapture(self.tables, self.exclude_tables)
        for table in self.snapshot_options.where if self.snapshot_options else ():
            if not capture(*table.split(".", 1)):
                raise ValueError(f"snapshot_options.where: {table} is none of the flow's tables")
        for table in filter(is_name, self.snapshot_options.first if self.snapshot_options else ()):
            if not capture(*table.split(".", 1)):
                raise ValueError(f"snapshot_options.first: {table} is none of the flow's tables")
        return self

    def stored(self) -> dict[str, Any]:
        """Return the options as plain JSON, those of snapshots by their stored names, too."""
        options = self.snapshot_options
        return super().stored() | {"snapshot_options": options.stored() if options is not None else None}

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain JSON; what came later is left out where it says nothing, and keeps hashes."""
        return {name: value for name, value in super().to_json().items() if _SAYS_NOTHING.get(name) != value}

    def alike(self) -> tuple[MysqlBinlog, ...]:
        """Return it under the other policies at which a flow stops: whoever decides can finish the plan in flight.

        The databus whose plans these are knew no snapshots.
        """
        pairs = product(get_args(OnMissingTable), get_args(OnPartitionDdl))
        return tuple(
            self.model_copy(update={"on_missing_table": missing, "on_partition_ddl": ddl, "snapshot": "never"})
            for missing, ddl in pairs
            if (missing, ddl, "never") != (self.on_missing_table, self.on_partition_ddl, self.snapshot)
        )

    def replayed(self) -> MysqlBinlog:
        """Return the spec that stops before no statement."""
        return self.model_copy(update={"on_partition_ddl": "event"})

    def means(self, pattern: str, table: TableSchema) -> bool:
        """Return whether a pattern means a table."""
        return TableCapture((pattern,))(table.database, table.table)

    @property
    def tables_may_come_later(self) -> bool:
        """Return whether tables that are not there yet are waited for."""
        return self.on_missing_table == "wait"

    def open(self, connections: ConnectionSource, context: FlowContext) -> Source:
        """Connect to the server."""
        require(self.extras(), f"source {self.kind}")
        from databus.sources.mysql.source import MysqlBinlogSource

        opened = {conn_id: connections.get(conn_id) for conn_id in (self.conn_id, *self._replicas)}
        return MysqlBinlogSource(self, opened[self.conn_id], context, opened)

    def begins_at_head(self) -> bool:
        """Return whether it begins at "latest"."""
        return self.start == "latest"

    def begins_with_snapshot(self) -> bool:
        """Tell whether it begins with the tables as they stand."""
        return self.snapshot != "never"

    def reads_changes(self) -> bool:
        """Tell whether it reads the log for its own sake, and not only for the rows of a snapshot."""
        return self.snapshot != "only"

    def capture_scope(self) -> CaptureScope:
        """Return the patterns of what is captured and of what is left out."""
        return CaptureScope(self.tables, self.exclude_tables)

    def snapshot_rows_per_second(self) -> int | None:
        """Return the bound of the snapshots' options."""
        return self.snapshot_options.max_rows_per_second if self.snapshot_options is not None else None

    def at_place(self, text: str) -> SourceSpec:
        """Return the source that begins at a place of the log, without the rows that are there."""
        return SourceSpec.at_place(self.model_copy(update={"snapshot": "never"}), text)

    def conn_ids(self) -> tuple[tuple[str, str], ...]:
        """Return the one connection, and behind it those of replicas that are read, or whose lag is."""
        return tuple((conn_id, "mysql") for conn_id in (self.conn_id, *self._replicas))

    def extras(self) -> tuple[str, ...]:
        """Return the client's and the decoder's."""
        return ("mysql",)

    @property
    def _replicas(self) -> tuple[str, ...]:
        options = self.snapshot_options
        return () if options is None else tuple(dict.fromkeys(filter(None, (*options.replicas, options.read_from))))

    def datasets(self) -> tuple[str, ...]:
        """Return the table patterns."""
        return self.tables

    def refusals(self, table: TableSchema) -> tuple[tuple[str, str], ...]:
        """Return the row filters that cannot judge the rows of a table, and why."""
        concerned = ((type(w).__name__, w.refusal(table)) for w in self.row_filters if w.concerns(table))
        return tuple((name, why) for name, why in concerned if why)

    def row_filter_columns(self, table: TableSchema) -> tuple[tuple[str, str], ...]:
        """Return the columns of the row filters that concern the table."""
        concerned = [wanted for wanted in self.row_filters if wanted.concerns(table)]
        return tuple((column, type(w).__name__) for w in concerned for column in w.judged(table))

    def judged_columns(self) -> tuple[str, ...]:
        """Return the columns that the row filters name, each once."""
        return tuple(dict.fromkeys(column for wanted in self.row_filters for column in wanted.named()))

    def label(self) -> str:
        """Return kind and tables."""
        return f"{self.kind} {', '.join(self.tables)}"


def parse_time(text: str) -> datetime:
    """Read an ISO 8601 time; without a zone it is UTC.

    Raises:
        ValueError: it is not one.
    """
    when = datetime.fromisoformat(text)
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def file_and_position(text: str) -> tuple[str, int] | None:
    """Return the parts of "FILE:POS", None when the text is of another form."""
    match = _FILE_AND_POSITION.match(text)
    return (match["file"], int(match["pos"])) if match else None


def _check_gtids(text: str) -> None:
    for kind in (MysqlGtidSet, MariadbGtidPosition):
        try:
            kind.parse(text)
        except OffsetInvalidError:
            continue
        return
    raise ValueError(f"{text!r} is neither a MySQL GTID set nor a MariaDB GTID position")
