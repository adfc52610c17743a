"""Snapshot of a flow's tables: how far each has been read, chunks that a batch takes along, what the flow captures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from databus.core.stored_form import Form

BEGINS_WITH_ROWS = "begins with the rows that its tables hold"
"""Reason of the history's first entry where the flow's first snapshot goes with it: a run that was killed between the
two leaves it to the next one, and a flow that an older databus began, or another `snapshot`, gets none by itself."""

CHUNK_FILE = Form("chunk file", "name sha256 table rows superseded", part=True)
TABLE_PROGRESS = Form("progress of a table", "table state after chunks rows superseded estimate", "where", part=True)
SNAPSHOT = Form(
    "snapshot", "number cause begun_at tables", "paused finished_at cancelled", "mends", "resumed_at resumed_rows"
)
CAPTURE_SCOPE = Form("capture scope", "tables exclude_tables")
PLANNED_CHUNKS = Form("planned chunks", "snapshot files", part=True)


@dataclass(frozen=True)
class ChunkFile:
    """Chunk file in the segment store: rows of one table as they stood in a consistent view.

    Attributes:
        name: file name in the flow's folder of the store.
        sha256: hex digest of its bytes.
        table: `database.table`.
        rows: rows that it holds, which the batch delivers.
        superseded: rows that were read and left out: the batch's own range of the log has their keys.
    """

    name: str
    sha256: str
    table: str
    rows: int
    superseded: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return CHUNK_FILE.write(
            {
                "name": self.name,
                "sha256": self.sha256,
                "table": self.table,
                "rows": self.rows,
                "superseded": self.superseded,
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ChunkFile:
        """Read what `to_json` wrote."""
        return cls(**CHUNK_FILE.read(data))


@dataclass(frozen=True)
class TableProgress:
    """Progress of a snapshot in one table.

    Attributes:
        table: `database.table`.
        state: "waiting", "reading" or "done"; "gone" where the table was dropped or renamed before it was done.
        after: cursor: key of the last row of the last chunk as SQL literals of the server; () before the first chunk.
        chunks: chunks that were committed.
        rows: rows of these that were delivered.
        superseded: rows of these that the log superseded.
        estimate: rows of the table as the server estimated them when it was begun; None when it did not.
        where: condition in SQL that rows must meet; "" for all rows.
    """

    table: str
    state: str = "waiting"
    after: tuple[str, ...] = ()
    chunks: int = 0
    rows: int = 0
    superseded: int = 0
    estimate: int | None = None
    where: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return TABLE_PROGRESS.write(
            {
                "table": self.table,
                "state": self.state,
                "after": list(self.after),
                "chunks": self.chunks,
                "rows": self.rows,
                "superseded": self.superseded,
                "estimate": self.estimate,
                **({"where": self.where} if self.where else {}),
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TableProgress:
        """Read what `to_json` wrote."""
        values = TABLE_PROGRESS.read(data)
        return cls(**{**values, "after": tuple(values["after"])})


@dataclass(frozen=True)
class Snapshot:
    """Snapshot of a flow: tables in the order in which they are read.

    Attributes:
        number: number of the snapshot in its flow, from 1.
        cause: "initial", "request", "repair", or "added" of tables that a changed flow captures since.
        begun_at: when it was begun.
        tables: progress by table.
        paused: whether a person holds it.
        finished_at: when its last chunk was committed, or a person cancelled it; None before.
        cancelled: whether a person ended it before its last chunk.
        mends: numbers of the flow's gaps that are mended once it is finished: it reads all tables, behind all of them.
        resumed_at: when it went on behind the last pause; None where there was none.
        resumed_rows: rows that were read by then.
    """

    number: int
    cause: str
    begun_at: datetime
    tables: tuple[TableProgress, ...]
    paused: bool = False
    finished_at: datetime | None = None
    cancelled: bool = False
    mends: tuple[int, ...] = ()
    resumed_at: datetime | None = None
    resumed_rows: int = 0

    @property
    def rows(self) -> int:
        """Rows read: delivered and superseded ones."""
        return sum(table.rows + table.superseded for table in self.tables)

    @property
    def unfinished(self) -> bool:
        """Return whether chunks are left to read: it is neither finished nor cancelled."""
        return self.finished_at is None

    @property
    def under_way(self) -> bool:
        """Return whether chunks are to be read: it is neither finished nor paused."""
        return self.finished_at is None and not self.paused

    @property
    def current(self) -> TableProgress | None:
        """Table that is read next; None when all are done."""
        return next((table for table in self.tables if table.state not in ("done", "gone")), None)

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        later = {
            **({"paused": True} if self.paused else {}),
            **({"finished_at": self.finished_at.isoformat()} if self.finished_at is not None else {}),
            **({"cancelled": True} if self.cancelled else {}),
            **({"mends": list(self.mends)} if self.mends else {}),
            **({"resumed_at": self.resumed_at.isoformat()} if self.resumed_at is not None else {}),
            **({"resumed_rows": self.resumed_rows} if self.resumed_rows else {}),
        }
        return SNAPSHOT.write(
            {
                "number": self.number,
                "cause": self.cause,
                "begun_at": self.begun_at.isoformat(),
                "tables": [table.to_json() for table in self.tables],
                **later,
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Snapshot:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version, or not a snapshot.
        """
        values = SNAPSHOT.read(data)
        finished, resumed = values.get("finished_at"), values.get("resumed_at")
        return cls(
            values["number"],
            values["cause"],
            datetime.fromisoformat(values["begun_at"]),
            tuple(map(TableProgress.from_json, values["tables"])),
            values.get("paused", False),
            datetime.fromisoformat(finished) if finished else None,
            values.get("cancelled", False),
            tuple(values.get("mends", ())),
            datetime.fromisoformat(resumed) if resumed else None,
            values.get("resumed_rows", 0),
        )


@dataclass(frozen=True)
class PlannedChunks:
    """Planned chunks of a batch.

    Attributes:
        snapshot: the snapshot as it stands once the batch is committed.
        files: the chunks' rows, in the order in which the batch delivers them.
    """

    snapshot: Snapshot
    files: tuple[ChunkFile, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return PLANNED_CHUNKS.write(
            {"snapshot": self.snapshot.to_json(), "files": [file.to_json() for file in self.files]}
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PlannedChunks:
        """Read what `to_json` wrote."""
        values = PLANNED_CHUNKS.read(data)
        return cls(Snapshot.from_json(values["snapshot"]), tuple(map(ChunkFile.from_json, values["files"])))


@dataclass(frozen=True)
class CaptureScope:
    """Capture scope: names and patterns of tables, as the flow's source writes them.

    A table that is created later under a pattern that was there already needs no snapshot: the log has all its rows.
    One that only a changed pattern means had rows before that nobody read.

    Attributes:
        tables: what is captured.
        exclude_tables: what is left out of it.
    """

    tables: tuple[str, ...]
    exclude_tables: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return CAPTURE_SCOPE.write({"tables": list(self.tables), "exclude_tables": list(self.exclude_tables)})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CaptureScope:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version, or not a scope.
        """
        values = CAPTURE_SCOPE.read(data)
        return cls(tuple(values["tables"]), tuple(values["exclude_tables"]))

    def __str__(self) -> str:
        without = f" without {', '.join(self.exclude_tables)}" if self.exclude_tables else ""
        return ", ".join(self.tables) + without
