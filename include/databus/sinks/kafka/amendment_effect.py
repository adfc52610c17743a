"""Amendment effect of moving a flow's checkpoint on its topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from confluent_kafka.admin._config import ConfigResource

from databus.core.state.amendments import SinkEffect

if TYPE_CHECKING:
    from databus.sinks.kafka.topics.cluster_topics import Topics


def effect_of(sink: str, topics: Topics, outputs: Sequence[str], *, back: bool) -> SinkEffect:
    """Say what readers of a flow's topics see after a move; a compacted topic is not rewound without consent.

    Args:
        sink: sink name.
        topics: the cluster's topics.
        outputs: "topic[partition]", or the topic's name, of what was written in the range that is passed.
        back: whether the move goes back.
    """
    if not back:
        return SinkEffect(sink, "the rows passed over are never sent; the records of their keys stay as they were")
    known = topics.partitions()
    written = sorted({output.rpartition("[")[0] or output for output in outputs})
    names, gone = [name for name in written if name in known], [name for name in written if name not in known]
    told = []
    if names or not gone:
        who = f"{', '.join(names)} {'gets' if len(names) == 1 else 'get'}" if names else "its topics get"
        told.append(
            f"{who} duplicates, appended behind what is there, with the event ids they had "
            "(header event_id), by which consumers can drop them"
        )
    if gone:
        told.append(f"not there any more, and so without duplicates: {', '.join(gone)}")
    settings = topics.configs(ConfigResource.Type.TOPIC, names) if names else {}
    compacted = [name for name in names if "compact" in settings[name].get("cleanup.policy", "")]
    refused = (
        f"{', '.join(compacted)} is compacted: until the flow has caught up, a key's newest record is an older state"
        if compacted
        else ""
    )
    return SinkEffect(sink, "; ".join(told), refused)
