"""Evidence of a sink: what the ledger says it holds, and what the sink itself shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from databus.core.state.checkpoint import Checkpoint
from databus.core.state.plan import Plan


@dataclass(frozen=True)
class AcceptedOutput:
    """Accepted output: a person took another one for the one that was written to.

    Attributes:
        at: when, aware UTC.
        upto: last batch that may have written to the former one.
        written: "output[partition]" → records that it had written there, where it was in flight; None where that is not
            known, or it was not.
    """

    at: datetime
    upto: int
    written: Mapping[str, int] | None = None


@dataclass(frozen=True)
class CommittedState:
    """Sink evidence expected by checkpoint and history.

    Attributes:
        flow: flow name.
        checkpoint: the committed one.
        plan: the plan in flight; the sink may hold it in part or in whole already.
        hashes: batch → hash of its plan, of commits whose entries have it.
        receipts: (batch, receipt in JSON) of the sink's commits in the order of their entries.
        accepted: output → when it was last accepted as another, of those that were.
        begins: place among the receipts → first of the batches that were merged into that one, where they were.
    """

    flow: str
    checkpoint: Checkpoint
    plan: Plan | None
    hashes: Mapping[int, str]
    receipts: Sequence[tuple[int, Mapping[str, Any]]]
    accepted: Mapping[str, AcceptedOutput] = field(default_factory=dict)
    begins: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """Evidence found at one place.

    Attributes:
        subject: the place, e.g. "sink kafka".
        looked_at: what was compared, in words, also what could not be and why.
        problems: a line for each thing that does not add up.
    """

    subject: str
    looked_at: tuple[str, ...]
    problems: tuple[str, ...] = ()


SinkClaim = CommittedState
"""Former name, for one version."""


@runtime_checkable
class EvidentSink(Protocol):
    """A sink that can show what it holds of the committed batches."""

    def evidence(self, ledger: CommittedState) -> Evidence:
        """Compare what the sink holds with what the ledger says; changes nothing.

        Raises:
            SinkUnavailableError: it does not answer.
        """
        ...
