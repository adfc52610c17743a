"""Topics of transactions that several flows of a DAG folder write: a reader would find each transaction twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from databus.core.flow import Flow
from databus.ops.mirror.loops import Problem

SHARED = "sink_transaction_topic_shared"
"""Code of the problem."""


def shared_transaction_topics(flows: Iterable[Flow]) -> list[Problem]:
    """Return a problem for each topic of transactions that more than one flow writes by one connection.

    Two connections to one cluster are not seen: nothing is asked of any server.
    """
    writers: dict[tuple[str, str], list[str]] = {}
    for flow in flows:
        for place in _topics_of(flow):
            writers.setdefault(place, []).append(flow.name)
    return [
        Problem(
            SHARED,
            tuple(names),
            f"flows {', '.join(names)} write the boundaries of transactions to one topic {topic!r} of {conn_id}: a "
            "reader finds BEGIN and END of a transaction several times, with counts of other rows each time",
            'Put {flow} into transaction_topic, e.g. transaction_topic="{flow}.transactions", or name another topic.',
        )
        for (conn_id, topic), names in sorted(writers.items())
        if len(names) > 1
    ]


def _topics_of(flow: Flow) -> Iterator[tuple[str, str]]:
    """Yield (conn_id, topic) of each topic of transactions of a flow, once."""
    found = dict.fromkeys(
        (spec.conn_ids()[0][0], getattr(spec, option).replace("{flow}", flow.name))
        for spec in flow.sinks
        if (option := spec.needs_transactions())
    )
    yield from found
