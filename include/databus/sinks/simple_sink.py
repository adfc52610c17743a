"""Open simple sink: one writer per batch, and its marker where the sink keeps one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from databus.core.batches.receipts import WriteReceipt
from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import MarkerDivergedError, SinkFencedError
from databus.core.events import Op
from databus.core.findings import Finding, Level
from databus.core.positions.offsets import offset_from_json
from databus.core.protocols.sink import FencedPlan, SlotWriter
from databus.core.state.amendments import SinkEffect
from databus.core.state.evidence import CommittedState, Evidence
from databus.core.state.plan import Plan, SinkPlan, SourcePlan
from databus.core.state.sink_markers import ClaimRegister, SlotMark
from databus.core.tables.schemas import TableSchema
from databus.sinks.simple import SimpleSink
from databus.sinks.simple_rows import SimpleEncoder, SimpleRows, encoded_frame

if TYPE_CHECKING:
    import pyarrow as pa

AGAIN = "at least once: a batch that is tried again is written again, under the same event ids"
_LARGEST_END = 2_000
"""Bytes of an offset's JSON that a marker still carries."""


@dataclass(frozen=True)
class SimpleMarker:
    """Marker, read from its text.

    Attributes:
        batch: batch number.
        plan: hash of its plan.
        end: offset of the range's end, None for one that is too large for a marker.
        closed: whether the batch was closed with nothing of it written.
    """

    batch: int
    plan: str
    end: Mapping[str, Any] | None = None
    closed: bool = False

    @classmethod
    def of(cls, plan: Plan, *, closed: bool = False) -> SimpleMarker:
        """Return the marker of a plan."""
        end = plan.range.end.to_json()
        return cls(plan.batch, plan.hash, end if len(json.dumps(end)) <= _LARGEST_END else None, closed)

    @classmethod
    def parse(cls, text: str) -> SimpleMarker:
        """Read what `str` wrote.

        Raises:
            MarkerDivergedError: it is no marker of ours.
        """
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise MarkerDivergedError(f"the sink's marker cannot be read: {text!r}") from error

    def __str__(self) -> str:
        return json.dumps({"batch": self.batch, "plan": self.plan, "end": self.end, "closed": self.closed})

    def is_of(self, plan: Plan) -> bool:
        """Return whether it is the marker of a plan."""
        return (self.batch, self.plan) == (plan.batch, plan.hash)


@dataclass(frozen=True)
class SimpleWriter:
    """Writer of a plan; picklable.

    Attributes:
        sink: the sink, with its connection; neither is printed.
        name: "installation/flow/sink".
        plan: the plan.
    """

    sink: SimpleSink
    name: str
    plan: Plan

    def write(self, rows: Iterable[pa.RecordBatch], slot: int) -> WriteReceipt:  # noqa: ARG002 - there is one slot
        """Write the rows, unless the marker shows that they are there.

        Raises:
            MarkerDivergedError: the marker is neither this plan's nor that of the batch before it.
        """
        if self.sink.profile != "exactly_once":
            given = SimpleRows(rows, self.name, self.plan.batch, end=self.plan.range.end)
            first = next(encoded := iter(given.encoded), None)
            if first is None:
                return given.receipt()
            return self.sink.write(replace(given, encoded=_chained(first, encoded)))
        text = self.sink.last_marker(self.name)
        marker = None if text is None else SimpleMarker.parse(text)
        ours = str(SimpleMarker.of(self.plan))
        given = SimpleRows(rows, self.name, self.plan.batch, ours, text, self.plan.range.end)
        if marker is not None and marker.is_of(self.plan) and not marker.closed:
            for _ in given.batches():
                pass
            return replace(given.receipt(), duplicate=True)
        before = self.plan.sinks[self.sink.sink_name].prev[0]
        if (0 if marker is None else marker.batch) != before:
            raise MarkerDivergedError(
                f"sink {self.sink.sink_name}: its marker is {text}, batch {self.plan.batch} goes on from {before}"
            )
        return self.sink.write(given)


@dataclass(frozen=True)
class SimpleFence:
    """A plan in flight at a sink with a marker.

    It keeps no writer away by itself: one that looked before and writes later is stopped only if the sink's `write`
    compares `rows.previous` in its transaction.

    Attributes:
        writer: writer of the plan.
    """

    writer: SimpleWriter

    def held(self) -> Sequence[int]:
        """Return slot 0 where the marker is the plan's."""
        marker = self._marker()
        return (0,) if marker is not None and marker.is_of(self.writer.plan) and not marker.closed else ()

    def abandon(self) -> Mapping[int, str]:
        """Close the plan: its marker is written without rows.

        Raises:
            SinkFencedError: a writer of the plan came in between.
            MarkerDivergedError: the marker has nothing to do with the plan.
        """
        marker, plan = self._marker(), self.writer.plan
        if marker is not None and marker.is_of(plan):
            if not marker.closed:
                raise SinkFencedError(f"sink {self.writer.sink.sink_name}: batch {plan.batch} was written meanwhile")
            return {0: "abandoned"}
        before = plan.sinks[self.writer.sink.sink_name].prev[0]
        if (0 if marker is None else marker.batch) != before:
            raise MarkerDivergedError(
                f"sink {self.writer.sink.sink_name}: its marker is {marker}, batch {plan.batch} went on from {before}"
            )
        self._put(SimpleMarker.of(plan, closed=True), marker)
        return {0: "abandoned"}

    def put_back(self) -> None:
        """Open the plan again where it is closed: the marker becomes that of the batch before."""
        marker, plan = self._marker(), self.writer.plan
        if marker is not None and marker.is_of(plan) and marker.closed:
            before = plan.sinks[self.writer.sink.sink_name].prev[0]
            self._put(SimpleMarker(before, ""), marker)

    def remember(self) -> None:
        """Write the marker of the batch before where there is none."""
        before = self.writer.plan.sinks[self.writer.sink.sink_name].prev[0]
        if before and self._marker() is None:
            self._put(SimpleMarker(before, ""), None)

    def discard(self) -> None:
        """Close nothing: no connection is open."""

    def _marker(self) -> SimpleMarker | None:
        text = self.writer.sink.last_marker(self.writer.name)
        return None if text is None else SimpleMarker.parse(text)

    def _put(self, marker: SimpleMarker, previous: SimpleMarker | None) -> None:
        there = None if previous is None else str(previous)
        self.writer.sink.write(SimpleRows((), self.writer.name, self.writer.plan.batch, str(marker), there))


