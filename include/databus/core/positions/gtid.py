"""GTID sets of MySQL and GTID positions of MariaDB, as values.

Text forms: MySQL "uuid:1-5:7,uuid2:1", from 8.3 on with tags, "uuid:1-5:tag:1-3:7:tag2:1" (MySQL 8.4 manual, "GTID
Format and Storage"); MariaDB "domain-server-sequence,…" (Knowledge Base, "Global Transaction ID").
Numbers under a tag are counted for themselves: they are kept under the key "uuid:tag".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from databus.core.errors.source import OffsetInvalidError

_UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_TAG = re.compile(r"^[a-z_][a-z0-9_]{0,31}$")
_INTERVAL = re.compile(r"^(?P<first>[0-9]+)(-(?P<last>[0-9]+))?$")
_NUMBER = re.compile(r"^[0-9]+$")

Interval = tuple[int, int]
"""First and last sequence number, both inclusive."""


def _merge(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    merged: list[list[int]] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return tuple((a, b) for a, b in merged)


@dataclass(frozen=True)
class MysqlGtidSet:
    """A set of MySQL GTIDs; holes are kept, never collapsed.

    Attributes:
        intervals: per source ("uuid" or "uuid:tag") the sorted, disjoint, inclusive intervals.
    """

    intervals: Mapping[str, tuple[Interval, ...]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> MysqlGtidSet:
        """Read the server's text form, e.g. the value of @@gtid_executed.

        Raises:
            OffsetInvalidError: the text is not a GTID set.
        """
        found: dict[str, list[Interval]] = {}
        for chunk in filter(None, (c.strip() for c in text.replace("\n", "").split(","))):
            uuid, _, rest = chunk.partition(":")
            source = uuid = uuid.strip().lower()
            bare_tag = False
            if not _UUID.match(uuid) or not rest:
                raise _bad(chunk)
            for part in (p.strip() for p in rest.split(":")):
                if _TAG.match(part.lower()):
                    if bare_tag:
                        raise _bad(chunk)
                    source, bare_tag = f"{uuid}:{part.lower()}", True
                    continue
                interval = _INTERVAL.match(part)
                if not interval:
                    raise _bad(chunk)
                low, high = int(interval["first"]), int(interval["last"] or interval["first"])
                if low < 1 or high < low:
                    raise _bad(chunk)
                found.setdefault(source, []).append((low, high))
                bare_tag = False
            if bare_tag:  # "uuid:tag" without a number would silently be the empty set
                raise _bad(chunk)
        return cls({source: _merge(parts) for source, parts in sorted(found.items())})

    def add(self, source: str, sequence: int) -> MysqlGtidSet:
        """Return the set with one more transaction."""
        return self.union(MysqlGtidSet({source: ((sequence, sequence),)}))

    def union(self, other: MysqlGtidSet) -> MysqlGtidSet:
        """Return all transactions of either set."""
        both = {
            source: _merge((*self.intervals.get(source, ()), *other.intervals.get(source, ())))
            for source in {*self.intervals, *other.intervals}
        }
        return MysqlGtidSet(dict(sorted(both.items())))

    def minus(self, other: MysqlGtidSet) -> MysqlGtidSet:
        """Return the transactions of this set that the other lacks."""
        left: dict[str, tuple[Interval, ...]] = {}
        for source, mine in self.intervals.items():
            rest: list[Interval] = list(mine)
            for low, high in other.intervals.get(source, ()):
                cut: list[Interval] = []
                for first, last in rest:
                    if last < low or first > high:
                        cut.append((first, last))
                        continue
                    if first < low:
                        cut.append((first, low - 1))
                    if last > high:
                        cut.append((high + 1, last))
                rest = cut
            if rest:
                left[source] = tuple(rest)
        return MysqlGtidSet(left)

    def contains(self, other: MysqlGtidSet) -> bool:
        """Return whether every transaction of the other set is in this one."""
        return not other.minus(self).intervals

    def __str__(self) -> str:
        """Return the server's text form: each uuid once, what has no tag first, then tag by tag."""
        chunks: list[str] = []
        last = ""
        for source in sorted(self.intervals):
            parts = ":".join(f"{a}" if a == b else f"{a}-{b}" for a, b in self.intervals[source])
            uuid, _, tag = source.partition(":")
            if tag and uuid == last:
                chunks[-1] += f":{tag}:{parts}"
            else:
                chunks.append(f"{source}:{parts}")
            last = uuid
        return ",".join(chunks)


@dataclass(frozen=True)
class MariadbGtidPosition:
    """A MariaDB GTID position: the last transaction of each replication domain.

    Attributes:
        domains: domain id → (server id, sequence number).
    """

    domains: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> MariadbGtidPosition:
        """Read the server's text form, e.g. the value of @@gtid_binlog_pos.

        Raises:
            OffsetInvalidError: the text is not a GTID position.
        """
        domains: dict[int, tuple[int, int]] = {}
        for chunk in filter(None, (c.strip() for c in text.split(","))):
            parts = chunk.split("-")
            if len(parts) != 3 or not all(_NUMBER.match(p) for p in parts):
                raise _bad(chunk)
            domain, server, sequence = map(int, parts)
            if domain in domains:
                raise _bad(chunk)
            domains[domain] = (server, sequence)
        return cls(dict(sorted(domains.items())))

    def add(self, domain: int, server: int, sequence: int) -> MariadbGtidPosition:
        """Return the position after one more transaction of a domain."""
        return MariadbGtidPosition(dict(sorted({**self.domains, domain: (server, sequence)}.items())))

    def contains(self, other: MariadbGtidPosition) -> bool:
        """Return whether this position is at or past the other in every domain of the other."""
        return all(d in self.domains and self.domains[d][1] >= seq for d, (_, seq) in other.domains.items())

    def __str__(self) -> str:
        return ",".join(f"{d}-{server}-{seq}" for d, (server, seq) in self.domains.items())


def _bad(text: str) -> OffsetInvalidError:
    return OffsetInvalidError(
        f"{text!r} is not a GTID",
        hint="MySQL: uuid:1-5[:7-9],…  MariaDB: domain-server-sequence,…  (see @@gtid_executed, @@gtid_binlog_pos).",
    )
