"""A run that dies between two transactions of a Kafka slot: its plan is half written, and the next run takes it up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from databus.sinks.kafka.session import Session
from tests.integration.kafka_target import forget_kept


class Killed(BaseException):
    """Ends a run where it stands: no handler of ours catches it."""


def half_written(run: Callable[[], Any], chunks: int, *, slot: int = 0) -> None:
    """Run a flow in this process, which dies when a slot has committed so many chunks."""
    commit, left = Session.commit, [chunks]

    def commits(self: Session, marker: Any) -> None:
        commit(self, marker)
        left[0] -= self.slot == slot
        if not left[0]:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "commit", commits)
        with pytest.raises(Killed):
            run()
    forget_kept()
