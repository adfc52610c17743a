"""Kafka evidence for the ledger: each slot's marker, and where each batch's records lie in the topics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from databus.core.state.evidence import CommittedState
from databus.core.state.plan import Plan
from databus.kafka.client import ClientSettings, LastError, kafka_error, sink_error
from databus.sinks.kafka.markers import Marker

_OUTPUT = re.compile(r"(?P<topic>.+)\[(?P<partition>\d+)\]")


def marker_problems(ledger: CommittedState, sink: str, markers: Sequence[Marker | None]) -> list[str]:
    """Return a line for each slot whose marker is not what the checkpoint says."""
    committed = ledger.checkpoint.slots.get(sink, ())
    problems = []
    for slot, batch in enumerate(committed):
        marker = markers[slot] if slot < len(markers) else None
        if marker is None and batch < max(committed):
            continue  # it took no part in the last batch: the number of slots was lowered, and its marker may expire
        problem = _marker_problem(ledger, batch, marker)
        if problem:
            problems.append(f"slot {slot}: {problem}")
    return problems


def _marker_problem(ledger: CommittedState, batch: int, marker: Marker | None) -> str:
    problem = ""
    if marker is None:
        if batch:
            problem = f"no marker, batch {batch} is committed: the marker expired, or the cluster is another"
    elif marker.batch == batch:
        wanted = ledger.hashes.get(batch, marker.hash)
        if marker.state == "written" and marker.hash != wanted:
            problem = f"the marker is {marker}, batch {batch} is committed with plan {wanted}"
        elif marker.state == "written" and not marker.last:
            problem = f"the marker is {marker}, the whole of batch {batch} is committed"
    elif marker.batch < batch:
        problem = f"the marker is behind: {marker}, batch {batch} is committed"
    elif marker.state != "abandoned" and not _in_flight(ledger, marker):
        problem = (
            f"the marker is ahead: {marker}, only batch {batch} is committed: "
            "ZooKeeper was restored from an older copy, or something else wrote"
        )
    return problem


def _in_flight(ledger: CommittedState, marker: Marker) -> bool:
    return ledger.plan is not None and (marker.batch, marker.hash) == (ledger.plan.batch, ledger.plan.hash)


def output_problems(ledger: CommittedState, ends: Mapping[str, int | None]) -> list[str]:
    """Return a line for each batch whose records cannot lie in the topics as its receipts say.

    What went to a topic that was deleted, as a person has accepted, is not looked for. Of a batch that was in flight
    then, the topic that is there now holds as many records as it wrote beyond those; control records are not
    distinguished from them, so that it is seen when more are missing than it has chunks in the partition.

    Args:
        ledger: what it says of the sink.
        ends: "topic[partition]" → its end (high watermark), None for one that is not there.
    """
    problems: list[str] = []
    last: dict[str, tuple[int, int]] = {}
    for begin, batch, output, facts in _told(ledger):
        if "first_offset" not in facts or not _is_there(ledger, begin, output):
            continue
        first, final, records = facts["first_offset"], facts["last_offset"], facts["records"]
        if records > final - first + 1:
            problems.append(f"batch {batch}: {output} cannot hold {records} records at {first}–{final}")
        before = last.get(output)
        if before is not None and first <= before[1]:
            problems.append(f"batch {batch}: {output} begins at {first}, batch {before[0]} ended at {before[1]}")
        last[output] = (batch, final)
    for output, records in sorted(_sent_since(ledger).items()):
        end, batch = ends.get(output), ledger.accepted[_topic(output)].upto
        wrote = f"batch {batch} wrote {records} records there since it was accepted"
        if end is None:
            problems.append(f"{output} is gone, {wrote}")
        elif end < records:
            problems.append(f"{output} ends at {end}, {wrote}: records were lost")
    for output, (batch, final) in sorted(last.items()):
        end = ends.get(output)
        if end is None:
            problems.append(f"{output} is gone, batch {batch} wrote up to {final}")
        elif end <= final:
            problems.append(f"{output} ends at {end}, batch {batch} wrote up to {final}: records were lost")
    return problems


def outputs_of(ledger: CommittedState) -> list[str]:
    """Return the "topic[partition]" names in the receipts, but of topics that are not there any more."""
    there = {output for begin, _, output, _ in _told(ledger) if _is_there(ledger, begin, output)}
    return sorted(there | _sent_since(ledger).keys())


def accepted_notes(ledger: CommittedState) -> list[str]:
    """Return a line for each topic of which receipts are not compared, since it was accepted as another."""
    skipped = {_topic(output) for begin, _, output, _ in _told(ledger) if not _is_there(ledger, begin, output)}
    since = {_topic(output) for output in _sent_since(ledger)}
    return [
        f"{topic} was accepted as another topic at {ledger.accepted[topic].at.isoformat(timespec='seconds')}: "
        f"what batches up to {ledger.accepted[topic].upto} wrote there is not looked for"
        + (f", but for what batch {ledger.accepted[topic].upto} wrote since" if topic in since else "")
        for topic in sorted(skipped)
    ]


def written_of(plan: Plan, markers: Sequence[Marker | None]) -> dict[str, int] | None:
    """Return "topic[partition]" → records that markers hold of a plan; None where one of them leaves that out."""
    found: dict[str, int] = {}
    for marker in markers:
        if marker is None or (marker.batch, marker.hash) != (plan.batch, plan.hash):
            continue
        if marker.outputs is None:
            return None
        for output, (_, _, records) in marker.outputs.items():
            found[output] = found.get(output, 0) + records
    return found


def _sent_since(ledger: CommittedState) -> dict[str, int]:
    """Return "topic[partition]" → records that a batch in flight wrote after its topic was accepted as another.

    Such a batch is merged with none. A part may end with its number though: where a sink that fell behind took the
    batch along, the flow's own part ends there without that sink, and says what it wrote before.
    """
    found: dict[str, int] = {}
    for begin, batch, output, facts in _told(ledger):
        accepted = ledger.accepted.get(_topic(output))
        if accepted is not None and accepted.written is not None and begin == accepted.upto == batch:
            found[output] = found.get(output, -accepted.written.get(output, 0)) + facts["records"]
    return {output: records for output, records in found.items() if records > 0}


def _told(ledger: CommittedState) -> Iterator[tuple[int, int, str, Mapping[str, Any]]]:
    """Yield first and last batch, "topic[partition]" and facts of all receipts, in their order."""
    for place, (batch, receipt) in enumerate(ledger.receipts):
        for output, facts in sorted(dict(receipt.get("outputs") or {}).items()):
            if _OUTPUT.fullmatch(output):
                yield ledger.begins.get(place, batch), batch, output, facts


def _topic(output: str) -> str:
    return output.rpartition("[")[0]


def _is_there(ledger: CommittedState, begin: int, output: str) -> bool:
    """Return whether batches from one on wrote to the topic that is there now, as far as people have said.

    Of several that were merged the first one counts: the sink wrote all of them before a topic was accepted, or behind.
    """
    accepted = ledger.accepted.get(_topic(output))
    return accepted is None or begin > accepted.upto


def ends_of(
    consumer: Consumer, settings: ClientSettings, partitions: Mapping[str, int], outputs: Sequence[str], seen: LastError
) -> dict[str, int | None]:
    """Return the high watermark of each output, None for one whose topic or partition is not there.

    Raises:
        SinkUnavailableError: no answer in time.
    """
    found: dict[str, int | None] = {}
    for output in outputs:
        match = _OUTPUT.fullmatch(output)
        if match is None:
            continue
        topic, partition = match["topic"], int(match["partition"])
        if partition >= partitions.get(topic, 0):
            found[output] = None
            continue
        try:
            marks: Any = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=settings.timeout_s)
        except KafkaException as error:
            raise sink_error(settings, f"read the end of {output}", kafka_error(error), seen) from error
        found[output] = marks[1]
    return found
