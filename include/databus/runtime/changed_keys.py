"""Primary keys that change while a flow runs: its records have other keys from there on."""

from __future__ import annotations

import logging

from databus.core.flow import Flow
from databus.core.offsets import KafkaOffsets
from databus.core.plan import SourcePlan

log = logging.getLogger(__name__)

_IN_TOPICS = ", and in a compacted topic the last records of former keys stay"


class ChangedKeys:
    """The key of each table as a run has seen it last."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[str, ...]] = {}

    def tell(self, flow: Flow, planned: SourcePlan) -> None:
        """Log each table whose key changes in a range, or since the one before; a topic has two keys at any time.

        Args:
            flow: the flow.
            planned: the range; its definitions are numbered in the order of the log.
        """
        if isinstance(planned.range.end, KafkaOffsets):
            return
        for table in sorted(planned.tables, key=lambda each: each.schema_id):
            before = self._keys.get(table.full_name, table.primary_key)
            if before != table.primary_key:
                log.warning(
                    "flow %s: the primary key of %s is (%s) in %s, and was (%s): its rows have other keys from there "
                    "on%s",
                    flow.name, table.full_name, ", ".join(table.primary_key), planned.range, ", ".join(before),
                    _IN_TOPICS if any(sink.kind == "kafka" for sink in flow.sinks) else "",
                )  # fmt: skip
            self._keys[table.full_name] = table.primary_key
