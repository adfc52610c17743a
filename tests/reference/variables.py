"""Environment variables that the code reads: a table with meaning and default, and those found in its syntax."""

from __future__ import annotations

import ast
import re
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import NamedTuple

from databus.core.option_texts import described
from databus.core.settings import Settings
from tests.reference.raised import PACKAGE

_OURS = re.compile(r"DATABUS_[A-Z_]+")
_ANY = re.compile(r"[A-Z][A-Z0-9_]+")
_READERS = {"get", "setdefault", "pop", "getenv"}
_NAMES = {"env", "environ", "os.environ", "os"}


class Variable(NamedTuple):
    """Variable.

    Attributes:
        part: heading under which it stands.
        default: in words; "" where it has none.
        meaning: text.
    """

    part: str
    default: str
    meaning: str


INSTALLATION, COMMAND, AIRFLOW = "Installation", "Command line and flows", "Airflow and Spark"
SANDBOX, OTHERS = "Sandbox", "Of other programs"
_DEFAULTS = {
    "DATABUS_INSTALLATION": "`default`",
    "DATABUS_SEGMENT_STORE": "`segments` in the home",
    "DATABUS_SEGMENT_KEEP": "nothing is kept",
    "DATABUS_DATA_DOCS": "`data_docs` in the home",
    "DATABUS_DATA_DOCS_URL": "none",
    "DATABUS_RECORDS_URL": "`records.db` in the home, SQLite",
    "DATABUS_RUNBOOKS_URL": "`docs/runbooks`",
}


@cache
def _written() -> dict[str, Variable]:
    """Return name → variable, of the table `variables.txt`."""
    lines = Path(__file__).with_suffix(".txt").read_text().splitlines()
    rows = (line.split(" | ") for line in lines if line and not line.startswith("#"))
    return {name: Variable(part, default, meaning) for name, part, default, meaning in rows}


@cache
def variables() -> dict[str, Variable]:
    """Return name → variable; texts of the installation's settings are those of `Settings`."""
    found = dict(_written())
    for entry in described(cleandoc(Settings.__doc__ or "")).values():
        text = " ".join(entry.partition(":")[2].split())
        named = re.search(r" \((DATABUS_\w+)\)\.$", text)
        if named:
            found[named[1]] = Variable(INSTALLATION, _DEFAULTS[named[1]], f"{text[: named.start()]}.")
    return found


@cache
def read_by_the_code() -> dict[str, set[str]]:
    """Return names of variables that the package reads or sets → modules that do."""
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if "environ" in text or "DATABUS_" in text or "getenv" in text:
            for name in _names(ast.parse(text)):
                found.setdefault(name, set()).add(path.relative_to(PACKAGE).as_posix())
    return found


def _names(module: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(module):
        match node:
            case ast.Constant(value=str(text)) if _OURS.fullmatch(text):
                found.add(text)
            case ast.Constant(value="AIRFLOW_CONN_"):
                found.add("AIRFLOW_CONN_")
            case ast.Call(func=ast.Attribute(value=of, attr=verb), args=[ast.Constant(value=str(name)), *_]) if (
                verb in _READERS and ast.unparse(of) in _NAMES and _ANY.fullmatch(name)
            ):
                found.add(name)
            case ast.Subscript(value=of, slice=ast.Constant(value=str(name))) if ast.unparse(of) in _NAMES:
                found.add(name)
            case _:
                pass
    return found
