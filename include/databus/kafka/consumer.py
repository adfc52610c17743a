"""A consumer that can always be closed."""

from __future__ import annotations

import logging

from confluent_kafka import Consumer, KafkaException

from databus.kafka.bounded import bounded

log = logging.getLogger(__name__)

_CLOSE_WITHIN_S = 2.0


class GrouplessConsumer(Consumer):
    """A consumer that joins no group: it reads committed offsets, or partitions that it was assigned."""

    _left = False

    def close(self) -> None:
        """Close it, or leave it behind after two seconds; safe to call again.

        With the brokers gone librdkafka may look for the group's coordinator for ever (librdkafka issue 3740). There is
        no group to leave, so nobody misses what is not said.
        """
        if self._left:
            return  # the first call still goes on, and destroys it: two would destroy it twice
        try:
            bounded(super().close, _CLOSE_WITHIN_S)
        except KafkaException as error:
            self._left = True
            log.warning("a consumer is left behind: %s", error)
