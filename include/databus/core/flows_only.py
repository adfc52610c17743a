"""What is wanted of a DAG file: its flows alone, or its DAGs too; and the flows that its DAGs are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from databus.core.flow import Flow

_wanted: ContextVar[bool] = ContextVar("flows_only", default=False)
_given: ContextVar[list[Flow] | None] = ContextVar("flows_given", default=None)


def flows_only() -> bool:
    """Tell whether DAGs are not wanted just now."""
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
def given_flows() -> Iterator[list[Flow]]:
    """Collect the flows that `flow_dag` and `mirror_dag` are given while the block runs, in order, each once."""
    found: list[Flow] = []
    token = _given.set(found)
    try:
        yield found
    finally:
        _given.reset(token)


def note_given(flow: Flow) -> None:
    """Tell who reads the file that a DAG is made of this flow: it may have no name of its own there."""
    found = _given.get()
    if found is not None and not any(known is flow for known in found):
        found.append(flow)
