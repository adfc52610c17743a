"""Changes of one mock table by number: operation, key, and when each image was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from databus.binlog.decoding.table_batch import DELETE, INSERT, UPDATE
from databus.sources.mock.draws import Draw, Numbers

_PATTERN, _TIMES = 4_096, 4
"""Changes after which the draw of keys repeats: so many, or so many for each key."""


@dataclass(frozen=True)
class RowChanges:
    """Row changes of one table.

    Attributes:
        op: int8[n], INSERT, UPDATE or DELETE.
        key: int64[n].
        before: int64[n], version of the before-image among those of its key; no number of inserts.
        after: int64[n], version of the after-image.
        written: int64[n], number of the change that wrote the before-image; no number of inserts.
    """

    op: npt.NDArray[np.int8]
    key: Numbers
    before: Numbers
    after: Numbers
    written: Numbers


class Changes(Protocol):
    """Endless changes of a table, each computed from its number alone."""

    def of(self, numbers: Numbers) -> RowChanges:
        """Return the changes with these numbers."""
        ...


@dataclass(frozen=True)
class GrowingTable:
    """Changes in cycles of keys of their own: inserts, then updates of these in turn, then deletes of the last ones.

    Attributes:
        inserts: inserts of a cycle.
        updates: updates of a cycle.
        deletes: deletes of a cycle, at most as many as inserts.
    """

    inserts: int
    updates: int
    deletes: int

    def of(self, numbers: Numbers) -> RowChanges:
        """Return the changes with these numbers."""
        inserts, updates = self.inserts, self.updates
        length = inserts + updates + self.deletes
        cycle, place = np.divmod(numbers, length)
        inserted, deleted = place < inserts, place >= inserts + updates
        op = np.where(inserted, INSERT, np.where(deleted, DELETE, UPDATE)).astype(np.int8)
        round_of, of_update = np.divmod(place - inserts, inserts)
        of_delete = inserts - 1 - (place - inserts - updates)
        in_cycle = np.where(inserted, place, np.where(deleted, of_delete, of_update))
        last = updates // inserts + (in_cycle < updates % inserts)
        before = np.where(deleted, last, round_of)
        wrote = np.where(before == 0, in_cycle, inserts + (before - 1) * inserts + in_cycle)
        after = np.where(inserted, 0, before + 1)
        return RowChanges(op, cycle * inserts + in_cycle, before, after, cycle * length + wrote)


@dataclass(frozen=True, eq=False)
class FixedKeys:
    """Changes of a set of keys: each lives through the same lives again and again, from its insert on.

    Attributes:
        keys: which key each change is of.
        lives: int8[n], operations on one key in their order, repeated; one INSERT alone where nothing is deleted.
        endless: whether no key is deleted.
    """

    keys: Draw
    lives: npt.NDArray[np.int8]
    endless: bool

    @classmethod
    def drawn(cls, operations: tuple[int, int, int], keys: int, skew: float, salt: int) -> FixedKeys:
        """Return the changes of so many keys.

        Args:
            operations: inserts, updates and deletes, as many inserts as deletes, or no deletes.
            keys: how many there are.
            skew: exponent of Zipf's law; 0 for all alike.
            salt: decides the order.
        """
        inserts, updates, deletes = operations
        draw = Draw.skewed(keys, skew, max(_PATTERN, _TIMES * keys), salt)
        if not deletes:
            return cls(draw, np.array([INSERT], np.int8), endless=True)
        lives: list[int] = []
        for life in range(inserts):
            lives += [INSERT, *[UPDATE] * (updates // inserts + (life < updates % inserts)), DELETE]
        return cls(draw, np.array(lives, np.int8), endless=False)

    def of(self, numbers: Numbers) -> RowChanges:
        """Return the changes with these numbers."""
        key, touch = self.keys.at(numbers)
        if self.endless:
            op = np.where(touch == 0, INSERT, UPDATE).astype(np.int8)
        else:
            op = self.lives[touch % len(self.lives)]
        before = np.maximum(touch - 1, 0)
        return RowChanges(op, key, before, touch, self.keys.place(key, before))
