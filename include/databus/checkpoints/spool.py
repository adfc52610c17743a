"""Plans and outcomes of batches moved while ZooKeeper was away, written down before and after each dispatch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.durable_folder import DurableFolder
from databus.core.errors.sink import MarkersAheadError
from databus.core.positions.offsets import Ordering
from databus.core.state.checkpoint import Checkpoint
from databus.core.state.plan import Plan
from databus.core.state.plan_outcome import PlanOutcome
from databus.core.state.sink_markers import Announcement
from databus.core.stored_form import Form

log = logging.getLogger(__name__)

SPOOLED_PLAN = Form("spooled plan", "plan after")

FOLDER = "_detached"
"""Beside the flows' segments; no flow's name begins so."""


@dataclass(frozen=True)
class SpooledPlan:
    """A plan and what it was built on.

    Attributes:
        plan: the plan.
        after_batch: batch that was done before it.
        after_hash: hash of that batch's plan, "" for the first checkpoint of a flow.
    """

    plan: Plan
    after_batch: int
    after_hash: str

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        after = {"batch": self.after_batch, "plan_hash": self.after_hash}
        return SPOOLED_PLAN.write({"plan": self.plan.to_json(), "after": after})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SpooledPlan:
        """Read what `to_json` wrote."""
        data = SPOOLED_PLAN.read(data)
        return cls(Plan.from_json(data["plan"]), data["after"]["batch"], data["after"]["plan_hash"])


@dataclass(frozen=True)
class Chain:
    """Chain of batches moved since a checkpoint, in order.

    Attributes:
        outcomes: plans that every sink confirmed.
        pending: the plan after them, which was announced and may be dispatched in part; None when there is none.
    """

    outcomes: tuple[PlanOutcome, ...] = ()
    pending: Plan | None = None


class PlanSpool:
    """The spool of one flow: a file per plan, a file per outcome, named by batch and plan hash."""

    def __init__(self, segment_store: str, installation: str, flow: str):
        """Address the spool; nothing is made yet.

        Args:
            segment_store: the installation's segment store, a folder or fsspec URI.
            installation: name of the installation.
            flow: flow name.
        """
        self._flow = flow
        self._folder = DurableFolder(f"{segment_store.rstrip('/')}/{FOLDER}/{installation}/{flow}")

    def put_plan(self, plan: Plan, after: Checkpoint) -> None:
        """Write a plan down, durable when this returns; idempotent."""
        entry = SpooledPlan(plan, after.batch, after.plan_hash)
        self._folder.put(_name(plan.batch, plan.hash, "plan"), encode(entry.to_json()))

    def put_outcome(self, outcome: PlanOutcome, after: Checkpoint) -> None:
        """Write down that a plan is done, durable when this returns; idempotent.

        Args:
            outcome: what became of the plan.
            after: the checkpoint that the plan was built on: what is known of outputs is written where it is more.
        """
        plan = outcome.plan
        self._folder.put(_name(plan.batch, plan.hash, "outcome"), encode(outcome.to_json(after)))

    def holds(self, plan: Plan) -> bool:
        """Return whether a plan is written down here."""
        return self._folder.get(_name(plan.batch, plan.hash, "plan")) is not None

    def is_empty(self) -> bool:
        """Return whether nothing was ever written down, or all of it is reconciled."""
        return not self._folder.names()

    def clear(self) -> None:
        """Forget everything: it is in the checkpoint store."""
        for name in self._folder.names():
            self._folder.delete(name)

    def chain(self, committed: Checkpoint, said: Announcement) -> Chain:
        """Return what leads from the committed checkpoint to the plan that was announced last.

        Raises:
            MarkersAheadError: a plan or an outcome in between is not here, or they lead from another checkpoint.
            CheckpointFormatError: one is of a newer databus, or the committed checkpoint knows other outputs than then.
        """
        wanted, stored = (said.batch, said.plan_hash), list[bytes]()
        pending: Plan | None = None
        while wanted[0] > committed.batch:
            entry = self._plan(*wanted, committed)
            done = self._folder.get(_name(*wanted, "outcome"))
            if done is not None:
                stored.append(done)
            elif wanted == (said.batch, said.plan_hash):
                pending = entry.plan
            else:
                raise self._lost(f"the outcome of batch {wanted[0]} (plan {wanted[1]})", committed)
            wanted = (entry.after_batch, entry.after_hash)
            other = wanted != (committed.batch, committed.plan_hash) and not self._has(*wanted)
            if other and _continues(entry.plan, committed):
                log.warning(
                    "flow %s: batch %d was written down behind batch %d (plan %s), which is none of the flow's, by an "
                    "earlier databus; range and markers say that it follows batch %d (plan %s)",
                    self._flow, entry.plan.batch, *wanted, committed.batch, committed.plan_hash,
                )  # fmt: skip
                wanted = (committed.batch, committed.plan_hash)
        if wanted != (committed.batch, committed.plan_hash):
            raise self._lost(f"the plans that lead there from batch {wanted[0]} (plan {wanted[1] or '-'})", committed)
        outcomes, after = list[PlanOutcome](), committed
        for done in reversed(stored):
            read = partial(PlanOutcome.from_json, after=after)
            outcomes.append(decode_as(done, f"spooled outcome of {self._flow}", read))
            after = outcomes[-1].checkpoint
        return Chain(tuple(outcomes), pending)

    def _has(self, batch: int, plan_hash: str) -> bool:
        """Return whether something of a plan is here: then it is the flow's, and the checkpoint another one's."""
        return any(self._folder.get(_name(batch, plan_hash, kind)) is not None for kind in ("plan", "outcome"))

    def _plan(self, batch: int, plan_hash: str, committed: Checkpoint) -> SpooledPlan:
        data = self._folder.get(_name(batch, plan_hash, "plan"))
        entry = decode_as(data, f"spooled plan of {self._flow}", SpooledPlan.from_json) if data is not None else None
        if entry is None or entry.plan.hash != plan_hash:
            raise self._lost(f"the plan of batch {batch} (plan {plan_hash})", committed)
        return entry

    def _lost(self, what: str, committed: Checkpoint) -> MarkersAheadError:
        return MarkersAheadError(
            f"flow {self._flow}: batches were moved while ZooKeeper was away, and {what} is not in {self._folder}; "
            f"the checkpoint stands at batch {committed.batch}, {committed.offset}",
            hint="Bring that folder back (the segment store of the machine that ran the flow then), or go on from the "
            f"sinks' markers: databus checkpoint adopt {self._flow} (shows it; with --reason … --execute it is done)",
        )


def _continues(plan: Plan, committed: Checkpoint) -> bool:
    """Return whether a plan was made where a checkpoint stands, whatever its spool says that it was built on.

    Its number is the next one, it begins there, and in each of its sinks the writers were to find what the checkpoint
    says that the slots hold.
    """
    return (
        plan.batch == committed.batch + 1
        and plan.range.start.compare(committed.offset) is Ordering.EQUAL
        and all(tuple(pinned.prev) == tuple(committed.slots.get(sink, ())) for sink, pinned in plan.sinks.items())
    )


def _name(batch: int, plan_hash: str, what: str) -> str:
    return f"{batch:010d}-{plan_hash}.{what}.json"
