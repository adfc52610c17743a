"""Options of a flow's snapshots: rows, order, size of chunks, and what reading them may cost the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, field_validator, model_validator

from databus.binlog.log.capture import TableCapture, check_pattern, is_name
from databus.core.errors.config import ConfigError
from databus.core.spec import Spec
from databus.core.stored_options import SECOND, ZERO, Duration, StoredOption

MOST_THREADS = 32
"""Views of one flow at most: each is a connection with a transaction of its own."""


class SnapshotOptions(Spec):
    """Options of snapshots, e.g. `SnapshotOptions(first=("shop.customers",), max_rows_per_second=20_000)`.

    They say how rows are read. A snapshot that is unfinished takes changed ones from its next batch on, but for `where`
    and `first`, which hold for snapshots that begin.

    Attributes:
        where: table → condition in SQL that its rows must meet, as it would stand behind WHERE, e.g. {"shop.orders":
            "id > 1000"}; of the other tables all rows are read. Default {}. `--where` of `databus snapshot begin`
            stands in its place. Changes come whatever it says.
        first: tables that are read before the others, in this order: names and patterns as in `MysqlBinlog.tables`,
            e.g. ("shop.customers", "shop.orders*"); default none, all are read by name.
        chunk_rows: most rows of one chunk, e.g. 10_000; default None: those of a batch, and of about 32 MiB.
        threads: consistent views in which chunks are read side by side, 1 … 32, e.g. 4; default 1.
        max_rows_per_second: most rows that are read per second, on average over more than two seconds, e.g. 20_000;
            default None, no bound. The stream goes on at its own pace.
        pause_above_threads_running: no chunk is read while the server's Threads_running is above it, e.g. 40; default
            None, whatever it is. The stream goes on.
        pause_above_replica_lag: no chunk is read while one of `replicas` is further behind, e.g.
            timedelta(seconds=10), does not replicate or does not answer; default None, however far they are.
        replicas: connections of type mysql of the replicas whose lag counts, e.g. ("mysql_replica",); default none.
            Their accounts need REPLICATION CLIENT (MariaDB: SLAVE MONITOR).
        read_from: connection of type mysql of a replica whose views are read in place of the source's, e.g.
            "mysql_replica"; default "", the source itself. Needs GTIDs. While it is more than 10 s behind no chunk is
            read, and the stream goes on. Its account needs SELECT on the tables and REPLICATION CLIENT (MariaDB: SLAVE
            MONITOR).
    """

    where: dict[str, str] = Field(default_factory=dict)
    first: tuple[str, ...] = ()
    chunk_rows: int | None = Field(None, gt=0)
    threads: int = Field(1, ge=1, le=MOST_THREADS)
    max_rows_per_second: int | None = Field(None, gt=0)
    pause_above_threads_running: int | None = Field(None, gt=0)
    pause_above_replica_lag: Duration | None = Field(None, gt=ZERO)
    replicas: tuple[str, ...] = ()
    read_from: str = ""

    pause_above_replica_lag_s: ClassVar = StoredOption[float]("pause_above_replica_lag", SECOND)

    @field_validator("where")
    @classmethod
    def _conditions_are_of_tables(cls, where: dict[str, str]) -> dict[str, str]:
        from databus.sources.mysql.snapshot.row_condition import condition_fault

        for table, condition in where.items():
            if "." not in table.strip(".") or not is_name(table):
                raise ValueError(f"{table!r} is no table: write DATABASE.TABLE")
            if not condition.strip():
                raise ValueError(f"the condition of {table} is empty: leave it out")
            if fault := condition_fault(condition):
                raise ValueError(f"the condition of {table}, {condition!r}, is refused: {fault}")
        return where

    @field_validator("first")
    @classmethod
    def _patterns_are_valid(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(check_pattern(p) for p in patterns)
        except ConfigError as error:
            raise ValueError(f"{error.message} {error.hint}") from None

    @model_validator(mode="after")
    def _lag_is_of_replicas(self) -> SnapshotOptions:
        if (self.pause_above_replica_lag is None) != (not self.replicas):
            raise ValueError("pause_above_replica_lag and replicas go together: the one says how far, the other whose")
        return self

    def stored(self) -> dict[str, Any]:
        """Return the options that say something as plain JSON."""
        unsaid = super(SnapshotOptions, type(self)()).stored()
        return {name: value for name, value in super().stored().items() if value != unsaid[name]}

    @property
    def bounded(self) -> bool:
        """Bounds by time or load are set, so that nothing may be read before it is asked for."""
        return not self.stored().keys() <= {"where", "first", "chunk_rows", "threads", "read_from"}

    def conditions(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return table → condition; those that a person gave stand before its own."""
        return {**self.where, **{table: where for table, where in given.items() if where}}

    def place_of(self, table: str) -> int:
        """Return the place of `database.table` in the order of reading: tables of one place are read by name."""
        places = (n for n, pattern in enumerate(self.first) if TableCapture((pattern,))(*table.split(".", 1)))
        return next(places, len(self.first))
