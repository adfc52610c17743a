"""Outputs a flow has written to, with their ids and names, and which of them were deleted or made anew."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from databus.core.state.checkpoint import Checkpoint


@dataclass(frozen=True)
class KnownOutputs:
    """The outputs of one sink as they were when the flow last wrote to them.

    Attributes:
        ids: output → id; "" where the server gave none.
        since: what was last known of them, in words: "batch 7 was committed at …".
        names: output → exact name, where characters of it were replaced; the name of another is its own.
    """

    ids: Mapping[str, str] = field(default_factory=dict)
    since: str = ""
    names: Mapping[str, str] = field(default_factory=dict)


NOTHING_KNOWN = KnownOutputs()


def known_outputs(checkpoint: Checkpoint | None, sink: str, live: Checkpoint | None = None) -> KnownOutputs:
    """Return what a checkpoint holds of a sink's outputs.

    Args:
        checkpoint: of the flow that writes, None before its first.
        sink: sink name.
        live: of the live flow, for what moves rows beside it to the same outputs; what it knows wins.
    """
    standings = [standing for standing in (checkpoint, live) if standing is not None]
    told = [at for at in standings if at.output_ids.get(sink) or at.output_names.get(sink)]
    if not told:
        return NOTHING_KNOWN
    ids = {output: id_ for at in told for output, id_ in at.output_ids.get(sink, {}).items()}
    names = {output: exact for at in told for output, exact in at.output_names.get(sink, {}).items()}
    checkpoint = told[-1]
    at = checkpoint.updated_at.isoformat(timespec="seconds")
    return KnownOutputs(ids, f"batch {checkpoint.batch} was committed at {at}", names)


@dataclass(frozen=True)
class ChangedOutput:
    """An output that is not the one that was written to.

    Attributes:
        output: its name.
        known: id of the one that was written to.
        found: id of the one that is there now, None for none.
    """

    output: str
    known: str
    found: str | None

    def __str__(self) -> str:
        was = f" (id {self.known})" if self.known else ""
        now = "none is there now" if self.found is None else f"another one is there now (id {self.found})"
        return f"{self.output}{was} was deleted, {now}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"output": self.output, "known": self.known or None, "found": self.found}


def changed_outputs(known: Mapping[str, str], found: Mapping[str, str]) -> list[ChangedOutput]:
    """Return the known outputs in whose place another one is found, or none; by name.

    Where a server gives no ids, only that an output is gone can be determined.
    """
    changed = []
    for output, id_ in sorted(known.items()):
        now = found.get(output)
        if now is None or (id_ and now and now != id_):
            changed.append(ChangedOutput(output, id_, now))
    return changed


def merged_outputs(
    before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]
) -> dict[str, Mapping[str, str]]:
    """Return sink → output → what is known of it, after a batch that names some; the others stay as they were."""
    return {**before, **{sink: {**before.get(sink, {}), **known} for sink, known in after.items() if known}}


def still_first(
    before: Mapping[str, Sequence[str]],
    pinned: Mapping[str, Sequence[str]],
    written: Mapping[str, Collection[str]],
) -> dict[str, tuple[str, ...]]:
    """Return sink → outputs whose first batch is still to come after a batch was committed, or given up.

    What a plan took for new stays so until a batch writes to it: attempts of one that was given up may have left
    something there, and then the output is not seen to be new any more.

    Args:
        before: what was still to come before it.
        pinned: sink → outputs that its plan took for new; of sinks that it does not name all stays.
        written: sink → outputs that it wrote to.
    """
    after = {sink: tuple(outputs) for sink, outputs in before.items()}
    for sink, new in pinned.items():
        after[sink] = tuple(sorted({*before.get(sink, ()), *new} - {*written.get(sink, ())}))
    return {sink: outputs for sink, outputs in after.items() if outputs}
