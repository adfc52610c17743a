"""The captured row changes of a transaction whose end the walk has not reached, kept so that they can be taken back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels.walk import R_SLOT, R_TRANSACTION

Ints = npt.NDArray[np.int64]


class OpenRows:
    """Schema and row changes of each rows event of the open transaction: 8 bytes an event."""

    def __init__(self) -> None:
        self._events: list[npt.NDArray[np.int32]] = []

    def follow(self, rows: Ints, schemas: Ints, counts: Ints, ended: int, kept: int | None) -> Mapping[int, int]:
        """Take in one stretch.

        Args:
            rows: R_… lines of the stretch.
            schemas: schema number of each line, −1 when its table is not captured.
            counts: row changes of each line.
            ended: number of transactions that ended in the stretch.
            kept: how many events of the transaction open before it still count; None for all.

        Returns:
            Schema number → row changes of earlier stretches that the transaction has taken back.
        """
        gone = self._cut(kept) if kept is not None else {}
        if ended:
            self._events = []
        still = (rows[:, R_TRANSACTION] == ended) & (rows[:, R_SLOT] >= 0)
        if still.any():
            self._events.append(np.column_stack((schemas[still], counts[still])).astype(np.int32))
        return gone

    def _cut(self, kept: int) -> Mapping[int, int]:
        gone: dict[int, int] = {}
        if not self._events:
            return gone
        events = np.concatenate(self._events)
        for schema, count in events[kept:].tolist():
            if schema >= 0:
                gone[schema] = gone.get(schema, 0) + count
        self._events = [events[:kept]]
        return gone
