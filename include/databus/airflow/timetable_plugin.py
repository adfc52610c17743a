"""An entry point of the package: lets Airflow read our timetables back that it has stored."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from databus.airflow.timetable import StaggeredTimetable


class TimetablePlugin(AirflowPlugin):
    """Registers the timetables of flows."""

    name = "databus_timetables"
    timetables: ClassVar[list[Any]] = [StaggeredTimetable]
