"""Wait for a flow's checkpoint: what lies before a place of the log has then reached a sink."""

from __future__ import annotations

import time
from dataclasses import dataclass

from databus.core.errors.checkpoint import CheckpointConflictError, SnapshotUnfinishedError, ValidationBehindError
from databus.core.positions.offsets import Offset, Ordering
from databus.core.protocols.optional_source import ComparableSource
from databus.core.state.checkpoint_store import CheckpointStore

_LOOK_S = 0.2
_ASK_S = 2.0
"""The server is asked so often whether anything is left to move; the store is looked at more often."""


@dataclass(frozen=True)
class CheckpointWait:
    """Wait for the checkpoint of what one sink has.

    Attributes:
        flow: flow name.
        store: checkpoint store.
        source: open source of the flow.
        sink: name of the sink, which may be behind with a checkpoint of its own.
        wait_s: longest wait for one place, in seconds.
        rests: whether the flow reads no changes (`snapshot="only"`) and its snapshot is over: no wait brings it on.
    """

    flow: str
    store: CheckpointStore
    source: ComparableSource
    sink: str
    wait_s: float
    rests: bool = False

    def standing(self) -> Offset:
        """Return where the sink stands.

        Raises:
            CheckpointConflictError: the flow has moved nothing yet, or its snapshot is unfinished.
        """
        store = self.store
        snapshot = store.snapshot(self.flow)
        if snapshot is not None and snapshot.unfinished:
            state, look = "unfinished", f"`databus snapshot show {self.flow}`"
            if snapshot.paused:
                state, look = "paused", f"`databus snapshot resume {self.flow}`"
            raise SnapshotUnfinishedError(
                f"flow {self.flow}: snapshot {snapshot.number} is {state}, so rows of its tables are still to come",
                hint=f"Compare once it is finished: {look}.",
            )
        if self.sink in store.sinks_behind(self.flow):
            store = store.of_sink(self.sink)
        checkpoint = store.load(self.flow)
        if checkpoint is None:
            raise CheckpointConflictError(
                f"flow {self.flow} has no checkpoint yet: nothing has reached its sinks",
                hint=f"Let it run: `databus run {self.flow}`.",
            )
        return checkpoint.offset

    def reached(self, place: Offset) -> Offset:
        """Wait until all that lies before a place is committed; return where the sink stands then.

        A log that goes on with nothing to move, such as a new file, counts as committed.

        Raises:
            ValidationBehindError: it is not within `wait_s`; names both places.
            CheckpointError: see `standing`.
            SourceError: the log cannot be asked.
        """
        deadline, asked = time.monotonic() + self.wait_s, 0.0
        while True:
            standing = self.standing()
            if standing.compare(place) in (Ordering.EQUAL, Ordering.AFTER):
                return standing
            if time.monotonic() - asked > _ASK_S:
                if self.source.lag(standing).bytes == 0:
                    return standing
                asked = time.monotonic()
            if self.rests or time.monotonic() > deadline:
                raise self._behind(standing, place)
            time.sleep(_LOOK_S)

    def _behind(self, standing: Offset, place: Offset) -> ValidationBehindError:
        paused = self.store.paused(self.flow)
        said = f", and was paused by {paused.who}" if paused is not None else ""
        if self.rests:
            return ValidationBehindError(
                f'flow {self.flow}, sink {self.sink}: snapshot="only" reads no changes, and the log went on behind '
                f"{standing}, where the flow stands: nothing was judged",
                hint=f"Bring it up to now (`databus snapshot begin {self.flow}`, then a run), and compare while "
                "nothing is written at the server.",
            )
        return ValidationBehindError(
            f"flow {self.flow}, sink {self.sink}: it stands at {standing}{said}; what is compared lies before {place}, "
            f"which it did not reach within {self.wait_s:.0f} s: nothing was judged",
            hint="Let the flow run beside the comparison, or wait longer for it: --wait SECONDS.",
        )
