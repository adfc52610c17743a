"""XA transactions in the log: the first phase with its rows, the second far behind it, and where the rows then belong.

Wire format: MySQL 8.0 source documentation, "XA_prepare_log_event" (one_phase u8, format id u32, lengths of gtrid and
bqual u32 each, then both); MariaDB Knowledge Base, "Gtid_event" (flags 0x40 prepared, 0x80 completed). Both servers log
the second phase as the statement `XA COMMIT X'gtrid',X'bqual',format` or `XA ROLLBACK …` of a transaction of its own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.binlog.decoding.table_batch import Transactions
from databus.binlog.kernels import walk as w
from databus.binlog.log.walk import LoggedStatement, Walk, XaPhase
from databus.core.errors.source import DecodeError

if TYPE_CHECKING:
    from databus.binlog.log.walker import Walker

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_SECOND_PHASE = re.compile(r"XA (COMMIT|ROLLBACK) X'([0-9a-f]*)',X'([0-9a-f]*)',(\d+)\s*", re.IGNORECASE)
_HEAD = struct.Struct("<BIII")


@dataclass(frozen=True)
class CommitPlace:
    """Commit place of an XA transaction: the place, name and time that the rows of its prepare take.

    Attributes:
        file: log file.
        start_pos: file position of the commit's first byte.
        end_pos: file position after it.
        gtid: GTID of the commit, "" where there is none.
        ts_ms: commit time, ms since the epoch.
        server_id: server that wrote it.
    """

    file: str
    start_pos: int
    end_pos: int
    gtid: str
    ts_ms: int
    server_id: int

    @classmethod
    def of(cls, log: Transactions, index: int) -> CommitPlace:
        """Return the place of one transaction."""
        return cls(
            log.file,
            int(log.start_pos[index]),
            int(log.end_pos[index]),
            str(log.gtid[index].as_py()),
            int(log.ts_ms[index]),
            int(log.server_id[index]),
        )

    @property
    def transactions(self) -> Transactions:
        """The commit as the only transaction of a segment."""
        one = (np.array([n], np.int64) for n in (self.start_pos, self.end_pos, self.ts_ms, self.server_id))
        start, end, ts_ms, server = one
        return Transactions(self.file, start, end, pa.array([self.gtid], pa.string()), ts_ms, server)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CommitPlace:
        """Read what `to_json` wrote."""
        return cls(**data)


PreparedRows = CommitPlace | Literal["inside", "elsewhere"]
"""Where the rows of XA COMMITs in a stretch of events are: inside it, or elsewhere. A place says that the stretch is
one prepared transaction, whose rows belong there."""


def parse_prepare(body: bytes) -> tuple[str, bool]:
    """Read an XA_PREPARE event's body.

    Returns:
        The xid, and whether the event commits at once (ONE PHASE).

    Raises:
        ValueError: its lengths do not fit.
    """
    if len(body) < _HEAD.size:
        raise ValueError("the body is cut short")
    one_phase, form, gtrid, bqual = _HEAD.unpack_from(body)
    if one_phase > 1 or gtrid > 64 or bqual > 64 or len(body) != _HEAD.size + gtrid + bqual:
        raise ValueError(f"lengths of {gtrid} and {bqual} bytes do not fit")
    data = body[_HEAD.size :]
    return f"X'{data[:gtrid].hex()}',X'{data[gtrid:].hex()}',{form}", bool(one_phase)


def parse_second_phase(sql: str) -> tuple[XaPhase, str] | None:
    """Read an `XA COMMIT` or `XA ROLLBACK` statement in the form in which servers log it; None for any other."""
    match = _SECOND_PHASE.fullmatch(sql)
    if match is None:
        return None
    phase = XaPhase.COMMIT if match[1].upper() == "COMMIT" else XaPhase.ROLLBACK
    return phase, f"X'{match[2].lower()}',X'{match[3].lower()}',{match[4]}"


def answer_commits(walk: Walk, where: str) -> Walk:
    """Give the rows of prepares inside a walk to their XA COMMITs, and drop those that no XA COMMIT follows.

    Raises:
        DecodeError: a commit's prepare lies before the walk.
    """
    prepared: dict[str, Ints] = {}
    moved: list[Ints] = []
    for event in walk.xa:
        if event.phase is XaPhase.PREPARE:
            prepared[event.xid] = event.rows
        elif event.phase is XaPhase.ROLLBACK:
            prepared.pop(event.xid, None)
        elif event.xid not in prepared:
            raise DecodeError(
                f"{where}:{int(walk.transactions.start_pos[event.transaction])}: XA COMMIT {event.xid} "
                "belongs to an XA PREPARE that lies before these events",
                hint="Read from a place before the XA PREPARE.",
            )
        else:
            lines = prepared.pop(event.xid).copy()
            lines[:, w.R_TRANSACTION] = event.transaction
            moved.append(lines)
    if not any(len(lines) for lines in moved):
        return walk
    rows = np.concatenate((walk.rows, *moved))
    order = np.argsort(rows[:, w.R_TRANSACTION], kind="stable")
    return replace(walk, rows=rows[order], statements=_replaced(walk.statements, order))


def _replaced(statements: Sequence[LoggedStatement], order: Ints) -> list[LoggedStatement]:
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return [replace(s, row_event=int(place[s.row_event])) for s in statements]


def walk_prepared(walker: Walker, data: Bytes, xid: str | None = None) -> Walk:
    """Walk over the events of one prepared transaction, whose rows count because its XA COMMIT is known.

    Args:
        walker: made with `prepared=True`.
        data: FORMAT_DESCRIPTION and the transaction, no more.
        xid: the transaction that it must be; None for any.

    Raises:
        DecodeError: it is something else.
    """
    walk = walker.walk(data)
    found = walk.xa[0] if len(walk.xa) == len(walk.transactions) == 1 else None
    whole = walk.consumed_bytes == len(data) and not walk.open
    if not whole or found is None or found.phase is not XaPhase.PREPARE or xid not in (None, found.xid):
        raise DecodeError(
            f"{walker.file}:{walker.base_pos}: the events there are not the XA PREPARE of {xid or 'one transaction'}"
        )
    return walk
