"""Copies of prepared XA transactions that no place of the flow names any more."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence

from databus.binlog.segments.segment import pinned_name
from databus.binlog.segments.store import LEFT_AGE_S, PINS
from databus.binlog.segments.store_files import entries_of, name_of, unusable, written_at
from databus.core.errors.source import OffsetInvalidError
from databus.core.positions.offsets import BinlogOffset, Offset

_ENDING = ".prepared"
_DESCRIPTION = ".json"


class KeptPrepares:
    """The copies that one flow keeps of one server's prepared transactions."""

    def __init__(self, root: str, flow: str, server: str):
        """Address the store; nothing is read yet. Arguments as of `SegmentStore`."""
        import fsspec.core

        self._files, path = fsspec.core.url_to_fs(root)
        self._home, self._server = f"{path.rstrip('/')}/{flow}/{server}/{PINS}", server

    def old(self, now: float) -> Sequence[str]:
        """Return the names of copies that were written more than `LEFT_AGE_S` ago.

        Args:
            now: seconds since the epoch.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        names = ((name_of(entry), entry) for entry in entries_of(self._files, self._home))
        return [name for name, entry in names if name.endswith(_ENDING) and now - written_at(entry, now) > LEFT_AGE_S]

    def sweep(self, old: Sequence[str], places: Collection[Offset]) -> Sequence[str]:
        """Delete the copies among `old` that no range from one of the places on can need; return their names.

        Such a range needs what its start names, and what it prepares itself. So what a place names stays, and what
        lies behind one; where a place is of another server's log, all stays.

        Args:
            old: names of copies.
            places: from where the flow and its sinks go on.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        here = [place for place in places if isinstance(place, BinlogOffset) and place.server == self._server]
        if not here or len(here) < len(places):
            return []
        named = {pinned_name(prepared) for place in here for prepared in place.prepared}
        first = min((place.file_number, place.pos) for place in here)
        gone = [name for name in old if name not in named and _place(name, first) < first]
        try:
            for name in gone:
                for path in (f"{self._home}/{name}", f"{self._home}/{name}{_DESCRIPTION}"):
                    with contextlib.suppress(FileNotFoundError):
                        self._files.rm_file(path)
        except OSError as error:
            raise unusable(self._home, error) from error
        return gone


def _place(name: str, unknown: tuple[int, int]) -> tuple[int, int]:
    """Return file number and position that a copy is named by; `unknown` for a name that is no copy's."""
    file, _, pos = name.removesuffix(_ENDING).rpartition(".")
    try:
        return BinlogOffset(file, int(pos)).file_number, int(pos)
    except (OffsetInvalidError, ValueError):
        return unknown
