"""The folder of staged segments: a local folder by default, any fsspec URI on a cluster.

Layout: `<root>/<flow>/<server>/<file>.<pos>-<file>.<pos>/` holds the segment files of one range and `index.json`. A
range is staged in a folder beside it and moved at its end; the index is written last: a folder with an index is whole.
`<root>/<flow>/<server>/prepared/` keeps the events of XA transactions that are pending at the end of a range, and
beside each what its tables were at its place; `<root>/<flow>/<server>/chunks/` the chunks of a snapshot (`ChunkStore`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import tempfile
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from databus.binlog.schema_history.definitions import PinnedDefinition
from databus.binlog.segments.segment import FetchedPrepare, PinnedPrepare, RangeIndex, Segment, pinned_name
from databus.binlog.segments.store_files import entries_of, is_local, name_of, remove, unusable, written_at
from databus.core.errors.source import SourceUnavailableError
from databus.core.positions.offsets import BinlogOffset, OffsetRange, PreparedTransaction
from databus.core.private_files import private_folder, write_private
from databus.core.stored_form import Form

log = logging.getLogger(__name__)

PREPARED = Form("kept prepare", "xid definitions")

LEFT_AGE_S = 86_400.0
"""A range's folder that nobody planned is left from a kill when nothing was written in it for so long."""

_INDEX = "index.json"
PINS = "prepared"
"""Folder of the kept copies of prepared transactions."""

CHUNKS = "chunks"
"""Folder of the chunk files of a snapshot."""

_DESCRIPTION = ".json"
"""Ending of the file beside a kept prepare that names its xid and holds what its tables were."""


@dataclass(frozen=True)
class Staging:
    """A local folder that takes the segments of one range until it is published.

    Attributes:
        folder: local folder.
    """

    folder: Path

    def discard(self) -> None:
        """Delete the folder; safe to call twice."""
        shutil.rmtree(self.folder, ignore_errors=True)


