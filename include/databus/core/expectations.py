"""Great Expectations' expectations on a flow, as plain JSON: taken from objects, suites and suite files.

Nothing here imports Great Expectations: its objects give their own configuration, and files are JSON or YAML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from databus.core.errors.config import ConfigError
from databus.core.spec import Spec, caller, options_of
from databus.core.stored_form import canonical_json

BY_ROW, MISSING = "expectation", "expectation_missing"
"""Kinds of the check results that expectations leave: values that do not meet one, and NULLs of its column."""

Action = Literal["warn", "quarantine", "fail"]

_TYPE = re.compile(r"(expect|unexpected)(_[a-z0-9]+)+")
_META = "databus"
_DEFAULTS: Mapping[str, Any] = {"mostly": 1, "row_condition": None, "condition_parser": None}
"""Arguments that say nothing when they have this value."""


class Expectation(Spec):
    """Expectation of Great Expectations, and what happens when the rows of a flow do not meet it.

    Attributes:
        type: its name in Great Expectations, e.g. "expect_column_values_to_not_be_null".
        kwargs: its arguments as JSON, e.g. {"column": "order_id", "mostly": 0.99}.
        action: "warn" counts, "quarantine" holds back rows that do not meet it, "fail" stops the batch or the audit.
        tables: fnmatch patterns of `database.table`; empty for all tables of the flow's source.
        severity: Great Expectations' own word for how grave it is; shown, without effect on rows.
        meta: notes of the suite's author.
    """

    kind: ClassVar[str] = "expectation"

    type: str
    kwargs: Mapping[str, Any] = Field(default_factory=dict)
    action: Action = "warn"
    tables: tuple[str, ...] = ()
    severity: Literal["info", "warning", "critical"] = "critical"
    meta: Mapping[str, Any] = Field(default_factory=dict)

    @field_validator("type")
    @classmethod
    def _is_an_expectation(cls, value: str) -> str:
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", value).lower()
        if not _TYPE.fullmatch(snake):
            raise ValueError(
                f"{value!r} is not the name of an expectation, such as expect_column_values_to_not_be_null"
            )
        return snake

    @field_validator("kwargs")
    @classmethod
    def _leaves_out_what_says_nothing(cls, value: Mapping[str, Any]) -> dict[str, Any]:
        canonical_json(dict(value))
        return {k: v for k, v in sorted(value.items()) if v is not None and _DEFAULTS.get(k, ...) != v}

    @property
    def mostly(self) -> float:
        """Least share of values that must meet it, 1 unless given."""
        return float(self.kwargs.get("mostly", 1))

    @property
    def name(self) -> str:
        """Name with arguments, e.g. "expect_column_values_to_be_between(amount, min_value=0)@shop.orders"."""
        column = self.kwargs.get("column")
        shown = [f"{k}={_short(v)}" for k, v in self.kwargs.items() if k != "column"]
        arguments = ", ".join(([str(column)] if column is not None else []) + shown)
        return f"{self.type}({arguments})" + (f"@{','.join(self.tables)}" if self.tables else "")


@dataclass(frozen=True)
class Expectations:
    """Expectations with an action and tables: `Expectations("suites/orders.json", action="quarantine")`.

    What an expectation says itself, in `meta={"databus": {"action": …, "tables": […]}}`, goes before.

    Args:
        what: an expectation or suite of Great Expectations, a suite file (JSON or YAML, its path relative to the file
            that says so), their JSON, or several of these.
        action: "warn" (default), "quarantine" or "fail".
        tables: fnmatch patterns of `database.table`, e.g. ("shop.orders",); by default all tables of the source.
    """

    what: Any
    action: Action = "warn"
    tables: tuple[str, ...] = ()


def expectations_of(value: Any, action: Action = "warn", tables: tuple[str, ...] = ()) -> tuple[Expectation, ...]:
    """Return what was given to a flow as `expectations`, one by one.

    Raises:
        ConfigError: something that is no expectation, or a file that cannot be read; names it.
    """
    return tuple(_each(value, action, tables))


def _each(value: Any, action: Action, tables: tuple[str, ...]) -> Iterator[Expectation]:
    if value is None:
        return
    if isinstance(value, Expectation):
        yield value
    elif isinstance(value, Expectations):
        yield from _each(value.what, value.action, tuple(value.tables))
    elif isinstance(value, (str, Path)):
        yield from _each(_read(Path(value)), action, tables)
    elif isinstance(value, Mapping):
        yield from _of_json(value, action, tables)
    elif hasattr(value, "configuration"):
        yield from _of_json(value.configuration.to_json_dict(), action, tables)
    elif hasattr(value, "expectations") and hasattr(value, "to_json_dict"):
        yield from _of_json(value.to_json_dict(), action, tables)
    elif isinstance(value, Iterable):
        for item in value:
            yield from _each(item, action, tables)
    else:
        raise ConfigError(
            f"{caller()}: expectations: {type(value).__name__} is neither an expectation nor a suite",
            hint="Give expectations or suites of Great Expectations, a suite file, or Expectations(…) around them.",
        )


def _of_json(data: Mapping[str, Any], action: Action, tables: tuple[str, ...]) -> Iterator[Expectation]:
    if data.get("kind") == Expectation.kind:
        yield Expectation.from_stored(options_of(data))
        return
    if "expectations" in data:
        for item in data["expectations"]:
            yield from _of_json(item, action, tables)
        return
    kind = data.get("type") or data.get("expectation_type")
    if not isinstance(kind, str):
        raise ConfigError(
            f"{caller()}: expectations: {json.dumps(data, default=str)[:200]} names no `type` of expectation",
            hint='An expectation is {"type": "expect_…", "kwargs": {…}}, a suite {"expectations": […]}.',
        )
    meta = dict(data.get("meta") or {})
    own = meta.pop(_META, {})
    unknown = sorted(set(own) - {"action", "tables"})
    if unknown:
        raise ConfigError(f"{caller()}: {kind}: meta.databus has {', '.join(unknown)}", hint="It takes action, tables.")
    yield Expectation(
        type=kind,
        kwargs=data.get("kwargs") or {},
        action=own.get("action", action),
        tables=tuple(own.get("tables", tables)),
        severity=str(data.get("severity") or "critical"),
        meta=meta,
    )


def _read(path: Path) -> Any:
    """Read a suite file; a relative path starts at the folder of the file that names it, else where we run."""
    where = caller()
    beside = Path(where.rpartition(":")[0]).parent / path
    found = next((p for p in (path if path.is_absolute() else beside, path) if p.is_file()), None)
    if found is None:
        raise ConfigError(
            f"{where}: expectations: no file {path}", hint=f"Looked for {beside} and for {path.absolute()}."
        )
    try:
        text = found.read_text(encoding="utf-8")
        if found.suffix in (".yaml", ".yml"):
            import yaml

            return yaml.safe_load(text)
        return json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{where}: expectations: {found}: {error}", hint="It must be JSON or YAML.") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] != "yaml":
            raise
        raise ConfigError(f"{where}: expectations: {found}: {error}", hint="It must be JSON or YAML.") from error


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


_SHOWN = 60
