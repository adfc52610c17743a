"""Whether a DAG file is read for its flows alone: then no DAG is built, and Airflow is not imported for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_wanted: ContextVar[bool] = ContextVar("flows_only", default=False)


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
