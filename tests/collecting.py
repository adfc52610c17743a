"""Garbage of Spark Connect sessions, collected where nothing is held."""

from __future__ import annotations

import gc

_MANY = 250_000
"""Objects from which a look at all of them takes longer than it finds: some 30 ms of CPU."""

_frozen: list[bool] = []


def collect_garbage() -> None:
    """Collect now, at the end of a flow's run.

    A Connect session that the collector meets later joins threads from wherever the program then stands, for ever if
    these wait for a lock held there. What the first run has loaded (Spark, Numba, Airflow) stays for good and is not
    looked at again: the suite spent a tenth of its CPU on that. Nor is what came since, once it is as much again.
    """
    gc.collect()
    if not _frozen or len(gc.get_objects()) > _MANY:
        gc.freeze()
        _frozen.append(True)
