"""Batch size limits of a flow."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from pydantic import Field

from databus.core.spec import Spec
from databus.core.stored_options import SECOND, ZERO, Duration, StoredOption


class Batching(Spec):
    """Bounds of one micro-batch, e.g. `Batching(max_rows=50_000, max_wait=timedelta(seconds=1))`.

    Attributes:
        max_rows: row changes after which a batch ends, at the next transaction boundary; default 200,000.
        max_bytes: log bytes after which it ends; default 256 MiB. E.g. `max_bytes=64 << 20`.
        max_wait: time that the dump waits for the log to grow, after which it ends; default 5 seconds.
        dispatch_time: time that a batch may take in its sinks; default 30 seconds. One that takes longer or is turned
            away meanwhile makes the next ones smaller, down to 1/256 of the bounds above; they grow again when the
            sinks keep up.
    """

    max_rows: int = Field(200_000, gt=0)
    max_bytes: int = Field(256 << 20, gt=0)
    max_wait: Duration = Field(timedelta(seconds=5), gt=ZERO)
    dispatch_time: Duration = Field(timedelta(seconds=30), gt=ZERO)

    max_seconds: ClassVar = StoredOption[float]("max_wait", SECOND)
    dispatch_seconds: ClassVar = StoredOption[float]("dispatch_time", SECOND)
