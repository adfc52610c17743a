"""Arguments of `flow_dag` and `mirror_dag`, refused by name: an option that is none, a value that is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from inspect import Parameter, signature
from typing import Any, Literal, get_args

from airflow.sdk import DAG

from databus.core.errors.config import ConfigError
from databus.core.flow import Mode
from databus.core.former_names import caller

Engine = Literal["connect", "submit"]
Tasks = Literal["separate", "together"]


def refuse_unknown(made_by: str, flow_dag: Callable[..., Any], options: Iterable[str]) -> None:
    """Refuse options that neither `flow_dag` nor Airflow's DAG takes.

    Args:
        made_by: name of the function that was called.
        flow_dag: the function whose options are known.
        options: names that were given.

    Raises:
        ConfigError: names the file and line, the option, one that is spelled alike, and those of `flow_dag`.
    """
    own = own_options(flow_dag)
    known = [*own, *_of_dag()]
    unknown = [name for name in options if name not in known]
    if not unknown:
        return
    near = dict.fromkeys(like for name in unknown for like in get_close_matches(name, known, n=1))
    meant = f"Did you mean {' and '.join(near)}? " if near else ""
    raise ConfigError(
        f"{caller()}: {made_by}: unknown option {', '.join(map(repr, unknown))}",
        hint=f"{meant}{made_by} takes: {', '.join(sorted(own))}; and what airflow.sdk.DAG takes.",
    )


@cache
def own_options(flow_dag: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's options, those that it passes on left out."""
    return tuple(n for n, p in signature(flow_dag).parameters.items() if p.kind is Parameter.KEYWORD_ONLY)


@cache
def _of_dag() -> frozenset[str]:
    return frozenset(signature(DAG).parameters)


def refuse_values(engine: str, tasks: str | None, mode: str | None) -> None:
    """Refuse values of options that have a few; raises ConfigError with the file, the line and those that are known."""
    if engine not in get_args(Engine):
        raise ConfigError(f"{caller()}: engine={engine!r} is unknown", hint="Known: connect, submit.")
    if tasks not in (None, *get_args(Tasks)) or (tasks == "together" and engine != "connect"):
        raise ConfigError(
            f"{caller()}: tasks={tasks!r} cannot be with engine={engine!r}",
            hint="Known: separate, and with engine='connect' together.",
        )
    if mode not in (None, *get_args(Mode)):
        raise ConfigError(f"{caller()}: mode={mode!r} is unknown", hint=f"Known: {', '.join(get_args(Mode))}.")
