"""Offset of a MySQL or MariaDB binary log: the end of a transaction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from databus.core.errors.source import OffsetInvalidError
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.positions.offset import Offset, Ordering
from databus.core.stored_form import Form

BINLOG_OFFSET = Form(
    "binlog offset", "kind file pos gtids flavor server timeline prepared", "created_s", "generation", part=True
)

_LOG_HEADER_BYTES = {"mysql": 256, "mariadb": 512}
"""Before this position of a log's first file no transaction ends: there are only the events that describe the log."""

_FILE = re.compile(r"^(?P<base>.+)\.(?P<number>\d{6,})$")


@dataclass(frozen=True)
class PreparedTransaction:
    """The first phase of an XA transaction that is neither committed nor rolled back at an offset.

    Attributes:
        xid: as the log writes it, `X'gtrid',X'bqual',format`.
        file: log file of the first phase.
        start_pos: position of its first byte.
        end_pos: position after its XA_PREPARE event.
    """

    xid: str
    file: str
    start_pos: int
    end_pos: int

    def to_json(self) -> list[str | int]:
        """Return plain JSON, short because a checkpoint may hold hundreds."""
        return [self.xid, self.file, self.start_pos, self.end_pos]


@dataclass(frozen=True)
class BinlogOffset:
    """The end of a transaction in a MySQL or MariaDB binary log.

    Attributes:
        file: name of the log file, e.g. "mysql-bin.000042".
        pos: byte position after the last event, counted in 64 bits (the wire's 32-bit field wraps at 4 GiB).
        gtids: executed MySQL GTID set or MariaDB GTID position in text form; "" where the server has none, and at the
            beginning of a log (`knows_gtids`).
        flavor: "mysql" or "mariadb".
        server: server_uuid of MySQL, or "server_id" of MariaDB in text form; "" when unknown.
        timeline: raised by each failover, because file numbers of the new server may be lower.
        prepared: XA transactions that were prepared before this place and not resolved, as far as they were read, in
            log order. Places are compared without it.
        created_s: when the server began the log file, seconds since the epoch; 0 when unknown. It distinguishes a log
            that was replaced under the same names: no part of equality, and left out of JSON when 0.
        generation: how often the log was replaced and a person took the flow onto the new one. All of a later
            generation lies behind all of an earlier one, whatever files, positions and GTIDs say: they begin anew. Left
            out of JSON when 0.
    """

    file: str
    pos: int
    gtids: str = ""
    flavor: str = "mysql"
    server: str = ""
    timeline: int = 0
    prepared: tuple[PreparedTransaction, ...] = ()
    created_s: int = field(default=0, compare=False)
    generation: int = 0
    kind: str = field(default="binlog", init=False)

    def __post_init__(self) -> None:
        if not _FILE.fullmatch(self.file) or self.pos < 4:
            raise OffsetInvalidError(
                f"{self.file}:{self.pos} is not a binlog position",
                hint="Write FILE:POS as SHOW BINARY LOGS names it, e.g. mysql-bin.000042:4; the first position is 4.",
            )

    @property
    def file_number(self) -> int:
        """Number of the log file."""
        match = _FILE.fullmatch(self.file)
        assert match is not None  # noqa: S101 - checked at construction
        return int(match["number"])

    @property
    def knows_gtids(self) -> bool:
        """Return whether `gtids` holds what was executed: an empty one does so only where the log itself begins."""
        return bool(self.gtids) or (self.file_number == 1 and self.pos < _LOG_HEADER_BYTES.get(self.flavor, 0))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; what was added to offsets later is left out when empty, as in those written before."""
        pending: dict[str, Any] = {"prepared": [p.to_json() for p in self.prepared]} if self.prepared else {}
        pending |= {"created_s": self.created_s} if self.created_s else {}
        pending |= {"generation": self.generation} if self.generation else {}
        return BINLOG_OFFSET.write(
            {
                "kind": self.kind,
                "file": self.file,
                "pos": self.pos,
                "gtids": self.gtids,
                "flavor": self.flavor,
                "server": self.server,
                "timeline": self.timeline,
                **pending,
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BinlogOffset:
        """Read what `to_json` wrote."""
        values = BINLOG_OFFSET.read(data)
        del values["kind"]
        prepared = tuple(PreparedTransaction(*p) for p in values.pop("prepared", ()))
        return cls(**values, prepared=prepared)

    def compare(self, other: Offset) -> Ordering:
        """Order by generation, then by timeline, file and position on one server, by GTIDs across servers."""
        if not isinstance(other, BinlogOffset) or other.flavor != self.flavor:
            return Ordering.DIVERGED
        if self.generation != other.generation:
            return Ordering.BEFORE if self.generation < other.generation else Ordering.AFTER
        if self.timeline == other.timeline and self.server == other.server:
            mine, theirs = (self.file_number, self.pos), (other.file_number, other.pos)
            if mine == theirs:
                return Ordering.EQUAL
            return Ordering.BEFORE if mine < theirs else Ordering.AFTER
        return self._compare_gtids(other)

    def counted_as(self, standing: BinlogOffset) -> BinlogOffset:
        """Return this place of the log as it is now, in the timeline and generation in which a checkpoint counts."""
        return replace(self, timeline=standing.timeline, generation=standing.generation)

    def on_new_log(self, standing: BinlogOffset) -> BinlogOffset:
        """Return this place of a log that replaced the one of a checkpoint: behind it, and above all its versions."""
        return replace(self, timeline=standing.timeline + 1, generation=standing.generation + 1, prepared=())

    def same_gtids(self, other: BinlogOffset) -> bool:
        """Return whether exactly the same transactions were executed at both places; False where GTIDs do not show."""
        return self.flavor == other.flavor and self._compare_gtids(other) is Ordering.EQUAL

    def _compare_gtids(self, other: BinlogOffset) -> Ordering:
        if not self.knows_gtids or not other.knows_gtids:
            return Ordering.DIVERGED
        mine: MysqlGtidSet | MariadbGtidPosition
        theirs: MysqlGtidSet | MariadbGtidPosition
        if self.flavor == "mariadb":
            mine, theirs = MariadbGtidPosition.parse(self.gtids), MariadbGtidPosition.parse(other.gtids)
            has, had = mine.contains(theirs), theirs.contains(mine)
        else:
            mine, theirs = MysqlGtidSet.parse(self.gtids), MysqlGtidSet.parse(other.gtids)
            has, had = mine.contains(theirs), theirs.contains(mine)
        if has and had:
            return Ordering.EQUAL
        if has:
            return Ordering.AFTER
        return Ordering.BEFORE if had else Ordering.DIVERGED

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"
