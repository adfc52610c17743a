"""Benchmarks of snapshots: rows of a table that is there already, into Kafka."""
