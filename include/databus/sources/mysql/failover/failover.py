"""Failover: where reading goes on when a checkpoint is of another server than the connection points to.

Log files and positions mean nothing on another server; GTIDs do. The new server's log is walked from the last file that
holds nothing undelivered before it, to the last transaction that was delivered already. What lies behind that one is
undelivered. What lies before it and is undelivered is a hole, which the former server's parallel writers left and which
is delivered now, or an errant transaction, which has no place in the former order and stops the flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from databus.binlog.log.transactions.executed_gtids import DeliveredGtids
from databus.binlog.server.stretches import FileStart
from databus.core.errors.source import OffsetPurgedError, SourceDivergedError
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.failover.wait import MariadbWaiting, MysqlWaiting, Waiting
from databus.sources.mysql.positions import MysqlPositions
from databus.sources.mysql.server import MysqlServer, ServerLogFile

_DECIDE = (
    "Nothing was skipped. Compare these transactions with the sinks (SHOW BINLOG EVENTS), then start a flow anew with "
    "start='gtid:…', or point the connection at a server that has the former one's history."
)


@dataclass(frozen=True)
class Resumption:
    """Resumption after a failover: how a checkpoint of a former server is read on.

    Attributes:
        former: the checkpoint.
        place: where the new server's log is read from, on a timeline of its own; carries the checkpoint's GTIDs.
        until: end of the last delivered transaction behind `place`: up to here each transaction is looked up in the
            checkpoint's GTIDs. None when nothing delivered lies behind `place`.
    """

    former: BinlogOffset
    place: BinlogOffset
    until: BinlogOffset | None = None

    @property
    def delivered(self) -> DeliveredGtids | None:
        """Transactions to leave out up to `until`."""
        return DeliveredGtids(self.former.flavor, self.former.gtids) if self.until else None

    def __str__(self) -> str:
        former, place = self.former, self.place
        return (
            f"failover from server {former.server} at {former} (timeline {former.timeline}) "
            f"to server {place.server} at {place} (timeline {place.timeline})"
        )


@dataclass(frozen=True)
class _LoggedTransaction:
    """A transaction of the new server's log."""

    gtid: str
    file: str
    start_pos: int
    end_pos: int


