"""When a flow's runs begin: on its timetable, and in between when there are changes that nobody moves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, AssetOrTimeSchedule, AssetWatcher

from databus.airflow.triggers import ChangesTrigger
from databus.core.flow import Flow

POLL_S = 5.0
"""Seconds between two looks of the triggerer: two reads of ZooKeeper and one statement at the source."""

AGAIN_S = 60.0
"""A woken run that moved nothing and waits for no slot has failed; after so long another one is begun."""


def woken(flow: Flow, dag_id: str, timetable: Any, apart: timedelta) -> AssetOrTimeSchedule:
    """Return a schedule that is the timetable's, and has a run begin when changes lie there and no run holds the lease.

    The first run is the timetable's: when many flows are new, waking each of them would only double their runs.

    Args:
        flow: the flow.
        dag_id: its DAG.
        timetable: when runs begin anyway.
        apart: time between two runs that are begun so, at least.
    """
    seconds = apart.total_seconds()
    trigger = ChangesTrigger(flow, POLL_S, max(AGAIN_S, seconds), seconds, wakes=dag_id)
    watcher = AssetWatcher(name=f"changes of {flow.name}", trigger=trigger)
    asset = Asset(
        name=f"{flow.name}:changes", uri=f"databus://changes/{flow.name}", group="databus", watchers=[watcher]
    )
    return AssetOrTimeSchedule(timetable=timetable, assets=[asset])
