"""Where a walk stands in its log file: for the tables and transactions it meets, and for messages."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels import walk as w
from databus.binlog.log.expansion import Expansion, unexpanded
from databus.binlog.log.walk import as_buffer

Ints = npt.NDArray[np.int64]


class WalkPlace:
    """The event that a walk stands at.

    Attributes:
        file: name of the log file.
        state: the kernel's S_… state.
        expansion: the plain events being walked.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.state: Ints = np.zeros(w.S_COUNT, dtype=np.int64)
        self.expansion: Expansion = unexpanded(as_buffer(b""))

    @property
    def pos(self) -> int:
        """File position of the event; inside a compressed event one of its own."""
        return int(self.state[w.S_AT] + self.state[w.S_SHIFT])

    @property
    def fault_position(self) -> int:
        """File position to name in messages: inside a compressed event where that one lies."""
        state = self.state
        at = int(state[w.S_AT])
        if at < state[w.S_PLAIN_END] or state[w.S_EXPECTED]:
            splice = self.expansion.splices[state[w.S_SPLICE] - 1]
            at = int(splice[w.P_TO] - splice[w.P_RAW_TO] + splice[w.P_RAW_FROM])
        return at + int(state[w.S_SHIFT])

    def __str__(self) -> str:
        """Return `file:pos` for messages."""
        return f"{self.file}:{self.fault_position}"