class MysqlFailover:
    """Maps checkpoints of former servers to places of this server's log; changes nothing."""

    def __init__(self, server: MysqlServer, positions: MysqlPositions):
        self._server, self._positions = server, positions
        self._known: Resumption | None = None

    def concerns(self, offset: BinlogOffset) -> bool:
        """Return whether an offset is of another server."""
        return bool(offset.server) and offset.server != self._server.identity

    def resume(self, former: BinlogOffset) -> Resumption:
        """Return where reading goes on.

        Raises:
            SourceDivergedError: this server or the checkpoint has no GTIDs; this server
                lacks delivered transactions, or has errant ones; names them.
            OffsetPurgedError: undelivered transactions were deleted here; names them.
        """
        if self._known is None or self._known.former != former:
            self._known = self._resume(former)
        return self._known

    def _resume(self, former: BinlogOffset) -> Resumption:
        self._check_gtids_are_on(former)
        if former.flavor == "mysql":
            delivered = self._mysql_delivered_here(former)
            start = self._last_file(lambda gtids: _mysql(former.gtids).contains(_mysql(gtids)))
            waiting: Waiting = MysqlWaiting(delivered.minus(_mysql(start.gtids)))
        else:
            position = MariadbGtidPosition.parse(former.gtids)
            self._check_mariadb_has(position)
            start = self._last_file(lambda gtids: position.contains(MariadbGtidPosition.parse(gtids)))
            self._check_mariadb_start(former, start)
            waiting = MariadbWaiting(position, MariadbGtidPosition.parse(start.gtids))
        return self._locate(former, start, waiting)

    def _locate(self, former: BinlogOffset, start: BinlogOffset, waiting: Waiting) -> Resumption:
        place = replace(
            former,
            file=start.file,
            pos=start.pos,
            server=self._server.identity,
            timeline=former.timeline + 1,
            created_s=start.created_s,
        )
        if waiting.done:
            return Resumption(former, place)
        delivered, between = DeliveredGtids(former.flavor, former.gtids), []
        for transaction in self._transactions(start.file):
            if fault := waiting.fault(transaction.gtid):
                raise self._diverged(f"at {transaction.file}:{transaction.start_pos} {fault}")
            if transaction.gtid not in delivered:
                between.append(transaction)
                continue
            waiting.passed(transaction.gtid)
            if waiting.done:
                end = replace(place, file=transaction.file, pos=transaction.end_pos, created_s=0)
                if not between:
                    return Resumption(former, end)
                self._check_errant(former, between)
                return Resumption(former, replace(end, file=between[0].file, pos=between[0].start_pos), end)
        raise self._diverged(
            f"its log does not hold {waiting}, which was delivered from server {former.server}",
            "A replica that is to take over needs log_replica_updates (log_slave_updates) ON.",
        )

    def _check_errant(self, former: BinlogOffset, between: list[_LoggedTransaction]) -> None:
        """Refuse undelivered transactions before delivered ones, unless the former server may have had them later."""
        errant = [t for t in between if not self._may_be_a_hole(former, t.gtid)]
        if errant:
            names = _listed([t.gtid or f"(no GTID) {t.file}:{t.start_pos}" for t in errant])
            raise self._diverged(
                f"errant transactions lie before others that were delivered from server {former.server} and never were "
                f"in its order: {names} (the first at {errant[0].file}:{errant[0].start_pos})"
            )

    def _may_be_a_hole(self, former: BinlogOffset, gtid: str) -> bool:
        if not gtid:
            return False
        if former.flavor == "mysql":
            origin = gtid.partition(":")[0]  # whatever the tag: a session may have begun a new one
            known = {source.partition(":")[0] for source in _mysql(former.gtids).intervals}
            return origin != self._server.identity and origin in known
        domain, origin, _ = gtid.split("-")
        return origin != self._server.identity and int(domain) in MariadbGtidPosition.parse(former.gtids).domains

    def _mysql_delivered_here(self, former: BinlogOffset) -> MysqlGtidSet:
        delivered = _mysql(former.gtids)
        executed = _mysql(self._server.head().gtids)
        purged = _mysql(str(self._server.query("SELECT @@GLOBAL.gtid_purged")[0][0]))
        if lacking := delivered.minus(executed).intervals:
            raise self._lacks(former, str(MysqlGtidSet(lacking)))
        if gone := purged.minus(delivered).intervals:
            raise self._purged(str(MysqlGtidSet(gone)))
        return delivered.minus(purged)

    def _check_mariadb_has(self, position: MariadbGtidPosition) -> None:
        here = MariadbGtidPosition.parse(self._server.head().gtids).domains
        lacking = [
            f"{domain}-{origin}-{sequence} (it has {_gtid(domain, here.get(domain))})"
            for domain, (origin, sequence) in position.domains.items()
            if domain not in here or here[domain][1] < sequence
        ]
        if lacking:
            raise self._lacks(None, ", ".join(lacking))

    def _check_mariadb_start(self, former: BinlogOffset, start: BinlogOffset) -> None:
        ours = MariadbGtidPosition.parse(former.gtids).domains
        for domain, (origin, sequence) in MariadbGtidPosition.parse(start.gtids).domains.items():
            known = ours.get(domain, (origin, 0))
            if known[1] < sequence:
                raise self._purged(f"{domain}-…-{known[1] + 1} to {domain}-{origin}-{sequence}")
            if known[1] == sequence and known[0] != origin:
                raise self._diverged(f"it has {domain}-{origin}-{sequence} in place of {domain}-{known[0]}-{sequence}")

    def _last_file(self, before: Callable[[str], bool]) -> BinlogOffset:
        """Return the start of the last file before which only delivered transactions lie; else of the first file."""
        files = self._server.log_files()
        low, high = 0, len(files) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if before(self._start(files[middle]).gtids) else (low, middle - 1)
        return self._start(files[low])

    def _start(self, file: ServerLogFile) -> BinlogOffset:
        return self._positions.file_start(file)

    def _transactions(self, file: str) -> Iterator[_LoggedTransaction]:
        for piece in self._positions.read(file):
            if isinstance(piece, FileStart):
                continue
            log = piece.transactions
            for gtid, begin, end in zip(
                log.gtid.to_pylist(), log.start_pos.tolist(), log.end_pos.tolist(), strict=True
            ):
                yield _LoggedTransaction(gtid, log.file, begin, end)

    def _check_gtids_are_on(self, former: BinlogOffset) -> None:
        server = self._server
        if former.flavor != server.flavor:
            why = f"the checkpoint is of {former.flavor}, this is {server.flavor}"
        elif not former.gtids:
            why = f"the checkpoint {former} of server {former.server} has no GTIDs"
        elif server.flavor == "mysql" and (mode := server.variables("gtid_mode").get("gtid_mode", "OFF")) != "ON":
            why = f"this server has gtid_mode={mode}"
        else:
            return
        raise SourceDivergedError(
            f"{server.place}: the checkpoint is of another server, {former.server}, and this is {server.identity}; "
            f"a failover is followed by GTID only, and {why}",
            hint="Point the connection at the former server. Failover needs gtid_mode=ON (MySQL) on both servers.",
        )

    def _lacks(self, former: BinlogOffset | None, gtids: str) -> SourceDivergedError:
        of = f" from server {former.server}" if former else ""
        return self._diverged(
            f"it lacks transactions that were delivered{of}: {gtids}",
            "Wait if it still applies its relay log: the next attempt goes on. Else the former server's last "
            "transactions were lost in the failover, and the sinks hold more than the new server.",
        )

    def _purged(self, gtids: str) -> OffsetPurgedError:
        return OffsetPurgedError(
            f"{self._server.place}: server {self._server.identity} no longer has the transactions {gtids} in its log, "
            "and they were not delivered",
            hint=f"Restore its log, or take a new snapshot. {_DECIDE}",
        )

    def _diverged(self, what: str, hint: str = _DECIDE) -> SourceDivergedError:
        return SourceDivergedError(
            f"{self._server.place}: server {self._server.identity} cannot take over: {what}", hint=hint
        )


def _mysql(gtids: str) -> MysqlGtidSet:
    return MysqlGtidSet.parse(gtids)


def _gtid(domain: int, last: tuple[int, int] | None) -> str:
    return f"{domain}-{last[0]}-{last[1]}" if last else "nothing of this domain"


def _listed(gtids: list[str]) -> str:
    """Return at most 20 of them, and how many more there are."""
    more = f" and {len(gtids) - 20} more" if len(gtids) > 20 else ""
    return ", ".join(gtids[:20]) + more
