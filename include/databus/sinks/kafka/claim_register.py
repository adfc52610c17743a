"""A flow's register in Kafka: one more marker, of a group of its own, that holds the epoch of the latest claim.

Compare-and-set: a session initialises its transactions, which ends those of every session before it, reads, compares
and commits. A session that is overtaken in between cannot commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from databus.core.errors.checkpoint import StaleEpochError
from databus.core.errors.sink import SinkFencedError
from databus.core.positions.offsets import offset_from_json
from databus.core.state.checkpoint import Epoch
from databus.core.state.sink_markers import Announcement, SlotMark
from databus.sinks.kafka.markers import Marker, MarkerKey
from databus.sinks.kafka.session import ProducerSettings, Session

log = logging.getLogger(__name__)

_ROUNDS = 5


def mark_of(marker: Marker) -> SlotMark:
    """Return what a slot's marker says."""
    end = offset_from_json(marker.end) if marker.end is not None else None
    abandoned = marker.state == "abandoned"
    whole, closed = marker.last or (abandoned and marker.chunk < 0), abandoned and marker.before is not None
    return SlotMark(marker.batch, marker.hash, end, whole, marker.at, closed)


class KafkaClaimRegister:
    """Implements `databus.core.state.sink_markers.ClaimRegister`; used by one thread."""

    def __init__(self, key: MarkerKey, settings: ProducerSettings):
        """Address the register of a flow in one sink; opens nothing.

        Args:
            key: the sink's markers; the register's group has the same stem.
            settings: its producer's settings.
        """
        self._key = replace(key, sink=f"{key.sink}!claim")
        self._flow = key.flow
        self._settings = settings
        self._session: Session | None = None

    def take(self, epoch: Epoch, *, force: bool = False) -> Announcement | None:
        """Put this epoch there (see `ClaimRegister.take`)."""

        def decide(found: Announcement | None) -> Announcement:
            if found is not None and found.epoch > epoch and not force:
                raise self._stale(epoch, found)
            return replace(found, epoch=epoch) if found else Announcement(epoch, 0, "")

        return self._swap(decide)

    def announce(self, said: Announcement) -> None:
        """Write a plan's number and hash (see `ClaimRegister.announce`)."""

        def decide(found: Announcement | None) -> Announcement | None:
            if found is None or found.epoch != said.epoch:
                raise self._stale(said.epoch, found)
            return None if found == said else said

        self._swap(decide)

    def close(self) -> None:
        """Close the clients; safe to call twice."""
        if self._session is not None:
            self._session.discard()
            self._session = None

    def _swap(self, decide: Callable[[Announcement | None], Announcement | None]) -> Announcement | None:
        """Read, let `decide` say what to write, and write it unless another session came in between: then again."""
        for attempt in range(_ROUNDS):
            try:
                session = self._session = self._session or Session(self._key, 0, self._settings)
                found = _announcement(session.marker())
                wanted = decide(found)
                if wanted is not None:
                    session.begin()
                    session.commit(Marker(wanted.batch, wanted.plan_hash, outputs=None, epoch=wanted.epoch))
            except SinkFencedError as error:
                self.close()
                if attempt == _ROUNDS - 1:
                    raise
                log.info("flow %s: the register was taken by another in between, reading again: %s", self._flow, error)
            except BaseException:
                self.close()
                raise
            else:
                return found
        raise AssertionError("unreachable")

    def _stale(self, epoch: Epoch, found: Announcement | None) -> StaleEpochError:
        there = f"epoch {found.epoch}" if found else "nothing"
        return StaleEpochError(
            f"flow {self._flow}: this run holds epoch {epoch}, but the register {self._key.group} holds {there}",
            hint="Another run has taken over; this one writes nothing more.",
        )


def _announcement(marker: Marker | None) -> Announcement | None:
    if marker is None or marker.epoch is None:
        return None
    return Announcement(Epoch(marker.epoch), marker.batch, marker.hash)
