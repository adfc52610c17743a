"""Packages that a flow needs and that are not installed here, each named with the command that brings it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from databus.core.errors.config import PackageMissingError
from databus.core.findings import Finding, Level
from databus.core.flow import Flow
from databus.core.packages import require
from databus.core.settings import Settings

Needs = Iterator[tuple[str, tuple[str, ...]]]
"""(part of a flow in words, extras whose packages it needs where the flow is run)."""


def missing_packages(flow: Flow, settings: Settings) -> list[Finding]:
    """Return an error for each extra that a part of the flow lacks here, the engine's left out; opens nothing.

    Args:
        flow: the flow.
        settings: the installation's settings, which say where records are kept.
    """
    return [*_findings(_of_ends(flow)), *missing_beside(flow, settings)]


def missing_beside(flow: Flow, settings: Settings) -> list[Finding]:
    """Return the same of all but source and sinks, which say it themselves once they are opened."""
    return _findings(_beside(flow, settings))


def _of_ends(flow: Flow) -> Needs:
    yield f"source {flow.source.kind}", flow.source.extras()
    for sink in flow.sinks:
        yield f"sink {sink.sink_name} of kind {sink.kind}", sink.extras()


def _beside(flow: Flow, settings: Settings) -> Needs:
    if flow.checks:
        yield "checks", ("quality",)
    if flow.expectations:
        yield "expectations", ("quality",)
    if urlsplit(settings.records_url).scheme.partition("+")[0] == "postgresql":
        yield "records store in PostgreSQL", ("postgres",)


def _findings(needs: Iterable[tuple[str, tuple[str, ...]]]) -> list[Finding]:
    found = []
    for subject, extras in needs:
        try:
            require(extras, subject)
        except PackageMissingError as error:
            message = error.message.removeprefix(f"{subject} ")
            found.append(Finding(subject, Level.ERROR, message, error.hint, error.code))
    return found
