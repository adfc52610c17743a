"""Transaction of the source, put together from all partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from databus.consumer.change import Change


@dataclass(frozen=True)
class Transaction:
    """Transaction of the source, complete or said to be incomplete.

    Attributes:
        id: GTID, or file:pos of its end; "" of a change that belongs to none (a snapshot's row, a replayed one), which
            comes alone.
        changes: its changes in the order of the log; those that filters leave out are not in it. Of a large
            transaction they are read from disk as they are iterated.
        complete: whether all of the source's transaction that the flow writes is here.
        why: what is missing; "" of a complete one.
        ts_ms: commit time, ms since the epoch; None where no record says it.
        expected: records that END counts; None where END is missing.
        quarantined: its rows that checks of the flow hold back.
    """

    id: str
    changes: Sequence[Change]
    complete: bool
    why: str = ""
    ts_ms: int | None = None
    expected: int | None = None
    quarantined: int = 0

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)
