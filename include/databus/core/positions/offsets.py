"""Offsets: how far a source has been read, each kind in a file of its own; importers name this module.

Every offset turns into JSON and back, and compares with others of its kind.
"""

from databus.core.positions.binlog_offset import BINLOG_OFFSET, BinlogOffset, PreparedTransaction
from databus.core.positions.kafka_offsets import KAFKA_OFFSETS, KafkaOffsets
from databus.core.positions.offset import SEQUENCE_OFFSET, Offset, Ordering, SequenceOffset
from databus.core.positions.offset_kinds import is_foreign, offset_from_json
from databus.core.positions.offset_range import OffsetRange

__all__ = [
    "BINLOG_OFFSET",
    "KAFKA_OFFSETS",
    "SEQUENCE_OFFSET",
    "BinlogOffset",
    "KafkaOffsets",
    "Offset",
    "OffsetRange",
    "Ordering",
    "PreparedTransaction",
    "SequenceOffset",
    "is_foreign",
    "offset_from_json",
]
