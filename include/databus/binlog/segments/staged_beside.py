"""Folders of the segment store that stand beside a flow's own: of pieces of its backfills, rehearsals, looks back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from databus.binlog.segments.store import LEFT_AGE_S
from databus.binlog.segments.store_files import is_local, remove, unusable, written_at

REHEARSAL = "{}.rehearsal"
"""Name under which a flow's successors stage what they rehearse."""


class StagedBeside:
    """The folders of a store whose names begin with a flow's and a dot."""

    def __init__(self, root: str, flow: str):
        """Address the store; nothing is opened for writing.

        Args:
            root: folder or fsspec URI.
            flow: flow name, which has no dot.
        """
        import fsspec.core

        self._files, path = fsspec.core.url_to_fs(root)
        self._root, self._flow = path.rstrip("/"), flow
        self._local = is_local(self._files)

    def left(self, now: float) -> Iterator[str]:
        """Yield the names of folders in which nothing was written for `LEFT_AGE_S`.

        Args:
            now: seconds since the epoch.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        try:
            self._files.invalidate_cache(self._root)
            for entry in self._files.ls(self._root, detail=True):
                name = str(entry["name"]).rstrip("/").rpartition("/")[2]
                if entry["type"] == "directory" and name.startswith(f"{self._flow}.") and self._is_left(name, now):
                    yield name
        except FileNotFoundError:
            return
        except OSError as error:
            raise unusable(self._root, error) from error

    def delete(self, name: str) -> Sequence[str]:
        """Delete a folder with all that it holds; safe when it is not there. Return what is gone.

        Raises:
            SourceUnavailableError: the store cannot be used.
        """
        remove(self._files, f"{self._root}/{name}", f"{self._root}/{name}")
        return [f"{self._root}/{name}"]

    def _is_left(self, name: str, now: float) -> bool:
        """Return whether nothing was written in a folder for long; False where the store does not report."""
        folder = f"{self._root}/{name}"
        if self._local and now - self._files.info(folder)["mtime"] <= LEFT_AGE_S:
            return False
        self._files.invalidate_cache(folder)
        entries = self._files.find(folder, withdirs=self._local, detail=True).values()
        return all(now - written_at(entry, now) > LEFT_AGE_S for entry in entries)
