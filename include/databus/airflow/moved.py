"""Releases of Airflow: one that is too old is refused by name, and names that moved are found where it has them.

`from databus.airflow.moved import AirflowException` takes each name from where the installed release has it. A name is
imported when it is asked for, as it would be without this module: a task's process has no use for the scheduler's, and
the provider manager imports this package while Airflow is half imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from databus.core.packages import airflow_too_old, require

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
    last: ModuleNotFoundError | None = None
    for place in places:
        module, _, own = place.partition(":")
        try:
            return _named(module, own or name)
        except ModuleNotFoundError as error:
            if not f"{module}.{own or name}.".startswith(f"{error.name}."):
                raise  # the place is there, and what it imports itself is not
            last = error
    raise ImportError(f"this release of Airflow has no {name}: looked in {', '.join(places)}", name=name) from last


def _named(module: str, name: str) -> Any:
    """Return what a module has under a name, a module below it too.

    Raises:
        ModuleNotFoundError: neither is there.
        Exception: whatever the import of a module that is there raises.
    """
    found = import_module(module)
    return getattr(found, name) if hasattr(found, name) else import_module(f"{module}.{name}")


def _as_it_is(timetable: Any) -> Any:
    """Return a timetable: before Airflow's scheduler had timetables of its own, there was one kind."""
    return timetable


def require_airflow(what: str = "databus.airflow") -> None:
    """Refuse an Airflow that is not there or too old; newer ones than were tried go on.

    Args:
        what: what needs it.

    Raises:
        PackageMissingError: Airflow is not installed.
        PackageVersionError: it is older than `packages.OLDEST_AIRFLOW`.
    """
    require(("airflow",), what)
    from airflow import __version__

    if (error := airflow_too_old(__version__)) is not None:
        raise error
