"""Kafka sink: one transactional writer per slot, its marker committed in the same transaction as the rows."""

from databus.sinks.kafka.spec import Kafka

__all__ = ["Kafka"]
