"""Hashes of rows by key, in files by ranges of their hashes: which keys differ between two sides of any size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from databus.rows.siphash import KEY_BYTES, Hashes, hashes

if TYPE_CHECKING:
    import pyarrow as pa

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PARTS = 128
"""Files of one side. Two of them, one of each side, are in memory at once."""

_SHIFT = np.uint64(57)
_PRESENT, _HELD_BACK = 1, 2
_ROW = np.dtype([("key", "<u8", (2,)), ("content", "<u8", (2,)), ("number", "<i8"), ("flags", "<i8")])
_BUFFERED = 1 << 15


class RowHashes:
    """Hashes of rows as they come: 128 bits of the key, 128 of the content; 48 bytes a row on disk.

    A context manager that closes its files. Rows are numbered from 0 as they are appended. A later row of a key
    replaces an earlier one.

    Args:
        folder: folder for the files, which is not there yet.
        secret: key of the hashes, the same for both sides.
    """

    def __init__(self, folder: Path, secret: bytes):
        folder.mkdir()
        self._folder, self._secret = folder, secret
        self._files: dict[int, IO[bytes]] = {}
        self._secrets: dict[str, bytes] = {}
        self.rows = 0

    def append(self, rows: pa.RecordBatch, held: Flags | None = None, numbers: Numbers | None = None) -> None:
        """Take `ROWS_HELD` whose keys are not NULL.

        Args:
            rows: the rows.
            held: bool[n], which of them are held back, so that their content is not compared; None for none.
            numbers: int64[n], their numbers; None to go on counting.

        Raises:
            OSError: there is no room.
        """
        made = np.empty(rows.num_rows, _ROW)
        made["key"] = self._keys(rows)
        made["content"] = hashes(rows["content"], self._secret_of(""))
        made["number"] = np.arange(self.rows, self.rows + len(made)) if numbers is None else numbers
        made["flags"] = np.asarray(rows["content"].is_valid()) * _PRESENT
        if held is not None:
            made["flags"] |= held * np.int64(_HELD_BACK)
        part = made["key"][:, 0] >> _SHIFT
        order = np.argsort(part, kind="stable")
        made = made[order]
        cuts = np.searchsorted(part[order], np.arange(PARTS + 1, dtype=np.uint64)).tolist()
        for number, (low, high) in enumerate(pairwise(cuts)):
            if high > low:
                self._file(number).write(made[low:high].tobytes())
        self.rows += rows.num_rows

    def part(self, number: int) -> np.ndarray:
        """Return the rows of one of `PARTS` ranges in the order in which they came: `_ROW`[n]."""
        if number not in self._files:
            return np.empty(0, _ROW)
        self._files[number].flush()
        return np.fromfile(self._path(number), _ROW)

    def __enter__(self) -> RowHashes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()

    def _keys(self, rows: pa.RecordBatch) -> Hashes:
        """Return hashes of (output, key): each output has a secret of its own."""
        outputs = rows["output"].dictionary_encode()
        names = outputs.dictionary.to_pylist()
        if len(names) == 1:
            return hashes(rows["key"], self._secret_of(f"output {names[0]}"))
        found, of_row = np.empty((rows.num_rows, 2), np.uint64), np.asarray(outputs.indices)
        for number, name in enumerate(names):
            mine = of_row == number
            found[mine] = hashes(rows["key"].filter(_mask(mine)), self._secret_of(f"output {name}"))
        return found

    def _secret_of(self, use: str) -> bytes:
        if use not in self._secrets:
            made = hashlib.blake2b(use.encode(), key=self._secret, digest_size=KEY_BYTES)
            self._secrets[use] = made.digest()
        return self._secrets[use]

    def _file(self, number: int) -> IO[bytes]:
        if number not in self._files:
            self._files[number] = self._path(number).open("wb", buffering=_BUFFERED)
        return self._files[number]

    def _path(self, number: int) -> Path:
        return self._folder / str(number)


@dataclass(frozen=True, eq=False)
class DifferingRows:
    """Numbers of rows whose keys differ between what is expected and what is held, in their order.

    Attributes:
        expected: rows that are expected and not held, or held with another content.
        held: rows that are held and not expected, or expected with another content: as they were held first.
        on_both: rows of `expected` whose key is held as well: their contents may be two texts of one state.
        held_on_both: all held rows of these keys, later ones too.
        alike: how many keys have equal contents.
        held_back: how many keys have a row that is held back, so that they are not compared.
        twice: how many rows are expected under a key that another row has as well.
    """

    expected: Numbers
    held: Numbers
    on_both: Numbers
    held_on_both: Numbers
    alike: int
    held_back: int
    twice: int


def differing(expected: RowHashes, held: RowHashes, later_from: int | None = None) -> DifferingRows:
    """Compare what is expected with what is held.

    A key is equal if it was held as it is expected at the first look or at any later moment: what is expected was read
    in between.

    Args:
        expected: the source's side.
        held: the sink's side.
        later_from: number of the first held row that was written behind the first look; None for no such rows.
    """
    later = np.iinfo(np.int64).max if later_from is None else later_from
    parts = [_differing(expected.part(number), held.part(number), later) for number in range(PARTS)]
    first, held_first, both, held_both = (
        np.sort(np.concatenate([numbers[place] for numbers, _ in parts])) for place in range(4)
    )
    alike, held_back, twice = (sum(counts[place] for _, counts in parts) for place in range(3))
    return DifferingRows(first, held_first, both, held_both, alike, held_back, twice)


def _differing(expected: np.ndarray, held: np.ndarray, later_from: int) -> tuple[Sequence[Numbers], Sequence[int]]:
    """Return the lists of numbers and the counts of `DifferingRows` for one part."""
    wanted, twice = _newest(expected)
    first, _ = _newest(held[held["number"] < later_from])
    since = held[held["number"] >= later_from]
    group, groups = _groups(np.concatenate([wanted["key"], first["key"], since["key"]]))
    of_wanted, of_first, of_since = np.split(group, [len(wanted), len(wanted) + len(first)])

    withheld = (wanted["flags"] & _HELD_BACK) != 0
    compared = wanted[~withheld & ((wanted["flags"] & _PRESENT) != 0)]
    of_compared = of_wanted[~withheld & ((wanted["flags"] & _PRESENT) != 0)]
    there = (first["flags"] & _PRESENT) != 0
    content, is_expected = np.zeros((groups, 2), np.uint64), np.zeros(groups, np.bool_)
    content[of_compared], is_expected[of_compared] = compared["content"], True
    settled = np.zeros(groups, np.bool_)
    settled[of_wanted[withheld]] = True
    settled[of_since[((since["flags"] & _PRESENT) == 0) & ~is_expected[of_since]]] = True
    on_sink = np.zeros(groups, np.bool_)
    for rows, of_rows in ((first, of_first), (since, of_since)):
        present = ((rows["flags"] & _PRESENT) != 0) & is_expected[of_rows]
        same = present & (rows["content"] == content[of_rows]).all(axis=1)
        on_sink[of_rows[present]] = True
        settled[of_rows[same]] = True
    lacks = ~settled[of_compared]
    more = there & ~settled[of_first]
    both = lacks & on_sink[of_compared]
    paired = np.zeros(groups, np.bool_)
    paired[of_compared[both]] = True
    numbers = (
        compared["number"][lacks],
        first["number"][more],
        compared["number"][both],
        np.concatenate([first["number"][paired[of_first]], since["number"][paired[of_since]]]),
    )
    return numbers, (len(compared) - int(np.count_nonzero(lacks)), int(np.count_nonzero(withheld)), twice)


def _newest(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the last row of each key, and how many rows came before these."""
    if not len(rows):
        return rows, 0
    order = np.lexsort((rows["key"][:, 1], rows["key"][:, 0]))
    ordered = rows["key"][order]
    last = np.append((ordered[1:] != ordered[:-1]).any(axis=1), True)
    return rows[order[last]], int(len(rows) - np.count_nonzero(last))


def _groups(keys: Hashes) -> tuple[Numbers, int]:
    """Return int64[n], the number of each key among the different ones, and how many of these there are."""
    if not len(keys):
        return np.zeros(0, np.int64), 0
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ordered = keys[order]
    group = np.empty(len(keys), np.int64)
    group[order] = np.cumsum(np.append(False, (ordered[1:] != ordered[:-1]).any(axis=1)))
    return group, int(group.max()) + 1


def keys_of(rows: pa.RecordBatch) -> Iterator[tuple[str, bytes]]:
    """Return (output, key) of each row."""
    return zip(rows["output"].to_pylist(), rows["key"].to_pylist(), strict=True)


def _mask(flags: Flags) -> pa.BooleanArray:
    import pyarrow as pa

    return pa.array(flags)