class OpenSimpleSink:
    """An open simple sink."""

    def __init__(self, spec: SimpleSink, name: str):
        self._spec, self._name = spec, name

    @property
    def marked(self) -> bool:
        """Return whether it keeps a marker."""
        return self._spec.profile == "exactly_once"

    def marks(self, slots: int, *, settled: bool = True) -> Sequence[SlotMark | None]:  # noqa: ARG002 - the protocol's
        """Return the marker of the one slot."""
        text = self._spec.last_marker(self._name) if self.marked else None
        if text is None:
            return (None,) * slots
        marker = SimpleMarker.parse(text)
        end = None if marker.end is None else offset_from_json(marker.end)
        mark = SlotMark(marker.batch, marker.plan, end, at="" if end is None else str(end), closed=marker.closed)
        return (mark, *(None,) * (slots - 1))

    def register(self) -> ClaimRegister:
        """Refuse: two holders cannot be distinguished by one marker.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"sink {self._spec.sink_name} of kind {self._spec.kind} holds no register of claims",
            hint="Use on_zookeeper_loss=stop, or name a Kafka sink before it.",
        )

    def preflight(self) -> Sequence[Finding]:
        """Ask for an answer, and say what is promised."""
        try:
            self._spec.ping()
        except DatabusError as error:
            return [Finding.of(f"sink {self._spec.sink_name}", error)]
        told = "exactly once, by a marker that is kept with the rows" if self.marked else AGAIN
        return [Finding(f"sink {self._spec.sink_name}", Level.OK, told)]

    def accepts(self) -> frozenset[str]:
        """Return every operation; a row that the source filtered is none."""
        return frozenset(op.value for op in Op if op is not Op.FILTERED)

    def prepare(self, plan: SourcePlan, outputs: Sequence[tuple[TableSchema, str]]) -> SinkPlan:  # noqa: ARG002
        """Return a plan with one slot; the server has to answer."""
        self._spec.ping()
        return SinkPlan()

    def wrote_any_of(self, plan: Plan) -> bool:
        """Return whether the marker is the plan's; False without markers."""
        return self.marked and bool(self._fence(plan).held())

    def abandon(self, plan: Plan) -> Mapping[int, str]:
        """Close a plan; nothing without markers."""
        if not self.marked:
            return {}
        return {0: "written"} if self.wrote_any_of(plan) else self._fence(plan).abandon()

    def fence(self, plan: Plan) -> FencedPlan | None:
        """Return the plan in flight, None without markers."""
        return self._fence(plan) if self.marked else None

    def effect_of(self, outputs: Sequence[str], *, back: bool) -> SinkEffect:  # noqa: ARG002 - all outputs alike
        """Say what a move of the checkpoint does."""
        effect = "rows come again, under the same event ids" if back else "the rows passed over never come"
        return SinkEffect(self._spec.sink_name, effect)

    def evidence(self, claim: CommittedState) -> Evidence:
        """Compare the marker with the checkpoint; without one nothing can be compared."""
        subject = f"sink {self._spec.sink_name}"
        if not self.marked:
            return Evidence(subject, (f"{AGAIN}; a sink of kind {self._spec.kind} shows nothing of what it holds",))
        text = self._spec.last_marker(self._name)
        marker = None if text is None else SimpleMarker.parse(text)
        committed = (claim.checkpoint.slots.get(self._spec.sink_name) or (0,))[0]
        in_flight = claim.plan is not None and marker is not None and marker.is_of(claim.plan)
        problems: tuple[str, ...] = ()
        if (marker.batch if marker else 0) != committed and not in_flight:
            problems = (f"its marker is {text}, batch {committed} is committed",)
        elif marker and marker.batch == committed and marker.plan not in ("", claim.hashes.get(committed, marker.plan)):
            problems = (f"its marker is {text}, batch {committed} is committed with plan {claim.hashes[committed]}",)
        return Evidence(subject, (f"marker {text} against batch {committed}; rows are not compared",), problems)

    def encode(self, rows: Any, plan: Plan) -> Any:  # noqa: ARG002 - the protocol's signature
        """Return the DataFrame of the writer's columns."""
        return encoded_frame(rows)

    def encoder(self, plan: Plan) -> SimpleEncoder:  # noqa: ARG002 - the protocol's signature
        """Return the encoder of the direct lane; it gives the same columns."""
        return SimpleEncoder()

    def writer(self, plan: Plan) -> SlotWriter:
        """Return the plan's writer."""
        return SimpleWriter(self._spec, self._name, plan)

    def close(self) -> None:
        """Nothing is open between two calls."""

    def _fence(self, plan: Plan) -> SimpleFence:
        return SimpleFence(SimpleWriter(self._spec, self._name, plan))


def _chained(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    yield first
    yield from rest
