"""A batch that ends before the rows of another key, so that those before them are delivered under the ids they have."""

from __future__ import annotations

import logging

from databus.core.batching import Batching
from databus.core.errors.sink import SinkKeyChangedError
from databus.core.positions.offsets import Offset
from databus.core.protocols.source import Source
from databus.core.state.plan import SourcePlan

log = logging.getLogger(__name__)


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
        SinkKeyChangedError: nothing lies before it, or the source does not tell where it begins.
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
