"""Open sequence table."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from databus.core.batching import Batching
from databus.core.errors.root import DatabusError
from databus.core.findings import Finding, Level
from databus.core.positions.lag import Lag
from databus.core.positions.offsets import Offset, OffsetRange, Ordering
from databus.core.state.plan import SourcePlan
from databus.sources.sequence_table.spec import SequenceTable
from databus.sources.simple_source import OpenSimpleSource

logger = logging.getLogger(__name__)


class OpenSequenceTable(OpenSimpleSource):
    """See `Source`."""

    def __init__(self, spec: SequenceTable):
        super().__init__(spec)
        self._table = spec

    def preflight(self, start: Offset | None) -> Sequence[Finding]:
        """Look at table, server, rights and the start."""
        subject, log = self._table.label(), self._table.log
        found = list(log.findings())
        if all(finding.level is not Level.ERROR for finding in found) and start is not None:
            try:
                log.require_there(start)
            except DatabusError as error:
                found.append(Finding.of(subject, error))
        return found or [Finding(subject, Level.OK, "answers, and its table can be read without a gap")]

    def plan(self, after: Offset, limit: Batching) -> SourcePlan | None:
        """Return the next range that has rows; looks at the table until `limit.max_seconds` are over."""
        log = self._table.log
        deadline: float | None = None
        while True:
            for find_end in (log.end_after, log.end_behind_window):
                end = find_end(after)
                if end is not None and after.compare(end) is Ordering.BEFORE:
                    found = self._describe(OffsetRange(after, end), limit)
                    if found.rows:
                        log.noted(found.range, found.rows)
                        return found
            # The first look may take long: it connects, and asks for the table's columns.
            deadline = deadline or time.monotonic() + limit.max_seconds
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(left, self._table.poll_interval_s))

    def plan_up_to(self, wanted: OffsetRange, limit: Batching) -> SourcePlan:
        """Return the first rows of a range whose end the flow has been at."""
        self._table.log.require_there(wanted.end)
        return self._describe(wanted, limit)

    def release(self, plan: SourcePlan) -> None:
        """Clean what was delivered, where the flow is to do it; a failure is logged, and the next one does it."""
        if not self._table.clean:
            return
        try:
            self._table.log.clean(plan.range, plan.rows)
        except DatabusError as error:
            logger.warning("rows of %s are not cleaned: %s", self._table.table, error)

    def lag(self, committed: Offset) -> Lag:
        """Measure the age of the first row behind a place, also one that cannot be read yet; bytes are not known."""
        now, first = datetime.now(UTC), self._table.log.first_behind(committed)
        if first is None:
            return Lag(0, 0.0, str(committed), now)
        return Lag(None, max(0.0, (now - first).total_seconds()), f"behind {committed}", now)

    def close(self) -> None:
        """Close what is open."""
        self._table.log.close()

    def _reached(self, place: Offset) -> Offset:
        self._table.log.require_there(place)
        return place
