"""The live lane: a Spark task per window that writes micro-batches as they are cut (ADR 22)."""
