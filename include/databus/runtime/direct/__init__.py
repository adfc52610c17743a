"""The direct lane: one Spark task per slot reads, encodes and writes (ADR 5)."""
