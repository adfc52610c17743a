"""Large values: stored in the segment store, outside their rows, and named by the hash of their bytes.

Layout: `<root>/.claims/<first two digits>/<sha256>`, shared by all flows. A value is written once, whole and on disk
before the row that refers to it goes anywhere; writing it again only makes it younger, so that a retry changes nothing.
The row holds in the value's place the text of a JSON object:

| field | meaning |
|---|---|
| claim | URI of the bytes |
| bytes | how many they are |
| sha256 | their hash, which is also the last part of the URI |
| charset | the server's name of their character set; left out for what is no text |

A flow that reads a value again while a clean-up runs never loses it: what is younger than `LEAST_AGE_S` stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from databus.binlog.log.mapped import windows
from databus.binlog.segments.retention import KeepLimit
from databus.binlog.segments.store_space import store_full, writing
from databus.core.errors.source import LargeValueError, SourceUnavailableError
from databus.core.private_files import private_folder, private_opener

FOLDER = ".claims"
"""Beside the flows' own folders; no flow can have this name."""

LEAST_AGE_S = 7 * 86_400.0
"""No value is deleted before so long after a row referred to it last: as long as Kafka keeps messages by default."""

_REWRITE_AFTER_S = 86_400.0
"""A store without modification times to set takes a value again when it is older than this."""
_UNFINISHED_AGE_S = 86_400.0
_READ_BYTES = 4 << 20


class LargeValueReference(str):
    """The reference that stands in a value's place."""

    __slots__ = ()


@dataclass(frozen=True)
class KeptLargeValue:
    """Large value in the store.

    Attributes:
        path: where it lies in the store's file system.
        size_bytes: its length.
        kept_at: when a row referred to it last, seconds since the epoch.
    """

    path: str
    size_bytes: int
    kept_at: float


