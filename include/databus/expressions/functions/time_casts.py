"""Casts of dates and timestamps, in UTC, which every session's time zone is.

Texts are cast to dates only: those of timestamps may name zones, and times of the present day.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from databus.expressions.casts import rule
from databus.expressions.functions.registry import Kernel
from databus.expressions.kernels import clock, date_texts
from databus.expressions.kernels.decimals import on_array
from databus.expressions.kernels.integers import within
from databus.expressions.kernels.vectors import Vector, vectorized
from databus.expressions.types import INTEGERS, arrow_of

_STAMPS = ("timestamp", "timestamp_ntz")


@rule
def _of_dates(source_type: str, target_type: str, ansi: bool) -> Kernel | None:
    if source_type == "string" and target_type == "date":
        return on_array(date_texts.dates(fails=ansi))
    if source_type != "date":
        return None
    if target_type in _STAMPS:
        return vectorized(clock.midnight, arrow_of(target_type), fails=ansi)
    return on_array(date_texts.date_texts) if target_type == "string" else None


@rule
def _of_stamps(source_type: str, target_type: str, ansi: bool) -> Kernel | None:
    if source_type in _STAMPS and target_type == "date":
        return vectorized(clock.date, pa.date32())
    if source_type in _STAMPS and target_type == "string":
        return on_array(date_texts.timestamp_texts)
    if source_type == "timestamp" and target_type in INTEGERS:
        kind = arrow_of(target_type)
        return vectorized(within(kind.to_pandas_dtype(), clock.floored(clock.SECOND)), kind, fails=ansi)
    if source_type == "timestamp" and target_type == "double":
        return vectorized(_seconds, pa.float64())
    if source_type in INTEGERS and target_type == "timestamp":
        return vectorized(_stamps, arrow_of("timestamp"))
    return None


def _seconds(micros: Vector) -> Vector:
    return micros / np.float64(clock.SECOND)


def _stamps(seconds: Vector) -> Vector:
    """Return timestamps of seconds; those beyond bigint are its ends, as java.util.concurrent.TimeUnit has it."""
    whole = seconds.astype(np.int64)
    limit = np.iinfo(np.int64).max // clock.SECOND
    made = np.clip(whole, -limit, limit) * clock.SECOND
    return np.where(whole > limit, np.iinfo(np.int64).max, np.where(whole < -limit, np.iinfo(np.int64).min, made))
