"""Places of a former server's log in the log that is read now, found by GTID: exactly, or not at all."""

from __future__ import annotations

from dataclasses import replace

from databus.core.errors.source import SourceDivergedError
from databus.core.positions.gtid import MariadbGtidPosition
from databus.core.positions.offsets import BinlogOffset
from databus.core.positions.replaced_logs import is_of_former_log, of_former_log
from databus.sources.mysql.positions import MysqlPositions
from databus.sources.mysql.server import MysqlServer

_ATTEMPTS = 3
"""A server that commits meanwhile moves its head past a set that was all it had executed."""


class FormerPlaces:
    """Finds places of former servers in this server's log; changes nothing."""

    def __init__(self, server: MysqlServer, positions: MysqlPositions):
        self._server, self._positions = server, positions
        self._known: dict[tuple[str, BinlogOffset, int], BinlogOffset] = {}

    def located(self, place: BinlogOffset, standing: BinlogOffset) -> BinlogOffset:
        """Return a place as one of the log that is read now.

        Args:
            place: of this server or of a former one.
            standing: where the flow stands; gives the server and the timeline on which its rows are read now.

        Returns:
            The place itself when it is of that server and timeline; else the one before which exactly the same
            transactions lie, on that timeline. XA transactions that were pending there stay so.

        Raises:
            SourceDivergedError: the place is of a log that was replaced since; the flow has not gone on at this server
                yet; there are no GTIDs; this server lacks transactions of the place, or logged others between them:
                names them.
            OffsetInvalidError: MySQL logged transactions of the place on both sides of any place of this log.
            OffsetPurgedError: the log that would show it was deleted here.
        """
        server = self._server
        if standing.server and standing.server != server.identity:
            raise SourceDivergedError(
                f"{server.place}: the flow stands at {standing} of server {standing.server}, and this is "
                f"{server.identity}: places are of the former server's log until the flow has gone on here",
                hint="Let one batch of the live flow take up the failover, then repeat this.",
            )
        if is_of_former_log(place, standing):
            raise of_former_log(f"{server.place}: the place {place}", standing)
        if not place.server or (place.server, place.timeline) == (standing.server, standing.timeline):
            return place
        key = (server.identity, place, standing.timeline)
        if key not in self._known:
            self._check_gtids(place)
            found = self._first(place) if not place.gtids else self._after(place)
            self._known[key] = replace(found.counted_as(standing), prepared=place.prepared)
        return self._known[key]

    def _after(self, place: BinlogOffset) -> BinlogOffset:
        if self._server.flavor == "mariadb":
            self._check_mariadb_has(place)
        for _ in range(_ATTEMPTS):
            found = self._positions.after_gtids(place.gtids)
            if found.same_gtids(place):
                return found
        raise self._cannot(
            place, f"at {found}, before the first transaction behind it, this server had executed {found.gtids}"
        )

    def _first(self, place: BinlogOffset) -> BinlogOffset:
        found = self._positions.earliest()
        if found.gtids or not found.knows_gtids:
            raise self._cannot(
                place, f"nothing was executed before it, and this log begins at {found} after {found.gtids or 'others'}"
            )
        return found

    def _check_gtids(self, place: BinlogOffset) -> None:
        server = self._server
        if place.flavor != server.flavor:
            raise self._cannot(place, f"it is of {place.flavor}, this is {server.flavor}")
        if not place.knows_gtids:
            raise self._cannot(place, "it has no GTIDs")
        if server.flavor == "mysql" and (mode := server.variables("gtid_mode").get("gtid_mode", "OFF")) != "ON":
            raise self._cannot(place, f"this server has gtid_mode={mode}")

    def _check_mariadb_has(self, place: BinlogOffset) -> None:
        here = MariadbGtidPosition.parse(self._server.head().gtids)
        if not here.contains(MariadbGtidPosition.parse(place.gtids)):
            raise self._cannot(place, f"this server has executed {here}, not {place.gtids}")

    def _cannot(self, place: BinlogOffset, why: str) -> SourceDivergedError:
        return SourceDivergedError(
            f"{self._server.place}: the place {place} of server {place.server} (timeline {place.timeline}, GTIDs "
            f"{place.gtids or 'none'}) cannot be found in the log of server {self._server.identity}: {why}",
            hint="Nothing was moved. Choose a range of which both ends lie behind the failover, or backfill from the "
            "former server by a flow of its own.",
        )
