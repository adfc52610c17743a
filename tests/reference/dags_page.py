"""Page of the functions that make DAGs: `flow_dag` and `mirror_dag`, each with its arguments.

Signatures are read from the source text: importing it would start Airflow.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import databus
from databus.core.option_texts import described
from tests.reference.markdown import plain

_FILE = Path(databus.__file__).parent / "airflow" / "dags.py"
_FUNCTIONS = ("flow_dag", "mirror_dag")
_TYPES = {
    "Flow": "flow",
    "DAG": "DAG",
    "timedelta": "timedelta",
    "timedelta | None": "timedelta or None",
    "bool | None": "True, False or None",
    "str | None": "text or None",
    "Schedule": "timedelta, cron text, timetable, assets or None",
    "Mode | None": '`"live"`, `"standard"`, `"economy"` or None',
    "Engine": '`"connect"` or `"submit"`',
    "Tasks | None": '`"separate"`, `"together"` or None',
}
_DEFAULTS = {"EVERY_MINUTE": "timedelta(minutes=1)"}


def text() -> str:
    """Return the page."""
    tree = ast.parse(_FILE.read_text())
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    parts = [
        "# DAGs\n",
        "Read this page to find an argument of the functions that make a DAG. `help(flow_dag)` says the same.\n",
        "A duration is a `timedelta`; a bare number is refused.\n",
    ]
    return "\n".join([*parts, *(_function(found[name]) for name in _FUNCTIONS)])


def _function(function: ast.FunctionDef) -> str:
    whole = cleandoc(ast.get_docstring(function) or "")
    intro = re.split(r"^(?:Args|Raises):$", whole, maxsplit=1, flags=re.MULTILINE)[0]
    meanings = {name: plain(" ".join(entry.partition(":")[2].split())) for name, entry in described(whole).items()}
    lines = [f"## {function.name}", plain(intro.strip()), ""]
    lines += [f"* **`{name}`** ({facts}): {meanings[name]}" for name, facts in _arguments(function)]
    if rest := re.search(r"^    \*\*\w+: (.*?)(?=^\S|\Z)", whole, re.DOTALL | re.MULTILINE):
        lines.append(f"* others: {plain(' '.join(rest[1].split()))}")
    return "\n".join(lines) + "\n"


def _arguments(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Yield each argument's name, with its type and default in words."""
    for argument in function.args.args:
        yield argument.arg, f"{_type(argument)}, required"
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if default is None:
            raise ValueError(f"{function.name}: {argument.arg} has no default")
        said = ast.unparse(default)
        yield argument.arg, f"{_type(argument)}, default `{_DEFAULTS.get(said, said)}`".replace("'", '"')


def _type(argument: ast.arg) -> str:
    return _TYPES[ast.unparse(argument.annotation)] if argument.annotation else "anything"
