"""Clock of a mock log: when so many rows were made, at a steady rate or in phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from databus.sources.mock.draws import Numbers
from databus.sources.mock.spec import Mock

_NEVER_MS = 2.0**62


@dataclass(frozen=True, eq=False)
class RowClock:
    """Clock.

    Attributes:
        since_ms: when the log began, ms since the epoch.
        step_ms: time of a transaction at a steady rate, in ms.
        per_transaction: rows of a transaction.
        ends_ms: of each phase, when it ends, in ms from the beginning of its round; empty at a steady rate.
        rows: of each phase, rows made by its end in a round.
        per_ms: rows per ms of each phase.
    """

    since_ms: float
    step_ms: float
    per_transaction: int
    ends_ms: npt.NDArray[np.float64]
    rows: npt.NDArray[np.float64]
    per_ms: npt.NDArray[np.float64]

    @classmethod
    def of(cls, spec: Mock) -> RowClock:
        """Return the clock of a source; without a rate a transaction takes 1 ms."""
        per = spec.rows_per_transaction
        step_ms = 1000 * per / spec.rows_per_second if spec.rows_per_second else 1.0
        seconds, rates = (np.array([phase[n] for phase in spec.phases], np.float64) for n in (0, 1))
        rows = np.cumsum(seconds * rates)
        return cls(spec.since.timestamp() * 1000, step_ms, per, np.cumsum(seconds * 1000), rows, rates / 1000)

    def commit_ms(self, transactions: Numbers) -> Numbers:
        """Return when the last of so many transactions was committed, ms since the epoch."""
        if not len(self.rows):
            return _whole(self.since_ms + transactions * self.step_ms)
        made = transactions * float(self.per_transaction)
        rounds = np.maximum(0, np.ceil(made / self.rows[-1]) - 1)
        rest = np.minimum(made - rounds * self.rows[-1], self.rows[-1])
        phase = np.searchsorted(self.rows, rest, side="left")  # no row comes in a pause
        begun_ms = np.concatenate(([0.0], self.ends_ms[:-1]))[phase]
        begun = np.concatenate(([0.0], self.rows[:-1]))[phase]
        within = np.divide(rest - begun, self.per_ms[phase], out=np.zeros(len(rest)), where=self.per_ms[phase] > 0)
        passed = np.minimum(begun_ms + within, self.ends_ms[phase])
        return _whole(self.since_ms + rounds * self.ends_ms[-1] + passed)


def _whole(milliseconds: npt.NDArray[np.floating[Any]]) -> Numbers:
    found: Numbers = np.minimum(milliseconds, _NEVER_MS).astype(np.int64)
    return found
