"""Violation bits: one column of bits beside the images, a bit for each row check of the flow; light to import."""

from __future__ import annotations

MARKS = "marks"
"""Name of the column that carries them: bit i stands for the flow's i-th row check."""

UNJUDGED = "unjudged"
"""Name of the column that says why a filter cannot judge a row ("filter_lacks(amount)"), null where all could."""

FLOW_OP = "flow_op"
"""Column of rows of a `SinkProgram`: op (string) behind the flow's transforms; `op` is what the sink's make of it."""

HELD_FOR_SINK = "held_for_sink"
"""Column beside it: why a transform of the sink holds the row back (string), null where none does."""

MOST_CHECKS = 63
