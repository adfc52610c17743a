"""Tables that a flow reads and that are gone: looked for now and then while its window goes on, and reported once."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection

from databus.binlog.log.capture import is_name
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.positions.offsets import KafkaOffsets, Offset
from databus.core.positions.topics_read import TopicsRead
from databus.core.protocols.optional_source import DefinedSource
from databus.core.protocols.source import Source
from databus.core.state.checkpoint import Checkpoint
from databus.runtime.tables.rotated_topics import RotatedTopics

log = logging.getLogger(__name__)

EVERY_S = 60.0
"""Seconds from a look to the next one."""

APART_S = 1.0
"""Seconds from a look to the next one at the least, whatever statements the log holds."""


def really_gone(flow: Flow, source: DefinedSource, standing: Offset, read: TopicsRead | None = None) -> tuple[str, ...]:
    """Return what a flow that stands somewhere reads and what is not there any more; what may still come is left out.

    That is a name or pattern of which the flow says that it may come later, and a pattern where all patterns wait: of
    these only topics that the offset knows, and that went with records left, or nobody knows.

    Args:
        flow: the flow.
        source: its source, open.
        standing: where the flow stands.
        read: what its last run wrote down of topics that only patterns name; None for nothing.

    Raises:
        SourceError: the source cannot be asked.
    """
    spec, known = flow.source, standing.positions if isinstance(standing, KafkaOffsets) else ()

    def may_come(name: str) -> bool:
        return spec.tables_may_come_later or (spec.patterns_wait and not spec.names_one(name))

    def went(name: str) -> bool:
        return read is not None and name not in read.unread and spec.rotates(name)

    gone = source.tables_gone(standing)
    return tuple(sorted(n for n in gone if (not went(n) if n in known else not may_come(n))))


class MissingTables:
    """Missing tables: named by a flow and not at its source; a source that does not know misses none.

    A flow is not stopped by it: rows of before may lie in the log, and the batch that cannot treat its rows says so.

    Args:
        flow: the flow.
        source: its source, open.
        monotonic: gives the time in seconds.
        rotated: the topics that went as their pattern lets them; None where no source has some, or nothing is kept.
    """

    def __init__(
        self,
        flow: Flow,
        source: Source,
        monotonic: Callable[[], float] = time.monotonic,
        rotated: RotatedTopics | None = None,
    ):
        self._flow, self._now, self._rotated = flow, monotonic, rotated
        self._source = source if isinstance(source, DefinedSource) else None
        self._told: tuple[str, ...] = ()
        self._looked = self._due = math.inf

    @property
    def names(self) -> tuple[str, ...]:
        """Names and patterns that were missing at the last look."""
        return self._told

    def known(self, missing: Collection[str]) -> None:
        """Take over what was reported already."""
        self._told = tuple(missing)

    def begin(self, seconds: float, standing: Checkpoint | None = None) -> None:
        """Let the first look of a window come after half of its seconds, or `EVERY_S` if that is sooner.

        Args:
            seconds: how long the window is.
            standing: where the flow stands as it begins.
        """
        if self._rotated is not None and standing is not None:
            self._rotated.stands(standing)
        self._looked = self._now()
        self._due = self._looked + min(EVERY_S, seconds / 2)

    def look_when_due(self, standing: Offset) -> None:
        """Look, when it is time to, or once the log showed that tables were dropped, renamed or made."""
        if self._source is None:
            return
        now = self._now()
        if now >= self._due or (now >= self._looked + APART_S and self._source.tables_may_be_gone()):
            self._looked, self._due = now, now + EVERY_S
            self.look(standing)

    def look(self, standing: Offset | None) -> None:
        """Ask the source; report what is gone, and what is there again. One that does not answer is named by others."""
        if self._source is None:
            return
        try:
            missing = tuple(self._source.tables_gone(standing))
        except DatabusError as error:
            log.debug("flow %s: its tables cannot be looked for: %s", self._flow.name, error)
            return
        noun, rotated = self._flow.source.noun, self._rotated
        missing = missing if rotated is None else rotated.left_of(missing, standing)
        for name in missing:
            if name in self._told:
                continue
            if rotated is not None and rotated.tell(name):
                continue
            if is_name(name):
                log.warning(
                    "flow %s: %s %s is gone (dropped, renamed, or not shown to this account): nothing more comes of "
                    "it; rows in the log before that are still moved → Take it out of `%ss` once they are, or name the "
                    "%s that takes its place.",
                    self._flow.name, noun, name, noun, noun,
                )  # fmt: skip
            else:
                log.warning(
                    "flow %s: no %s matches %s (any more), as far as this account is shown them: nothing comes of it → "
                    "Correct `%ss` of the source, or wait until there is one.",
                    self._flow.name, noun, name, noun,
                )  # fmt: skip
        for name in self._told:
            if name not in missing:
                log.info("flow %s: %s is there now", self._flow.name, name)
        self._told = missing

    def note(self, standing: Checkpoint) -> None:
        """Write down as a run ends how far topics were read that may go."""
        if self._rotated is not None:
            self._rotated.note(standing)
