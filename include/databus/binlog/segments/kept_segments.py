"""Kept segments: raw bytes of one server's log, shared by all flows that read it, whatever tables they capture.

Layout: `<root>/.kept/<server>/<file>.<start>.events` is a segment, the `.json` beside it describes it and is written
last and deleted first: a segment without a description is not used. Two segments
follow each other when the second begins where the first ends, or begins the next file with exactly the GTIDs
that were executed at the end of the first. So nothing can lie between, also after the server has purged its log.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from databus.binlog.log.events import HEADER_BYTES, parse_header
from databus.binlog.segments.retention import KeepLimit
from databus.binlog.segments.segment import RangeIndex, Segment
from databus.binlog.segments.store_space import store_full
from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.errors.source import SourceUnavailableError
from databus.core.positions.gtid import MariadbGtidPosition, MysqlGtidSet
from databus.core.positions.offsets import BinlogOffset
from databus.core.private_files import private_file, private_folder, write_private
from databus.core.stored_form import Form

log = logging.getLogger(__name__)

KEPT_SEGMENT = Form(
    "kept segment",
    "flavor server file start_pos end_pos header_bytes size_bytes transactions gtids_before gtids_after min_ts_ms "
    "max_ts_ms kept_at",
)

FOLDER = ".kept"
"""Beside the flows' own folders; no flow can have this name."""

_MAGIC_BYTES = 4
_ORPHAN_AGE_S = 3600.0
"""A segment without a description is left from a crash when it is older than this; else it is being written."""


