"""Former place of `databus.binlog.segments.large_values`, kept for files and stored paths that name it."""

from databus.binlog.segments.large_values import read_claim

__all__ = ["read_claim"]
