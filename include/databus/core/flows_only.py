"""Flows of a DAG file, read with its DAGs or without them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from databus.core.flow import Flow


@dataclass(frozen=True)
class GivenFlow:
    """A flow that a DAG is made of.

    Attributes:
        flow: the flow, as the DAG runs it.
        written: the flow as it was given.
        file: file of the module that was being imported then, "" outside any: it may be one that the DAG file imports.
    """

    flow: Flow
    written: Flow
    file: str


_wanted: ContextVar[bool] = ContextVar("flows_only", default=False)
_given: ContextVar[list[GivenFlow] | None] = ContextVar("flows_given", default=None)


def flows_only() -> bool:
    """Return whether DAGs are not wanted just now."""
    return _wanted.get()


@contextmanager
def without_dags() -> Iterator[None]:
    """Let `flow_dag` and `mirror_dag`, imported while the block runs, build nothing."""
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


@contextmanager
def given_flows() -> Iterator[list[GivenFlow]]:
    """Collect the flows that `flow_dag` and `mirror_dag` are given while the block runs, in order, each once."""
    found: list[GivenFlow] = []
    token = _given.set(found)
    try:
        yield found
    finally:
        _given.reset(token)


def note_given(written: Flow, flow: Flow) -> None:
    """Note, for the reader of the file, that a DAG is made of a flow: it may have no name of its own there.

    Args:
        written: the flow as it was given.
        flow: the same as the DAG runs it.
    """
    found = _given.get()
    if found is not None and not any(known.written is written for known in found):
        found.append(GivenFlow(flow, written, _imported()))


def _imported() -> str:
    """Return the file of the innermost module that is being imported: a function's flows are its caller's."""
    frame = sys._getframe(1)  # noqa: SLF001 - as `core/spec.caller`
    while frame is not None and frame.f_code.co_name != "<module>":
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return frame.f_code.co_filename
