"""Topic identity check: whether topics are still those that a flow wrote to, before and while rows are written."""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from databus.core.errors.sink import SinkError, SinkOutputChangedError, SinkSettingError, SinkUnavailableError
from databus.core.state.known_outputs import ChangedOutput, KnownOutputs, changed_outputs
from databus.core.state.plan import Plan
from databus.kafka.client import ClientSettings
from databus.sinks.kafka.topics.cluster_topics import Topics

log = logging.getLogger(__name__)

_PATIENCE_S = 2.0
"""A writer waits so long for an answer."""

_PAUSES_S = (1.0, 2.0, 2.0, 2.5, 2.5)
"""A broker may lag behind the others in what topics there are, one that has just come back by seconds: what says that
one was deleted is asked again after each of these. Another topic in its place is believed at the first."""


def require_standing(topics: Topics, known: KnownOutputs, flow: str, sink: str, *, anew: bool = False) -> None:
    """Refuse topics that are not those that were written to; what is known of them is at most a second old.

    It is sure at once of those that are there, within a second of another in the place of one, and within ten that
    nothing is there.

    Args:
        topics: the cluster's topics.
        known: what was written to.
        flow: name of the flow, or of what moves rows beside it.
        sink: sink name.
        anew: ask the brokers in any case.

    Raises:
        SinkOutputChangedError: one was deleted; nothing or another one is in its place.
        SinkAccessError: one may not be looked at.
        SinkUnavailableError: no answer.
    """
    if not changed_outputs(known.ids, topics.ids(known.ids, anew=anew)):
        return
    changed = _changed_for_sure(topics, known)
    if not changed:
        return
    live = flow.partition(".")[0]
    listed = "; ".join(f"topic {output}" for output in changed)
    raise SinkOutputChangedError(
        f"flow {flow}, sink {sink} at {topics.settings.conn_id}: {listed}; last known when "
        f"{known.since or 'rows were written to it'}",
        hint="What the flow had written there is gone, and nothing more is written until a person decides. "
        f"`databus checkpoint rewind {live} …` sends it again, `databus checkpoint accept {live}` goes on without it; "
        "see docs/runbooks/topic-deleted.md.",
    )


def _changed_for_sure(topics: Topics, known: KnownOutputs) -> Sequence[ChangedOutput]:
    """Look again and again while topics are missing; those in whose place another one is end it at once."""
    changed: Sequence[ChangedOutput] = ()
    for pause_s in _PAUSES_S:
        time.sleep(pause_s)
        changed = changed_outputs(known.ids, topics.ids(known.ids, anew=True))
        replaced = [output for output in changed if output.found is not None]
        if replaced or not changed:
            return replaced
    return changed


@dataclass(frozen=True)
class PinnedTopics:
    """Topic identity check of a writer between its rows, in whatever process it runs; picklable.

    Attributes:
        flow: flow name.
        sink: sink name.
        known: topics that its plan pinned.
        client: how to reach the cluster.
    """

    flow: str
    sink: str
    known: KnownOutputs
    client: ClientSettings

    @classmethod
    def of(cls, plan: Plan, sink: str, client: ClientSettings) -> PinnedTopics:
        """Return it for a plan."""
        since = f"batch {plan.batch} was planned at {plan.clock.isoformat(timespec='seconds')}"
        return cls(plan.flow, sink, KnownOutputs(plan.sinks[sink].ids, since), client)

    def require(self, *, anew: bool = False) -> None:
        """Raise as `require_standing`, but for brokers that do not answer soon: what is written next finds out.

        Without ids in the plan nothing is asked.
        """
        if not self.known.ids:
            return
        try:
            require_standing(_topics_of(self.client), self.known, self.flow, self.sink, anew=anew)
        except SinkUnavailableError as error:
            log.info("flow %s: whether its topics are still there is not known: %s", self.flow, error)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say what stands behind an unknown topic that the block runs into: that it was deleted."""
        try:
            yield
        except SinkSettingError as error:
            try:
                self.require(anew=True)
            except SinkOutputChangedError as cause:
                raise cause from error
            except SinkError:
                raise error from None
            raise


_opened: dict[tuple[str, str], Topics] = {}
atexit.register(_opened.clear)  # clients are destroyed while the interpreter lives: librdkafka's threads call into it
_pid = os.getpid()


def _topics_of(client: ClientSettings) -> Topics:
    """Return this process's client of a cluster, which is kept from batch to batch."""
    global _pid  # noqa: PLW0603 - a fork copies it
    if _pid != os.getpid():
        _opened.clear()  # a forked parent's
        _pid = os.getpid()
    place, patient = (client.conn_id, client.servers), replace(client, timeout_s=min(client.timeout_s, _PATIENCE_S))
    topics = _opened.get(place)
    if topics is None or topics.settings != patient:
        topics = _opened[place] = Topics(patient)
    return topics


def standing_ids(topics: Topics, wanted: Collection[str]) -> dict[str, str]:
    """Return topic → id of topics that have just been made or found; without those that no broker reports in time.

    Raises:
        SinkError: see `Topics.ids`.
    """
    deadline = time.monotonic() + topics.settings.timeout_s
    found = topics.ids(wanted)
    while len(found) < len(wanted) and time.monotonic() < deadline:
        time.sleep(0.05)  # the broker that is asked may not have heard of it yet
        found = topics.ids(wanted, anew=True)
    return found
