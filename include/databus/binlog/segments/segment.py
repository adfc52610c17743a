"""Segments: raw log bytes of a range in files that decode alone, and the index that describes them.

A segment holds the FORMAT_DESCRIPTION event of its log file and then the file's bytes from the start of its first
transaction to the end of its last one, unchanged and without holes. It is what a log file would be without the 4-byte
magic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from databus.binlog.log.transactions.xa import CommitPlace
from databus.binlog.schema_history.definitions import PinnedDefinition
from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.positions.offsets import OffsetRange, PreparedTransaction
from databus.core.stored_form import VERSION, Form
from databus.core.tables.schemas import TableSchema
from databus.core.tables.unlogged import UnloggedChange

SEGMENT = Form(
    "segment",
    "name file start_pos end_pos size_bytes transactions rows first_ts_ms last_ts_ms max_ts_ms checksum table_events "
    "commits min_ts_ms gtids_before",
    "definitions",
    "unlogged",
    "others",
    part=True,
)
RANGE_INDEX = Form("segment index", "range capture tables segments bytes more definitions", "", "", "folds")
"""Version 2, 3 or 4 has a segment of that version: an older databus looks at the version of the index alone."""

TARGET_BYTES = 32 << 20
"""A segment ends at the first transaction boundary after this many bytes: small enough to keep all cores busy."""


@dataclass(frozen=True)
class Segment:
    """Segment file.

    Attributes:
        name: file name inside the range's folder.
        file: log file its transactions lie in.
        start_pos: file position of its first transaction's first byte.
        end_pos: file position after its last transaction.
        size_bytes: length of the segment file, the FORMAT_DESCRIPTION event included.
        transactions: number of transactions.
        rows: `schema_id` → row changes of captured tables.
        first_ts_ms: commit time of the first transaction.
        last_ts_ms: commit time of the last transaction.
        max_ts_ms: latest commit time; commit times do not rise steadily.
        checksum: whether its events end with a CRC32.
        table_events: positions of the transactions that changed tables (TRUNCATE, other definition statements), which
            end the segment.
        commits: None, or the place of the XA COMMIT to which the rows of this segment belong. The segment is then the
            transaction that XA PREPARE ended: `file`, `start_pos` and `end_pos` are the prepare's, times the commit's.
        min_ts_ms: earliest commit time.
        gtids_before: GTIDs executed at `start_pos`, "" when unknown.
        definitions: of a prepared transaction, what its TABLE_MAP events left open at their own place; None where the
            range's definitions hold.
        unlogged: its statements that change rows of captured tables without row events.
        others: whether it has statements that give tables which are none of the flow's, or their columns, other names,
            or drop these.
    """

    name: str
    file: str
    start_pos: int
    end_pos: int
    size_bytes: int
    transactions: int
    rows: Mapping[int, int]
    first_ts_ms: int
    last_ts_ms: int
    max_ts_ms: int
    checksum: bool
    table_events: tuple[int, ...] = ()
    commits: CommitPlace | None = None
    min_ts_ms: int = 0
    gtids_before: str = ""
    definitions: tuple[PinnedDefinition, ...] | None = None
    unlogged: tuple[UnloggedChange, ...] = ()
    others: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        values = asdict(replace(self, definitions=None, unlogged=()))
        del values["definitions"], values["unlogged"]
        if not self.others:
            del values["others"]
        if self.commits is None:
            del values["commits"]
        if self.definitions is not None:
            values["definitions"] = [d.to_json() for d in self.definitions]
        if self.unlogged:
            values["unlogged"] = [change.to_json() for change in self.unlogged]
        rows, events = {str(k): v for k, v in self.rows.items()}, list(self.table_events)
        return SEGMENT.write({**values, "rows": rows, "table_events": events})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Segment:
        """Read what `to_json` wrote."""
        values = SEGMENT.read(data)
        values["rows"] = {int(k): v for k, v in values["rows"].items()}
        values["table_events"] = tuple(values["table_events"])
        if "commits" in values:
            values["commits"] = CommitPlace.from_json(values["commits"])
        if "definitions" in values:
            values["definitions"] = tuple(PinnedDefinition.from_json(d) for d in values["definitions"])
        values["unlogged"] = tuple(map(UnloggedChange.from_json, values.get("unlogged", ())))
        return cls(**values)


@dataclass(frozen=True)
class RangeIndex:
    """Index of a staged range.

    Attributes:
        range: (start, end]; the end carries the GTIDs executed there.
        capture: the table filter in text form; another filter counts other rows.
        tables: schemas of captured tables with row changes, in order of first appearance; `schema_id` is the index.
        segments: in log order.
        bytes: log bytes of the range.
        more: whether the log went on past the end when it was read.
        definitions: what TABLE_MAP events left open, from which place on; a replay uses exactly these.
        folds: whether names in statements were folded as it was planned (`TableCapture.folds`); tasks do as it says.
    """

    range: OffsetRange
    capture: str
    tables: tuple[TableSchema, ...]
    segments: tuple[Segment, ...]
    bytes: int
    more: bool
    definitions: tuple[PinnedDefinition, ...] = ()
    folds: bool = False

    @property
    def rows(self) -> int:
        """Row changes of captured tables."""
        return sum(sum(s.rows.values()) for s in self.segments)

    @property
    def first_ts_ms(self) -> int | None:
        """Commit time of the first transaction."""
        return self.segments[0].first_ts_ms if self.segments else None

    @property
    def max_ts_ms(self) -> int | None:
        """Latest commit time."""
        return max((s.max_ts_ms for s in self.segments), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        segments = [s.to_json() for s in self.segments]
        return RANGE_INDEX.write(
            {
                "range": self.range.to_json(),
                "capture": self.capture,
                "tables": [t.to_json() for t in self.tables],
                "segments": segments,
                "bytes": self.bytes,
                "more": self.more,
                "definitions": [d.to_json() for d in self.definitions],
                **({"folds": True} if self.folds else {}),
            },
            at_least=max((segment.get(VERSION, 1) for segment in segments), default=1),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RangeIndex:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version, an unknown field, or not an index.
        """
        values = RANGE_INDEX.read(data)
        try:
            return cls(
                OffsetRange.from_json(values["range"]),
                values["capture"],
                tuple(TableSchema.from_json(t) for t in values["tables"]),
                tuple(Segment.from_json(s) for s in values["segments"]),
                values["bytes"],
                values["more"],
                tuple(PinnedDefinition.from_json(d) for d in values.get("definitions", ())),
                values.get("folds", False),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointFormatError(
                f"a stored segment index lacks or garbles a field: {type(error).__name__}: {error}",
                hint="Delete the folder of the range: it is filled again from the server, while that has the log.",
            ) from error


@dataclass(frozen=True)
class FetchedPrepare:
    """A prepare that lies before the range.

    Attributes:
        prepared: where it lies in the log.
        definitions: what its TABLE_MAP events leave open, as kept with its copy; None where it came from the log.
        former: whether it lies in a former server's log, of which this one's schema history knows nothing.
    """

    prepared: PreparedTransaction
    definitions: tuple[PinnedDefinition, ...] | None = None
    former: bool = False


@dataclass(frozen=True)
class PinnedPrepare:
    """The kept copy of a prepare.

    Attributes:
        path: FORMAT_DESCRIPTION and its events.
        xid: the transaction.
        definitions: what its TABLE_MAP events leave open.
    """

    path: Path
    xid: str
    definitions: tuple[PinnedDefinition, ...]


def segment_name(file: str, start_pos: int) -> str:
    """Return the file name of a segment; two dumps of one range give the same names."""
    return f"{file}.{start_pos:020d}.events"


def committed_name(file: str, start_pos: int) -> str:
    """Return the file name of the segment whose rows an XA COMMIT at this place commits."""
    return f"{file}.{start_pos:020d}.xa"


def pinned_name(prepared: PreparedTransaction) -> str:
    """Return the file name under which the events of a prepared transaction are kept until it is resolved."""
    return f"{prepared.file}.{prepared.start_pos:020d}.prepared"
