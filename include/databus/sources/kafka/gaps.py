"""Records of a Kafka source that are gone before they were read: refused by name, or passed over as the flow wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from databus.core.errors.source import OffsetPurgedError, SourceUnavailableError
from databus.core.positions.offsets import KafkaOffsets, OffsetRange
from databus.core.state.plan import LostRange, SourcePlan
from databus.kafka.cluster import KafkaCluster, Place
from databus.sources.kafka.fetch import FetchRange
from databus.sources.kafka.positions import (
    DELETED,
    JOINED,
    RECREATED,
    RETENTION,
    TRUNCATED,
    LogState,
    PartitionGap,
    behind_gaps,
    behind_lost,
    gaps,
)
from databus.sources.kafka.ranges import kafka_offsets
from databus.sources.kafka.rows import log_name
from databus.sources.kafka.spec import KafkaTopics

_CHOICES = (
    "Nothing was moved. Choose: `databus checkpoint skip {flow} --past-gap --reason … --execute` passes over the range "
    'knowingly and names it as a gap; on_gap="earliest" or "latest" of the source does so by itself from now on.'
)
_KEEP_LONGER = " Raise retention.ms of the topic above the longest pause of the flow."


class KafkaGaps:
    """Finds gaps and follows the source's policy.

    Args:
        spec: the source; its `on_gap` is the policy.
        cluster: asked what is written behind the last stable offsets.
        flow: whose gaps they are.
    """

    def __init__(self, spec: KafkaTopics, cluster: KafkaCluster, flow: str):
        self._spec, self._cluster, self._flow = spec, cluster, flow

    def found(self, start: KafkaOffsets, state: LogState) -> list[PartitionGap]:
        """Return the gaps between an offset and the logs.

        Raises:
            SourceUnavailableError: no answer in time.
        """
        found = gaps(start, state)
        suspects = [gap.place for gap in found if gap.cause == TRUNCATED]
        if suspects and self._spec.isolation == "read_committed":
            # A flow that read uncommitted records before stands behind the last stable offset: that is no truncation.
            written = self._cluster.written(suspects)
            found = [gap for gap in found if gap.cause != TRUNCATED or gap.position > written.get(gap.place, 0)]
        return found

    def refuse(self, start: KafkaOffsets, state: LogState) -> list[PartitionGap]:
        """Return the gaps that the policy passes over.

        Raises:
            OffsetPurgedError: there are others.
        """
        found = self.found(start, state)
        if self._spec.on_gap == "fail" and any(gap.cause != JOINED for gap in found):
            raise self.purged(start, state, found, "records that were still to be read are gone")
        return found

    def refuse_untold(self, places: Mapping[Place, int], state: LogState, when: datetime) -> None:
        """Refuse a moment that lies where records were deleted: some of them may have come after it.

        Raises:
            OffsetPurgedError: so it is in a partition.
        """
        untold = sorted(place for place, offset in places.items() if 0 < state.earliest[place] == offset)
        if untold:
            named = ", ".join(f"{log_name(*place)} (deleted up to {state.earliest[place]})" for place in untold[:5])
            more = f" and {len(untold) - 5} more" if len(untold) > 5 else ""
            raise OffsetPurgedError(
                f"{self._cluster.where}: where {when.isoformat()} lies cannot be determined, for nothing older is left "
                f"of {named}{more}",
                hint='Begin at a later time or at earliest; on_gap="earliest" of the source takes what is left.',
            )

    def purged(
        self, start: KafkaOffsets, state: LogState, missing: Sequence[PartitionGap], what: str
    ) -> OffsetPurgedError:
        """Return the error that names gaps, with the range that is missing.

        Args:
            start: where the flow stands.
            state: what the logs hold.
            missing: the gaps.
            what: what happened.
        """
        longer = _KEEP_LONGER if any(gap.cause == RETENTION for gap in missing) else ""
        error = OffsetPurgedError(
            f"{self._cluster.where}: {what}: {_named(missing)}", hint=_CHOICES.format(flow=self._flow) + longer
        )
        if told := [gap for gap in missing if gap.cause != DELETED]:
            error.missing = OffsetRange(start, replace(behind_gaps(start, state, told, "earliest"), passed=False))
        return error

    def lost_of(
        self, planned: OffsetRange, stretches: Sequence[FetchRange], state: LogState, *, passes: bool, view: bool
    ) -> LostRange | None:
        """Return what the logs have lost of a planned range, None for nothing.

        Args:
            planned: the range.
            stretches: what was to be read of it.
            state: what the logs hold of its topics.
            passes: whether it may be passed over.
            view: whether the range is a piece of a view, for which no log may have been replaced.

        Raises:
            OffsetPurgedError: something is gone that may not be passed over.
            SourceUnavailableError: a partition is not there at the moment.
        """
        start, end = kafka_offsets(planned.start), kafka_offsets(planned.end)
        gone = self._gone(stretches, end, state)
        if not gone:
            return None
        if not passes or (view and any(gap.cause != RETENTION for gap in gone)):
            raise self.purged(start, state, gone, f"of the planned range {planned} records are gone")
        begin = behind_lost(start, {(s.topic, s.partition): s.end for s in stretches}, gone)
        why = f"on_gap={self._spec.on_gap}: {_named(gone)}; they were planned, and what is left is read"
        return LostRange(OffsetRange(start, begin), why)

    def _gone(self, stretches: Sequence[FetchRange], end: KafkaOffsets, state: LogState) -> list[PartitionGap]:
        positions: dict[str, dict[int, int]] = {}
        for s in stretches:
            positions.setdefault(s.topic, {})[s.partition] = s.begin
        found = {gap.place: gap for gap in self.found(KafkaOffsets(positions, end.ids), state)}
        gone = []
        for s in stretches:
            place = s.topic, s.partition
            if place in state.ends:
                gone += [found[place]] if place in found else []
            elif s.topic not in state.ids:
                gone.append(PartitionGap(place, DELETED, s.begin, s.end, s.end))
            elif state.ids[s.topic] != end.ids.get(s.topic):  # made anew with fewer partitions
                gone.append(PartitionGap(place, RECREATED, s.begin, 0, 0))
            else:
                raise SourceUnavailableError(
                    f"{self._cluster.where}: {log_name(*place)} of the planned range is not there at the moment",
                    hint="Nothing was moved. The topic is being made or deleted; the next attempt shows which.",
                )
        return gone

    def passing(self, start: KafkaOffsets, state: LogState, missing: Sequence[PartitionGap]) -> SourcePlan:
        """Return a plan that passes over gaps and moves nothing, as the policy wants."""
        policy = "earliest" if self._spec.on_gap == "fail" else self._spec.on_gap
        end = behind_gaps(start, state, missing, policy)
        passed = f"on_gap={self._spec.on_gap}: {_named(missing)}"
        return SourcePlan(OffsetRange(start, end), (), 0, 0, more=True, passed=passed)


def _named(missing: Sequence[PartitionGap]) -> str:
    return "; ".join(str(gap) for gap in missing[:5]) + (f"; {len(missing) - 5} more" if len(missing) > 5 else "")
