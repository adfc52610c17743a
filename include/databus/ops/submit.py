"""Former place of `databus.ops.runs.submit`, kept for files and stored paths that name it."""

from databus.ops.runs.submit import main

__all__ = ["main"]
