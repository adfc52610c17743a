"""Schedules of flows: what Airflow takes, as far as windows can follow it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from airflow.sdk.definitions.asset import BaseAsset
from airflow.timetables._cron import CronMixin
from airflow.timetables.base import TimeRestriction
from airflow.timetables.base import Timetable as CoreTimetable
from airflow.utils.dates import cron_presets
from croniter import croniter
from croniter.croniter import CroniterBadCronError, CroniterBadDateError
from dateutil.relativedelta import relativedelta
from pendulum import instance

from databus.airflow.moved import BaseTimetable
from databus.airflow.timetable import staggered
from databus.core.errors.config import ConfigError
from databus.core.former_names import at_caller, caller, warn_of_former

Schedule = timedelta | relativedelta | str | BaseTimetable | CoreTimetable | BaseAsset | Collection[BaseAsset] | None
"""Schedules that `flow_dag(schedule=…)` takes."""

EVERY_MINUTE = timedelta(minutes=1)
SHORTEST = timedelta(seconds=5)
"""Shortest time between two runs."""

_FROM = datetime(2024, 1, 1, tzinfo=UTC)
"""First day in which gaps between runs are searched, a Monday: fixed, so that each parse of a file finds the same."""

_RUNS = 20
"""Runs of a timetable that are looked at: a file is parsed again and again."""

_FIELDS = 5
"""Of a cron expression without seconds."""


@dataclass(frozen=True)
class FlowSchedule:
    """Schedule of a flow's DAG.

    Attributes:
        value: what `airflow.sdk.DAG` takes.
        between: longest time between two runs; one minute where runs have none, as without a schedule.
        regular: whether it is one length of time, so that changes may begin a run in between.
    """

    value: Any
    between: timedelta
    regular: bool


def every_or_window(
    schedule: Any, every: timedelta | None, window: timedelta | None
) -> tuple[timedelta | None, timedelta | None]:
    """Return `every` and `window` by their meanings of today: beside a schedule, `every` bounded a run before.

    Raises:
        ConfigError: a schedule, `every` and `window` are given.
    """
    if every is None or schedule is EVERY_MINUTE:
        return every, window
    if window is not None:
        raise ConfigError(
            at_caller(f"flow_dag: every={every}, schedule={schedule!r} and window={window} are given"),
            hint="Give schedule= and window=: every= is another name of the one or the other.",
        )
    warn_of_former("flow_dag", "every= beside schedule=", "window", every, caller())
    return None, every


def flow_schedule(flow: str, schedule: Any, every: timedelta | None) -> FlowSchedule:
    """Return the schedule of a flow.

    Args:
        flow: flow name.
        schedule: see `flow_dag`.
        every: the same under its other name, of a timedelta only; wins over the schedule.

    Raises:
        ConfigError: a schedule that windows cannot follow.
    """
    name, given = ("every", every) if every is not None else ("schedule", schedule)
    if isinstance(given, timedelta):
        _check_shortest(name, given, given)
        return FlowSchedule(staggered(flow, given), given, regular=True)
    if every is not None:
        raise ConfigError(at_caller(f"flow_dag: every={every!r} is no timedelta"), hint="Other schedules: schedule=.")
    if given == "@continuous" or getattr(given, "active_runs_limit", None) == 1:
        raise ConfigError(
            at_caller(f"flow_dag: schedule={given!r} starts no run beside a running one"),
            hint="A run moves rows until the next one waits for its lease. With schedule=timedelta(minutes=1) runs "
            "follow each other without a pause.",
        )
    gaps = _gaps(given)
    if gaps:
        _check_shortest(name, given, min(gaps))
    return FlowSchedule(given, max(gaps, default=EVERY_MINUTE), regular=False)


def _check_shortest(name: str, given: Any, gap: timedelta) -> None:
    if gap < SHORTEST:
        shown = given if isinstance(given, timedelta) else repr(given)
        raise ConfigError(
            at_caller(f"{name}={shown} is shorter than the 5 seconds a run takes at least"),
            hint='Give timedelta(seconds=5) or more; mode="live" keeps rows fresh within a run.',
        )


def _gaps(given: Any) -> list[timedelta]:
    """Return times between runs that follow each other; none where a schedule has no times."""
    if given is None or given == "@once" or isinstance(given, BaseAsset):
        return []
    if isinstance(given, str):
        return _cron_gaps(given)
    if isinstance(given, relativedelta):
        return _between(_FROM + given * n for n in range(13))
    if isinstance(given, BaseTimetable | CoreTimetable):
        core = _core(given)
        return _cron_gaps(core.summary) if isinstance(core, CronMixin) else _between(_timetable_runs(core))
    if isinstance(given, Collection) and given and all(isinstance(one, BaseAsset) for one in given):
        return []
    raise ConfigError(
        at_caller(f"flow_dag: schedule={given!r} is no schedule"),
        hint='Give a timedelta, cron text ("0 * * * *"), a preset ("@hourly"), a Timetable, assets, or None for runs '
        "that are triggered only.",
    )


def _core(timetable: Any) -> CoreTimetable:
    """Return a timetable as Airflow's scheduler will have it: written down and read back."""
    from databus.airflow.moved import coerce_to_core_timetable  # a task's process has no use for it

    try:
        return coerce_to_core_timetable(timetable)
    except Exception as error:
        raise ConfigError(
            at_caller(f"flow_dag: Airflow cannot read schedule={timetable!r} back: {type(error).__name__}: {error}"),
            hint="Its scheduler could not either. A timetable of one's own is registered by a plugin.",
        ) from error


def _between(runs: Iterable[datetime]) -> list[timedelta]:
    return [later - earlier for earlier, later in pairwise(runs)]


def _cron_gaps(text: str) -> list[timedelta]:
    """Return the gaps between the runs of a cron expression: those of a day, and those from one day to the next."""
    try:
        cron = croniter(cron_presets.get(text, text), _FROM)
        if len(cron.expanded) > _FIELDS:  # with seconds
            return _between(cron.get_next(datetime) for _ in range(_RUNS))
        minutes, hours = (
            range(most) if field == ["*"] else [int(one) for one in field]
            for field, most in zip(cron.expanded, (60, 24), strict=False)
        )
        times = sorted(timedelta(hours=hour, minutes=minute) for hour in hours for minute in minutes)
        month_days, months, week_days = cron.expressions[2:]
        within = timedelta(days=8 if (month_days, months) == ("*", "*") else 366)
        days = croniter(f"0 0 {month_days} {months} {week_days}", _FROM)
        dates = [days.get_next(datetime)]
        while len(dates) < 2 or dates[-1] < _FROM + within:
            dates.append(days.get_next(datetime))
    except (CroniterBadCronError, CroniterBadDateError, ValueError, KeyError) as error:
        raise ConfigError(
            at_caller(f"flow_dag: schedule={text!r} is no cron expression: {error}"),
            hint='Write five fields ("0 * * * *"), or a preset: @hourly, @daily, @weekly, @monthly, @yearly, @once.',
        ) from None
    nightly = [gap - times[-1] + times[0] for gap in _between(dates)]
    return [*(later - earlier for earlier, later in pairwise(times)), *nightly]


def _timetable_runs(core: CoreTimetable) -> Iterator[datetime]:
    """Yield the next runs of a timetable, as Airflow's scheduler asks for them; none of one without times."""
    last, restriction = None, TimeRestriction(earliest=instance(_FROM), latest=None, catchup=True)
    for _ in range(_RUNS if core.can_be_scheduled and core.periodic else 0):
        found = core.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
        if found is None or found.run_after is None:
            return
        last = found.data_interval
        yield found.run_after
