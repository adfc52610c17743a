"""Named time zones for a server that was started without them, computed from Python's zone data."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from functools import cache

from tests.integration.test_decode_real import Server

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu")
"""A gap in spring and an overlap in autumn; gaps of half an hour; at midnight; none, at +05:45."""

_DAY = 86_400
_END = (1 << 31) - 1
"""TIMESTAMP's last second."""


@cache
def changes(zone: str) -> tuple[tuple[int, int, int], ...]:
    """Return (second, offset before, offset after) of each change of a zone's offset from 1970 to 2038."""
    tz = zoneinfo.ZoneInfo(zone)

    def offset(second: int) -> int:
        found = dt.datetime.fromtimestamp(second, tz).utcoffset()
        assert found is not None
        return int(found.total_seconds())

    found, after = [], offset(0)
    for midnight in range(0, _END - _DAY, _DAY):
        low, high = midnight, midnight + _DAY
        before, after = after, offset(high)
        if before == after:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == before else (low, middle)
        found.append((high, before, after))
    return tuple(found)


def load(server: Server) -> None:
    """Give the server the zones it lacks."""
    have = {str(row[0]) for row in server.run("SELECT Name FROM mysql.time_zone_name")}
    server.run("SET SESSION sql_log_bin=0")
    for zone in ZONES:
        if zone in have:
            continue
        server.run("INSERT INTO mysql.time_zone (Use_leap_seconds) VALUES ('N')")
        number = int(server.run("SELECT LAST_INSERT_ID()")[0][0])
        server.run("INSERT INTO mysql.time_zone_name VALUES (%s, %s)", (zone, number))
        known = changes(zone)
        first = known[0][1] if known else int(dt.datetime.now(zoneinfo.ZoneInfo(zone)).utcoffset().total_seconds())  # type: ignore[union-attr]
        offsets = sorted({first, *(after for _, _, after in known)})
        rows = ",".join(f"({number},{n},{value},0,'X{n}')" for n, value in enumerate(offsets))
        server.run(f"INSERT INTO mysql.time_zone_transition_type VALUES {rows}")
        rows = ",".join(
            f"({number},{moment},{offsets.index(after)})"
            for moment, after in [(-_END, first), *((m, a) for m, _, a in known)]
        )
        server.run(f"INSERT INTO mysql.time_zone_transition VALUES {rows}")
    server.run("SET SESSION sql_log_bin=1")
