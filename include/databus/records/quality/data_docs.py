"""Data Docs: a page per run made by Great Expectations' own renderers, a page of runs per flow, and an index."""

from __future__ import annotations

import html
import logging
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from databus.records.quality.trend import RunQuality

if TYPE_CHECKING:
    from great_expectations.render.view import DefaultJinjaPageView

log = logging.getLogger(__name__)

KEEP_PAGES = 500
"""Pages of a flow; older ones are deleted, their results stay in the records store."""

LISTED = 100
"""Runs on a flow's page."""


@dataclass(frozen=True)
class DataDocs:
    """A site of static pages.

    Attributes:
        folder: where it lies.
        url: address under which a web server shows the folder; "" where none does.
    """

    folder: Path
    url: str = ""

    def address(self, flow: str, run_id: str) -> str:
        """Return the address of a run's page, a file: URL where no web server shows it."""
        page = self.page(flow, run_id)
        if not self.url:
            return page.absolute().as_uri()
        return f"{self.url.rstrip('/')}/{quote(page.relative_to(self.folder).as_posix())}"

    def build(self, flow: str, run_id: str, result: Mapping[str, Any], runs: Sequence[RunQuality]) -> None:
        """Write a run's page, the flow's page and the index; a folder that cannot be written is logged, no more.

        Args:
            flow: flow name.
            run_id: run id.
            result: Great Expectations' result as JSON.
            runs: the flow's newest runs, newest first, for its page.
        """
        try:
            _write(self.page(flow, run_id), render(result))
            _write(self.folder / "flows" / f"{flow}.html", self._flow_page(flow, runs))
            flows = sorted(page.stem for page in (self.folder / "flows").glob("*.html"))
            _write(self.folder / "index.html", _list("Data Docs", ((f"flows/{name}.html", name) for name in flows)))
            self._prune(flow)
        except OSError as error:
            log.warning("flow %s: Data Docs of run %s not written to %s: %s", flow, run_id, self.folder, error)

    def page(self, flow: str, run_id: str) -> Path:
        """Return where a run's page lies, whether it is there or not."""
        # As deep as Great Expectations puts it: its pages link to ../../../../index.html.
        return self._pages(flow) / _file_name(run_id) / "result" / "index.html"

    def _pages(self, flow: str) -> Path:
        return self.folder / "validations" / flow

    def _flow_page(self, flow: str, runs: Sequence[RunQuality]) -> str:
        def line(run: RunQuality) -> tuple[str, str]:
            state = "passed" if run.success else f"violated, worst {run.worst or 'not judged'}"
            text = f"{run.evaluated_at.isoformat(timespec='seconds')} {run.run_id}: {state}"
            page = self.page(flow, run.run_id)
            there = f"../{quote(page.relative_to(self.folder).as_posix())}" if page.exists() else ""
            return there, f"{text}, {run.violations:,} of {run.evaluated:,} values violate"

        return _list(f"Runs of {flow}", map(line, runs))

    def _prune(self, flow: str) -> None:
        pages = sorted(self._pages(flow).iterdir(), key=lambda page: page.stat().st_mtime)
        for page in pages[:-KEEP_PAGES]:
            shutil.rmtree(page, ignore_errors=True)


@cache
def page_view() -> DefaultJinjaPageView:
    """Return Great Expectations' view of a page, which compiles each template it meets once, and keeps it."""
    from databus.records.quality.great_expectations_context import great_expectations

    great_expectations()
    from great_expectations.render.view import DefaultJinjaPageView

    return DefaultJinjaPageView()


def compile_templates() -> None:
    """Compile all templates of a page, 85 ms of CPU: for a process whose forks render one page each."""
    templates = page_view().env
    for name in templates.list_templates(extensions=["j2"]):
        templates.get_template(name)


def render(result: Mapping[str, Any]) -> str:
    """Return a validation result as Great Expectations shows it, HTML."""
    view = page_view()
    from great_expectations.core.expectation_validation_result import (
        ExpectationSuiteValidationResult,
        ExpectationValidationResult,
    )
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.render.renderer import ValidationResultsPageRenderer

    results = [
        ExpectationValidationResult(
            success=item["success"],
            expectation_config=ExpectationConfiguration(
                type=item["expectation_config"]["type"],
                kwargs=item["expectation_config"]["kwargs"],
                severity=item["expectation_config"].get("severity", "critical"),
            ),
            result=dict(item["result"]),
            exception_info=_flat(item["exception_info"]),
        )
        for item in result["results"]
    ]
    suite = ExpectationSuiteValidationResult(
        success=result["success"],
        results=results,
        suite_name=result["suite_name"],
        statistics=dict(result["statistics"]),
        meta=dict(result["meta"]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        page: str = view.render(ValidationResultsPageRenderer().render(suite))
    return page


def _flat(info: Mapping[str, Any]) -> dict[str, Any]:
    each = [info] if "raised_exception" in info else list(info.values())
    failed = next((e for e in each if e["raised_exception"]), {})
    # Great Expectations' page takes text, never null.
    return {
        "raised_exception": bool(failed),
        "exception_message": failed.get("exception_message") or "",
        "exception_traceback": failed.get("exception_traceback") or "",
    }


def _list(title: str, lines: Iterable[tuple[str, str]]) -> str:
    def item(target: str, text: str) -> str:
        shown = html.escape(text)
        return f'<li><a href="{html.escape(target)}">{shown}</a></li>' if target else f"<li>{shown}</li>"

    items = "\n".join(item(target, text) for target, text in lines)
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title>'
    body = f"<h1>{html.escape(title)}</h1>\n<ul>\n{items}\n</ul>"
    return f"<!doctype html>\n<html><head>{head}</head>\n<body>{body}</body></html>\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def _file_name(run_id: str) -> str:
    # Never "." or "..": a page lies below its flow.
    return re.sub(r"[^A-Za-z0-9_.+-]|^\.+$", "_", run_id)[:200]