class SegmentStore:
    """Segments of one flow and one server."""

    def __init__(self, root: str, flow: str, server: str):
        """Address the store; nothing is created yet.

        Args:
            root: folder or fsspec URI.
            flow: flow name; flows do not share segments, so that one may release what another still reads.
            server: server_uuid or server_id.
        """
        import fsspec.core

        self._files, path = fsspec.core.url_to_fs(root)
        self._local = is_local(self._files)
        self._home = f"{path.rstrip('/')}/{flow}/{server}"

    def stage(self) -> Staging:
        """Return a fresh local folder; beside the ranges when the store is local, so that publishing is one rename."""
        try:
            if not self._local:
                return Staging(Path(tempfile.mkdtemp(prefix="databus-segments-")))
            folder = Path(self._home) / f".staging-{uuid.uuid4().hex}"
            private_folder(folder)
        except OSError as error:
            raise self._unusable(error) from error
        return Staging(folder)

    def publish(self, staging: Staging, index: RangeIndex) -> None:
        """Make a staged range visible, whole or not at all; one that is there already stays."""
        target = self._folder(index.range)
        text = json.dumps(index.to_json(), separators=(",", ":"))
        try:
            if self._local:
                write_private(staging.folder / _INDEX, text.encode())
                if Path(target).is_dir():
                    shutil.rmtree(target)
                staging.folder.rename(target)
                return
            for segment in index.segments:
                self._files.put_file(str(staging.folder / segment.name), f"{target}/{segment.name}")
            self._files.pipe_file(f"{target}/{_INDEX}", text.encode())
        except OSError as error:
            raise self._unusable(error) from error
        finally:
            staging.discard()

    def find(self, planned: OffsetRange) -> RangeIndex | None:
        """Return the index of a staged range, None when it is not there whole."""
        folder = self._folder(planned)
        try:
            data: dict[str, Any] = json.loads(self._files.cat_file(f"{folder}/{_INDEX}"))
            index = RangeIndex.from_json(data)
            for segment in index.segments:
                if self._files.size(f"{folder}/{segment.name}") != segment.size_bytes:
                    return None
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as error:
            raise self._unusable(error) from error
        return index

    def address(self, index: RangeIndex, segment: Segment) -> str:
        """Return the URI under which every worker reads a segment."""
        return str(self._files.unstrip_protocol(f"{self._folder(index.range)}/{segment.name}"))

    def pin(self, pin: PinnedPrepare) -> None:
        """Keep the events of a prepared transaction and its tables until `unpin`; replaces a copy that is there."""
        target = f"{self._home}/{PINS}/{pin.path.name}"
        text = json.dumps(PREPARED.write({"xid": pin.xid, "definitions": [d.to_json() for d in pin.definitions]}))
        try:
            if self._local:
                private_folder(Path(target).parent)
                # The description first: a copy that is there has one, unless an earlier version wrote it.
                write_private(target + _DESCRIPTION, text.encode())
                pin.path.replace(target)
            else:
                self._files.pipe_file(target + _DESCRIPTION, text.encode())
                self._files.put_file(str(pin.path), target)
                pin.path.unlink()
        except OSError as error:
            raise self._unusable(error) from error

    def load_pin(self, prepared: PreparedTransaction, path: Path, *, named: bool = False) -> FetchedPrepare | None:
        """Copy the kept events of a prepared transaction to a local file; None when none are kept.

        Args:
            prepared: the transaction.
            path: the local file.
            named: whether the copy must name its xid, because the place may be of another server's log.
        """
        kept = f"{self._home}/{PINS}/{pinned_name(prepared)}"
        described = self._described(kept)
        if (described or named) and described.get("xid") != prepared.xid:
            return None
        try:
            self._files.get_file(kept, str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error
        definitions = described.get("definitions")  # an earlier version did not keep them
        known = None if definitions is None else tuple(PinnedDefinition.from_json(d) for d in definitions)
        return FetchedPrepare(prepared, known)

    def unpin(self, prepared: PreparedTransaction, *, named: bool = False) -> None:
        """Delete the kept events of a prepared transaction; safe when there are none. Arguments as of `load_pin`."""
        kept = f"{self._home}/{PINS}/{pinned_name(prepared)}"
        described = self._described(kept)
        if (described or named) and described.get("xid") != prepared.xid:
            return
        for path in (kept, kept + _DESCRIPTION):
            with contextlib.suppress(FileNotFoundError):
                self._files.rm_file(path)

    def _described(self, pin: str) -> Mapping[str, Any]:
        """Return what is written beside a kept prepare; empty when an earlier version kept it, or none is kept."""
        try:
            found = json.loads(self._files.cat_file(pin + _DESCRIPTION))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}
        except OSError as error:
            raise self._unusable(error) from error
        return PREPARED.read(found) if isinstance(found, dict) else {}

    def delete(self, planned: OffsetRange) -> None:
        """Delete a staged range; safe when it is not there. What cannot be deleted stays for `sweep`."""
        folder = self._folder(planned)
        try:
            if not self._local:
                self._files.rm(folder, recursive=True)
                return
            # A folder of files, and one per batch of a live flow: shutil.rmtree would look at each file several times.
            for file in list(Path(folder).iterdir()):
                file.unlink()
            Path(folder).rmdir()
        except FileNotFoundError:
            return
        except OSError as error:  # somebody writes there; the batch is committed, and nothing needs what is left
            log.warning("%s is not deleted whole, a later sweep does it: %s", folder, error)

    def forget(self) -> None:
        """Delete all ranges and kept prepares of this flow and server, under the flow's lease; safe to repeat.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        remove(self._files, self._home, self._home)

    def leftovers(self, now: float) -> Sequence[str]:
        """Return the folders of ranges, staged or published, in which nothing was written for `LEFT_AGE_S`.

        Whoever stages or reads without the lease (a dry run, a replay) is done by then.

        Args:
            now: seconds since the epoch.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        try:
            self._files.invalidate_cache(self._home)
            found = self._files.ls(self._home, detail=True)
            folders = [str(e["name"]).rstrip("/") for e in found if e["type"] == "directory"]
            ranges = [folder for folder in folders if not folder.endswith((f"/{PINS}", f"/{CHUNKS}"))]
            return [folder for folder in ranges if now - self._written_at(folder, now) > LEFT_AGE_S]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error) from error

    def sweep(self, leftovers: Sequence[str], planned: Collection[OffsetRange]) -> Sequence[str]:
        """Delete leftovers but those of ranges that are planned; only under the flow's lease. Return what is gone.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        gone = self.unplanned(leftovers, planned)
        for folder in gone:
            remove(self._files, folder, self._home)
        return gone

    def unplanned(self, leftovers: Sequence[str], planned: Collection[OffsetRange]) -> Sequence[str]:
        """Return the leftovers but those of ranges that are planned."""
        kept = {self._folder(wanted) for wanted in planned}
        return [folder for folder in leftovers if folder not in kept]

    def _written_at(self, folder: str, now: float) -> float:
        """Return when something was written in a folder last; now where the store does not know."""
        self._files.invalidate_cache(folder)
        entries = [*self._files.ls(folder, detail=True), *([self._files.info(folder)] if self._local else [])]
        return max((written_at(entry, now) for entry in entries), default=now)

    def _folder(self, planned: OffsetRange) -> str:
        start, end = planned.start, planned.end
        if not isinstance(start, BinlogOffset) or not isinstance(end, BinlogOffset):
            raise TypeError(f"{planned} is not a range of a binlog")
        return f"{self._home}/{start.file}.{start.pos}-{end.file}.{end.pos}"

    def _unusable(self, error: OSError) -> SourceUnavailableError:
        return unusable(self._home, error)


def servers_with_segments(root: str, flow: str) -> Sequence[str]:
    """Return the identities of all servers of which a flow has segments or prepared transactions.

    Raises:
        SourceUnavailableError: the store cannot be used.
    """
    import fsspec.core

    files, path = fsspec.core.url_to_fs(root)
    found = entries_of(files, f"{path.rstrip('/')}/{flow}")
    names = (name_of(entry) for entry in found if entry["type"] == "directory")
    return sorted(name for name in names if not name.startswith("."))


_IN_MEMORY_BYTES = 64 << 20
"""A segment of a remote store up to this size is held in memory, a larger one in a temporary file that is mapped."""


def load_segment(address: str) -> npt.NDArray[np.uint8]:
    """Return the bytes of a segment; a local one is mapped rather than read, so that its size does not matter.

    Raises:
        SourceUnavailableError: it is gone; `Source.reopen` brings it back.
    """
    import fsspec.core

    files, path = fsspec.core.url_to_fs(address)
    try:
        if address.startswith(("file://", "/")):
            mapped: npt.NDArray[np.uint8] = np.memmap(path, np.uint8, mode="r")
            return mapped
        if files.size(path) <= _IN_MEMORY_BYTES:
            return np.frombuffer(files.cat_file(path), np.uint8)
        with tempfile.TemporaryFile() as copy:
            with files.open(path, "rb") as remote:
                shutil.copyfileobj(remote, copy, 4 << 20)
            copy.flush()
            kept: npt.NDArray[np.uint8] = np.memmap(copy, np.uint8, mode="r")
            return kept
    except OSError as error:
        raise SourceUnavailableError(
            f"the segment {address} cannot be read: {error}",
            hint="The segment store must be reachable by every worker under the same path (DATABUS_SEGMENT_STORE).",
        ) from error
