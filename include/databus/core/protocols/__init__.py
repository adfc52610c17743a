"""Protocols of the path: what its parts promise each other. Each method states its guarantee."""

from databus.core.protocols.optional_sink import DirectEncoder, DirectSink, FollowingSink, PinningSink, RawRecordEncoder
from databus.core.protocols.optional_source import (
    BoundedSource,
    DefinedSource,
    PartitionedSource,
    RotatingSource,
    SharedLogSource,
    StoppingSource,
    StreamingSource,
    Turns,
)
from databus.core.protocols.recorder import Clock, Recorder
from databus.core.protocols.sink import FencedPlan, Sink, SlotWriter
from databus.core.protocols.source import Source
from databus.core.protocols.splits import Changes, DirectSplit, RawRecordSplit, Split
from databus.core.protocols.staging import NeededSegments, StagedPlans, StagingSource

__all__ = [
    "BoundedSource",
    "Changes",
    "Clock",
    "DefinedSource",
    "DirectEncoder",
    "DirectSink",
    "DirectSplit",
    "FencedPlan",
    "FollowingSink",
    "NeededSegments",
    "PartitionedSource",
    "PinningSink",
    "RawRecordEncoder",
    "RawRecordSplit",
    "Recorder",
    "RotatingSource",
    "SharedLogSource",
    "Sink",
    "SlotWriter",
    "Source",
    "Split",
    "StagedPlans",
    "StagingSource",
    "StoppingSource",
    "StreamingSource",
    "Turns",
]
