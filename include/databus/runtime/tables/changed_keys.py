"""Primary keys that change while a flow runs: its records have other keys from there on."""

from __future__ import annotations

import logging

from databus.core.batching import Batching
from databus.core.errors.sink import SinkKeyChangedError
from databus.core.flow import Flow
from databus.core.positions.offsets import KafkaOffsets, Offset
from databus.core.protocols.source import Source
from databus.core.state.plan import SourcePlan
from databus.core.tables.column_moves import names_behind, stretches
from databus.core.tables.schemas import TableSchema

log = logging.getLogger(__name__)

_IN_TOPICS = ", and in a compacted topic the last records of former keys stay"


class ChangedKeys:
    """The key of each table as a run has seen it last, and what its columns are called since."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def tell(self, flow: Flow, planned: SourcePlan) -> None:
        """Log each table whose key changes in a range, or since the one before; a topic has two keys at any time.

        A key column under another name is another key, since records name it, and so is another column under its name.

        Args:
            flow: the flow.
            planned: the range; its definitions are numbered in the order of the log.
        """
        if isinstance(planned.range.end, KafkaOffsets):
            return
        definitions = {table.schema_id: table for table in planned.tables}
        moved = [each.table for each in planned.columns_moved if each.table in self._keys]
        for name in dict.fromkeys([*(each.full_name for _, each in sorted(definitions.items())), *moved]):
            for stretch in stretches(planned, name):
                if stretch.moved is not None and name in self._keys:
                    before, called = self._keys[name]
                    self._keys[name] = before, names_behind(called, stretch.moved.columns)
                for number, _ in stretch.first:
                    self._tell(flow, planned, definitions[number])

    def _tell(self, flow: Flow, planned: SourcePlan, table: TableSchema) -> None:
        name, now = table.full_name, table.primary_key
        before, called = self._keys.get(name, (now, now))
        self._keys[name] = now, now
        if before != now:
            what = f"was ({', '.join(before)})"
        elif called != now:
            what = f"these were other columns before, now ({', '.join(each or 'dropped' for each in called)})"
        else:
            return
        log.warning(
            "flow %s: the primary key of %s is (%s) in %s, and %s: its rows have other keys from there on%s",
            flow.name, name, ", ".join(now), planned.range, what,
            _IN_TOPICS if any(sink.kind == "kafka" for sink in flow.sinks) else "",
        )  # fmt: skip


def before_another_key(
    source: Source, after: Offset, proposed: SourcePlan, refused: SinkKeyChangedError, limit: Batching
) -> SourcePlan:
    """Plan again, to where the definition that a sink refused begins; the next batch stops there.

    Rows of the former key go where their documents are. A new index then gets none of them: written there they would
    stay under ids that no later row has.

    Args:
        source: proposed the range.
        after: offset after which it did.
        proposed: the range; what is staged of it is discarded.
        refused: what the sink said.
        limit: bounds under which it was proposed.

    Raises:
        SinkKeyChangedError: nothing lies before it, or the source does not report where it begins.
    """
    rows = refused.rows_before
    if rows < 0 and 0 <= refused.definition < len(proposed.rows_before):
        rows = proposed.rows_before[refused.definition]
    shorter = source.plan(after, limit.model_copy(update={"max_rows": rows})) if rows > 0 else None
    if shorter is None or shorter.rows >= proposed.rows:
        raise refused
    log.info("%s ends at %s: %s", proposed.range, shorter.range.end, refused.message)
    source.discard(proposed)
    return shorter
