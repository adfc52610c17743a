"""Mirror sink: records of topics of one cluster into topics of another as they are, exactly once."""

from databus.sinks.kafka_mirror.spec import MirrorTopics

__all__ = ["MirrorTopics"]
