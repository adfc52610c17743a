"""Names of Airflow that stand elsewhere in older releases, for all modules of this package.

`from databus.airflow.moved import AirflowException` takes each name from where the installed release has it. A name is
imported when it is asked for, as it would be without this module: a task's process has no use for the scheduler's.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_SDK, _OLD = "airflow.sdk.exceptions", "airflow.exceptions"

PLACES: dict[str, tuple[str, ...]] = {
    "AirflowException": (_SDK, _OLD),
    "AirflowFailException": (_SDK, _OLD),
    "AirflowNotFoundException": (_SDK, _OLD),
    "AirflowSkipException": (_SDK, _OLD),
    "TaskDeferred": (_SDK, _OLD),
    "AssetOrTimeSchedule": ("airflow.sdk", "airflow.timetables.assets"),
    "AsyncCallback": ("airflow.sdk.definitions.callback", "airflow.sdk.definitions.deadline"),
    "BaseTimetable": ("airflow.sdk.bases.timetable", "airflow.timetables.base:Timetable"),
    "DeltaDataIntervalTimetable": ("airflow.sdk", "airflow.timetables.interval"),
    "coerce_to_core_timetable": ("airflow.serialization.encoders", "databus.airflow.moved:_as_it_is"),
    "conf": ("airflow.sdk.configuration", "airflow.configuration"),
    "stats": ("airflow.sdk.observability", "airflow.stats:Stats"),
}
"""Name → the modules that may have it, the newest release's first; "module:name" where it is called otherwise there."""


def __getattr__(name: str) -> Any:
    places = PLACES.get(name)
    if places is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for place in places:
        module, _, own = place.partition(":")
        try:
            return _named(module, own or name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"this release of Airflow has no {name}: looked in {', '.join(places)}", name=name)


def _named(module: str, name: str) -> Any:
    """Return what a module has under a name, a module below it too."""
    found = import_module(module)
    return getattr(found, name) if hasattr(found, name) else import_module(f"{module}.{name}")


def _as_it_is(timetable: Any) -> Any:
    """Return a timetable: before Airflow's scheduler had timetables of its own, there was one kind."""
    return timetable