class LargeValueStore:
    """Large values below a segment store."""

    def __init__(self, root: str):
        """Address them; nothing is created yet.

        Args:
            root: the segment store's folder or fsspec URI.
        """
        import fsspec.core

        self._files, path = fsspec.core.url_to_fs(root)
        protocol = self._files.protocol
        self._local = "file" in (protocol if isinstance(protocol, tuple) else (protocol,))
        self._home = f"{path.rstrip('/')}/{FOLDER}"

    def put(self, data: npt.NDArray[np.uint8], charset: str | None = None) -> LargeValueReference:
        """Keep a value and return what refers to it; when this returns, it is on disk.

        Args:
            data: its bytes; those of a mapped file pass through memory in windows.
            charset: the server's name of their character set; None for what is no text.

        Raises:
            SegmentStoreFullError: there is no room for it.
            SourceUnavailableError: the store cannot be used.
        """
        hashed = hashlib.sha256()
        for window in windows(data):
            hashed.update(window.data)
        name = hashed.hexdigest()
        path = f"{self._home}/{name[:2]}/{name}"
        try:
            if not self._refresh(path, len(data)):
                self._write(path, data)
        except OSError as error:
            raise self._unusable(error, len(data)) from error
        reference = {"claim": str(self._files.unstrip_protocol(path)), "bytes": len(data), "sha256": name}
        if charset is not None:
            reference["charset"] = charset
        return LargeValueReference(json.dumps(reference, separators=(",", ":")))

    def list(self) -> Sequence[KeptLargeValue]:
        """Return all values, those that are being written included.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        try:
            found = self._files.find(self._home, detail=True)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error) from error
        return [KeptLargeValue(str(path), int(e["size"] or 0), _written_at(e)) for path, e in sorted(found.items())]

    def surplus(self, limit: KeepLimit, now: float | None = None) -> Sequence[KeptLargeValue]:
        """Return the values over a limit that no row has referred to for `LEAST_AGE_S`, and what a crash left half.

        Without a limit all whole ones stay.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        now = time.time() if now is None else now
        values = self.list()
        whole = [c for c in values if not _unfinished(c)]
        gone = [c for c in limit.surplus(whole, now) if now - c.kept_at > LEAST_AGE_S] if limit else []
        return gone + [c for c in values if _unfinished(c) and now - c.kept_at > _UNFINISHED_AGE_S]

    def prune(self, limit: KeepLimit, now: float | None = None) -> Sequence[KeptLargeValue]:
        """Delete what `surplus` returns, and return it.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        gone = self.surplus(limit, now)
        for value in gone:
            try:
                with contextlib.suppress(FileNotFoundError):
                    self._files.rm_file(value.path)
            except OSError as error:
                raise self._unusable(error) from error
        return gone

    def _refresh(self, path: str, size_bytes: int) -> bool:
        """Make a value that is there whole as young as a new one; False when it has to be written."""
        try:
            if self._local:
                if Path(path).stat().st_size != size_bytes:
                    return False
                os.utime(path)
                return True
            self._files.invalidate_cache(path)
            entry = self._files.info(path)
        except FileNotFoundError:
            return False
        return int(entry["size"]) == size_bytes and time.time() - _written_at(entry) < _REWRITE_AFTER_S

    def _write(self, path: str, data: npt.NDArray[np.uint8]) -> None:
        if not self._local:
            with self._files.open(path, "wb") as target:
                _copy(data, target)
            return
        folder = Path(path).parent
        private_folder(folder)
        unfinished = folder / f".{uuid.uuid4().hex}"
        try:
            with writing(folder, len(data)), open(unfinished, "wb", buffering=0, opener=private_opener) as target:
                _copy(data, target)
                os.fsync(target.fileno())
            unfinished.rename(path)
            for changed in (folder, folder.parent):
                _sync_folder(changed)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def _unusable(self, error: OSError, need_bytes: int = 0) -> SourceUnavailableError:
        return store_full(self._home, error, need_bytes) or SourceUnavailableError(
            f"the large values in {self._home} cannot be used: {error}",
            hint="Check space and rights there, or point DATABUS_SEGMENT_STORE elsewhere.",
        )


def large_value_uri(reference: str) -> str:
    """Return the URI that a reference (the JSON text of a row) names; a URI stands for itself.

    Raises:
        LargeValueError: it is neither.
    """
    text = reference.strip()
    if text.startswith("{"):
        try:
            found: Any = json.loads(text).get("claim")
        except json.JSONDecodeError:
            found = None
        text = found if isinstance(found, str) else ""
    name = text.rpartition("/")[2]
    if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
        raise LargeValueError(
            f"{reference[:200]!r} refers to no large value",
            hint='Pass the text that stands in the row, or its "claim".',
        )
    return text


def large_value_below(reference: str, root: str) -> str:
    """Return the URI that a reference names; a row may come from anybody, so only a value of this store is opened.

    Args:
        reference: the text that stands in the row, or the URI in it.
        root: the segment store's folder or fsspec URI.

    Raises:
        LargeValueError: it refers to no large value, or to one that does not lie in this store.
    """
    import fsspec.core

    uri = large_value_uri(reference)
    files, path = fsspec.core.url_to_fs(root)
    name = uri.rpartition("/")[2]
    known = f"{path.rstrip('/')}/{FOLDER}/{name[:2]}/{name}"
    if uri not in (known, str(files.unstrip_protocol(known))):
        raise LargeValueError(
            f"the large value {uri[:500]} does not lie in the segment store {root}: it is not opened",
            hint="Set DATABUS_SEGMENT_STORE to the store of the flow that wrote the row, as its workers name it, if "
            "you trust where the reference comes from.",
            code="claim_elsewhere",
        )
    return uri


def read_large_value(reference: str) -> Iterator[bytes]:
    """Yield the bytes of a large value piece by piece; the hash is compared at the end.

    Args:
        reference: the text that stands in the row, or the URI in it; `large_value_below` checks one from elsewhere.

    Raises:
        LargeValueError: it refers to no large value, the value is gone, or its bytes do not match its hash.
        SourceUnavailableError: the store cannot be used.
    """
    import fsspec.core

    uri, hashed = large_value_uri(reference), hashlib.sha256()
    try:
        files, path = fsspec.core.url_to_fs(uri)
        with files.open(path, "rb") as source:
            while piece := source.read(_READ_BYTES):
                hashed.update(piece)
                yield piece
    except FileNotFoundError as error:
        raise LargeValueError(
            f"the large value {uri} is gone, or its store is not reachable from here",
            hint="Large values are deleted by the limit DATABUS_SEGMENT_KEEP, never within 7 days; read the value from "
            "the table, or mount the segment store under the same path.",
            code="claim_missing",
        ) from error
    except OSError as error:
        raise SourceUnavailableError(
            f"the large value {uri} cannot be read: {error}", hint="Check the store."
        ) from error
    if hashed.hexdigest() != uri.rpartition("/")[2]:
        raise LargeValueError(
            f"the bytes of the large value {uri} do not match its hash",
            hint="The store has damaged them: read the value from the table.",
            code="claim_damaged",
        )


def read_claim(reference: str) -> Iterator[bytes]:
    """Yield the bytes of a large value: the former name of `read_large_value`, for one version."""
    warnings.warn("read_claim is now read_large_value", FutureWarning, stacklevel=2)
    return read_large_value(reference)


def _copy(data: npt.NDArray[np.uint8], target: BinaryIO) -> None:
    for window in windows(data):
        left = np.ascontiguousarray(window).data.cast("B")
        while len(left):
            left = left[target.write(left) :]


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _unfinished(value: KeptLargeValue) -> bool:
    return value.path.rpartition("/")[2].startswith(".")


def _written_at(entry: dict[str, Any]) -> float:
    written = entry.get("mtime") or entry.get("LastModified") or entry.get("created")
    if isinstance(written, datetime):
        return written.timestamp()
    # Of unknown age: as if new, since what cannot be judged is not deleted.
    return float(written) if isinstance(written, (int, float)) else time.time()
