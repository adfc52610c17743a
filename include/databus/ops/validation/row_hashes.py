"""Hashes of rows by key: what is kept in memory of each side, and which keys differ between two."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

Numbers = npt.NDArray[np.int64]

_KEY_BYTES, _CONTENT_BYTES = 16, 8


class RowHashes:
    """Hashes of rows as they come: 128 bits of the key, 64 of the content; 32 bytes a row with its flags.

    Rows are numbered from 0 as they are appended. A later row of a key replaces an earlier one.
    """

    def __init__(self) -> None:
        self._keys: list[npt.NDArray[np.uint64]] = []
        self._contents: list[npt.NDArray[np.uint64]] = []
        self._flags: list[npt.NDArray[np.int8]] = []
        self.rows = 0

    def append(self, rows: pa.RecordBatch, held: npt.NDArray[np.bool_] | None = None) -> None:
        """Take `ROWS_HELD` whose keys are not NULL.

        Args:
            rows: the rows.
            held: bool[n], which of them are held back, so that their content is not compared; None for none.
        """
        outputs, keys, contents = (rows[name].to_pylist() for name in ("output", "key", "content"))
        hashed = b"".join(key_hash(output, key) for output, key in zip(outputs, keys, strict=True))
        self._keys.append(np.frombuffer(hashed, np.uint64).reshape(-1, 2))
        found = b"".join(_content_hash(content) for content in contents)
        self._contents.append(np.frombuffer(found, np.uint64))
        present = np.array([content is not None for content in contents], np.int8)
        self._flags.append(present if held is None else present | (held.astype(np.int8) << 1))
        self.rows += rows.num_rows

    def joined(self) -> JoinedRows:
        """Return all of them as arrays."""
        return JoinedRows(
            np.concatenate([*self._keys, np.zeros((0, 2), np.uint64)]),
            np.concatenate([*self._contents, np.zeros(0, np.uint64)]),
            np.concatenate([*self._flags, np.zeros(0, np.int8)]),
        )


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """Hashes of rows by their numbers.

    Attributes:
        keys: uint64[n, 2].
        contents: uint64[n].
        flags: int8[n]; bit 0: it has a content, bit 1: it is held back.
    """

    keys: npt.NDArray[np.uint64]
    contents: npt.NDArray[np.uint64]
    flags: npt.NDArray[np.int8]

    def newest(self) -> tuple[Numbers, int]:
        """Return the numbers of the last row of each key, in the order of the keys, and how many rows came before."""
        order = np.lexsort((self.keys[:, 1], self.keys[:, 0]))
        if not len(order):
            return order, 0
        sorted_keys = self.keys[order]
        last = np.append((sorted_keys[1:] != sorted_keys[:-1]).any(axis=1), True)
        return order[last], int(len(order) - np.count_nonzero(last))


@dataclass(frozen=True, eq=False)
class DifferingRows:
    """Numbers of rows whose keys differ between what is expected and what is held.

    Attributes:
        expected: rows that are expected and not held, or held with another content.
        held: rows that are held and not expected, or expected with another content.
        alike: how many keys have equal contents.
        held_back: how many keys have a row that is held back, so that they are not compared.
        twice: how many rows are expected under a key that another row has as well.
    """

    expected: Numbers
    held: Numbers
    alike: int
    held_back: int
    twice: int


def differing(expected: JoinedRows, held: JoinedRows) -> DifferingRows:
    """Compare what is expected with what is held."""
    wanted, twice = expected.newest()
    there, _ = held.newest()
    there = there[(held.flags[there] & 1) != 0]
    keys = np.concatenate([expected.keys[wanted], held.keys[there]])
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    pair = np.zeros(0, np.int64)
    if len(order) > 1:
        pair = np.flatnonzero((keys[order[1:]] == keys[order[:-1]]).all(axis=1))
    left, right = order[pair], order[pair + 1] if len(pair) else order[:0]
    mine, theirs = np.minimum(left, right), np.maximum(left, right) - len(wanted)
    other = expected.contents[wanted[mine]] != held.contents[there[theirs]]
    withheld = (expected.flags[wanted] & 2) != 0
    lacks, more = np.ones(len(wanted), np.bool_), np.ones(len(there), np.bool_)
    lacks[mine], more[theirs] = other, other & ~withheld[mine]
    lacks &= ~withheld & ((expected.flags[wanted] & 1) != 0)
    alike = int(np.count_nonzero(~other & ~withheld[mine]))
    return DifferingRows(wanted[lacks], there[more], alike, int(np.count_nonzero(withheld)), twice)


def key_hash(output: str, key: bytes) -> bytes:
    """Return 16 bytes that stand for a row's identity."""
    return hashlib.blake2b(output.encode() + b"\0" + key, digest_size=_KEY_BYTES).digest()


def keys_of(rows: pa.RecordBatch) -> Sequence[tuple[str, bytes]]:
    """Return (output, key) of each row."""
    return list(zip(rows["output"].to_pylist(), rows["key"].to_pylist(), strict=True))


def _content_hash(content: bytes | None) -> bytes:
    return bytes(_CONTENT_BYTES) if content is None else hashlib.blake2b(content, digest_size=_CONTENT_BYTES).digest()