@dataclass(frozen=True)
class KeptSegment:
    """Kept segment of the log.

    Attributes:
        flavor: "mysql" or "mariadb".
        server: server_uuid or server_id.
        file: log file.
        start_pos: file position of its first event after the FORMAT_DESCRIPTION event.
        end_pos: file position after its last transaction.
        header_bytes: length of the FORMAT_DESCRIPTION event that it starts with.
        size_bytes: length of the segment.
        transactions: number of transactions.
        gtids_before: GTIDs executed at `start_pos`.
        gtids_after: GTIDs executed at `end_pos`.
        min_ts_ms: earliest commit time, ms since the epoch.
        max_ts_ms: latest commit time.
        kept_at: when it was written, seconds since the epoch.
    """

    flavor: str
    server: str
    file: str
    start_pos: int
    end_pos: int
    header_bytes: int
    size_bytes: int
    transactions: int
    gtids_before: str
    gtids_after: str
    min_ts_ms: int
    max_ts_ms: int
    kept_at: float

    @property
    def name(self) -> str:
        """File name without its ending."""
        return f"{self.file}.{self.start_pos:020d}"

    @property
    def begins_file(self) -> bool:
        """Return whether nothing of its log file lies before it."""
        return self.start_pos == _MAGIC_BYTES + self.header_bytes

    @property
    def number(self) -> int:
        """Number of its log file."""
        return int(self.file.rpartition(".")[2])

    @property
    def start(self) -> BinlogOffset:
        """Start of the segment; the file's beginning when nothing lies before it."""
        pos = _MAGIC_BYTES if self.begins_file else self.start_pos
        return BinlogOffset(self.file, pos, self.gtids_before, self.flavor, self.server)

    @property
    def end(self) -> BinlogOffset:
        """End of the segment."""
        return BinlogOffset(self.file, self.end_pos, self.gtids_after, self.flavor, self.server)

    def covers(self, other: KeptSegment) -> bool:
        """Return whether the other segment's bytes are in this one; same places of a log that was reset are not."""
        if self.file != other.file or self.start_pos > other.start_pos or self.end_pos < other.end_pos:
            return False
        kind = MysqlGtidSet if self.flavor == "mysql" else MariadbGtidPosition
        first, before, after, last = (
            kind.parse(g) for g in (self.gtids_before, other.gtids_before, other.gtids_after, self.gtids_after)
        )
        return before.contains(first) and last.contains(after)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return KEPT_SEGMENT.write(asdict(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KeptSegment | None:
        """Read what `to_json` wrote; None for another version, which is named, or damage: it can be dumped again."""
        try:
            return cls(**KEPT_SEGMENT.read(data))
        except CheckpointFormatError as error:
            log.warning("a kept segment is not used: %s %s", error.message, error.hint)
        except TypeError:
            pass
        return None


class KeptSegments:
    """The kept segments of one server."""

    def __init__(self, root: str, server: str):
        """Address them; nothing is created yet.

        Args:
            root: the segment store's folder or fsspec URI.
            server: server_uuid or server_id.
        """
        import fsspec.core

        self._files, path = fsspec.core.url_to_fs(root)
        protocol = self._files.protocol
        self._local = "file" in (protocol if isinstance(protocol, tuple) else (protocol,))
        self._home = f"{path.rstrip('/')}/{FOLDER}/{server}"
        self._read: dict[tuple[str, str], KeptSegment] = {}

    def list(self) -> Sequence[KeptSegment]:
        """Return what is kept, in log order.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        try:
            self._files.invalidate_cache(self._home)
            entries = [e for e in self._files.ls(self._home, detail=True) if str(e["name"]).endswith(".json")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error) from error
        found = {}
        for entry in entries:
            version = (str(entry["name"]), str(entry.get("mtime") or entry.get("created") or entry.get("ETag")))
            segment = self._read.get(version) or self._load(version[0])
            if segment is not None:
                found[version] = segment
        self._read = found
        return sorted(found.values(), key=lambda s: (s.number, s.start_pos))

    def keep(self, folder: Path, index: RangeIndex) -> None:
        """Keep the segments of a staged range, each whole or not at all; those that are kept already stay.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        end = index.range.end
        assert isinstance(end, BinlogOffset)  # noqa: S101 - a range of a binlog
        known = self.list()
        # What an XA PREPARE holds lies in the raw segments, too.
        raw = [segment for segment in index.segments if segment.commits is None]
        for number, segment in enumerate(raw):
            following = raw[number + 1].gtids_before if number + 1 < len(raw) else end.gtids
            described = _described(segment, end, following)
            if any(old.covers(described) for old in known):
                continue
            try:
                self._put(folder / segment.name, described)
            except OSError as error:
                raise self._unusable(error) from error

    def address(self, segment: KeptSegment) -> str:
        """Return where a segment is."""
        return str(self._files.unstrip_protocol(f"{self._home}/{segment.name}.events"))

    def open(self, segment: KeptSegment) -> BinaryIO:
        """Open a segment for reading.

        Raises:
            FileNotFoundError: it was pruned.
            SourceUnavailableError: the store cannot be used.
        """
        try:
            opened: BinaryIO = self._files.open(f"{self._home}/{segment.name}.events", "rb")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._unusable(error) from error
        return opened

    def created_s(self, segment: KeptSegment) -> int:
        """Return when the server began the log file of a segment, seconds since the epoch; 0 when it was pruned."""
        try:
            with self.open(segment) as data:
                header = data.read(HEADER_BYTES)
        except FileNotFoundError:
            return 0
        return parse_header(header).timestamp_s if len(header) == HEADER_BYTES else 0

    def forget(self, segments: Iterable[KeptSegment]) -> None:
        """Delete segments, but none that another flow has written under their names since they were listed.

        Safe to repeat. A reader that has one open keeps it.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        try:
            for segment in segments:
                if self._load(f"{self._home}/{segment.name}.json") == segment:
                    self._delete(segment)
        except OSError as error:
            raise self._unusable(error) from error

    def prune(self, limit: KeepLimit, now: float | None = None) -> Sequence[KeptSegment]:
        """Delete what is over the limit and what a crash left half; return what was deleted.

        A reader that has a segment open keeps it; one that comes too late reads from the server.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        now = time.time() if now is None else now
        gone = limit.surplus(self.list(), now)
        try:
            for segment in gone:
                self._delete(segment)
            self._remove_orphans(now)
        except OSError as error:
            raise self._unusable(error) from error
        return gone

    def _put(self, source: Path, segment: KeptSegment) -> None:
        data, text = f"{self._home}/{segment.name}.events", json.dumps(segment.to_json()).encode()
        if not self._local:
            self._files.put_file(str(source), data)
            self._files.pipe_file(f"{self._home}/{segment.name}.json", text)
            return
        home = Path(self._home)
        private_folder(home)
        # What stood there described other bytes.
        (home / f"{segment.name}.json").unlink(missing_ok=True)
        unfinished = home / f".{uuid.uuid4().hex}"
        try:
            os.link(source, unfinished)
        except OSError:  # another file system, or one without links
            import shutil

            with private_file(unfinished) as copy, source.open("rb") as original:
                shutil.copyfileobj(original, copy, 4 << 20)
        unfinished.rename(data)
        write_private(unfinished, text)
        unfinished.rename(home / f"{segment.name}.json")

    def _load(self, path: str) -> KeptSegment | None:
        try:
            found = json.loads(self._files.cat_file(path))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        except OSError as error:
            raise self._unusable(error) from error
        return KeptSegment.from_json(found) if isinstance(found, dict) else None

    def _delete(self, segment: KeptSegment) -> None:
        for ending in ("json", "events"):  # in this order: what is described is there
            self._remove(f"{self._home}/{segment.name}.{ending}")

    def _remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(path)

    def _remove_orphans(self, now: float) -> None:
        with contextlib.suppress(FileNotFoundError):
            entries = {str(e["name"]): e for e in self._files.ls(self._home, detail=True, refresh=True)}
            for path, entry in entries.items():
                described = path.removesuffix(".events") + ".json" in entries or path.endswith(".json")
                written = entry.get("mtime") or entry.get("created")
                age = now - written if isinstance(written, (int, float)) else 0.0
                if not described and age > _ORPHAN_AGE_S:
                    self._remove(path)

    def _unusable(self, error: OSError) -> SourceUnavailableError:
        return store_full(self._home, error) or SourceUnavailableError(
            f"the kept segments in {self._home} cannot be used: {error}",
            hint="Check space and rights there, or unset DATABUS_SEGMENT_KEEP.",
        )


def servers_with_kept_segments(root: str) -> Sequence[str]:
    """Return the identities of all servers of which segments are kept."""
    import fsspec.core

    files, path = fsspec.core.url_to_fs(root)
    try:
        found: Iterable[str] = files.ls(f"{path.rstrip('/')}/{FOLDER}", detail=False)
    except FileNotFoundError:
        return []
    return sorted(str(name).rstrip("/").rpartition("/")[2] for name in found)


def _described(segment: Segment, end: BinlogOffset, gtids_after: str) -> KeptSegment:
    log_bytes = segment.end_pos - segment.start_pos
    return KeptSegment(
        flavor=end.flavor,
        server=end.server,
        file=segment.file,
        start_pos=segment.start_pos,
        end_pos=segment.end_pos,
        header_bytes=segment.size_bytes - log_bytes,
        size_bytes=segment.size_bytes,
        transactions=segment.transactions,
        gtids_before=segment.gtids_before,
        gtids_after=gtids_after,
        min_ts_ms=segment.min_ts_ms,
        max_ts_ms=segment.max_ts_ms,
        kept_at=time.time(),
    )
