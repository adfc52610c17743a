"""Page of `databus.consumer`: its names, from their docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

import databus.consumer
from databus.consumer.options import ConsumerOptions
from databus.core.option_texts import described
from tests.reference.markdown import plain

_SECTIONS = re.compile(r"^(?:Attributes|Args|Returns|Raises):$", re.MULTILINE)
_INTERNAL = frozenset(
    {"bind", "check", "give_up", "group", "load_anew", "open", "reset", "store", "take_up", "topic_of"}
)
"""Methods that the consumer itself calls."""
_HEAD = """# Consumer

Read this page to find a name of `databus.consumer`; [how to read changes in Python](../howto/read-changes-in-python.md)
begins with an example. `help(Changes)` in Python says the same.
"""


def text() -> str:
    return "\n".join([_HEAD, *(_name(name) for name in databus.consumer.__all__)])


def _name(name: str) -> str:
    kind: Any = getattr(databus.consumer, name)
    lines = [f"## {name}", "", _intro(kind.__doc__), ""]
    lines += _entries(kind.__doc__)
    if issubclass(kind, ConsumerOptions):
        lines += _entries(ConsumerOptions.__doc__ or "")
    for method, function in inspect.getmembers(kind, inspect.isfunction):
        if not method.startswith("_") and method not in _INTERNAL and function.__doc__:
            signature = (
                re.sub(r"'", "", str(inspect.signature(function))).replace("(self, ", "(").replace("(self)", "()")
            )
            lines += ["", f"### {name}.{method}", "", f"`{method}{signature}`", "", _intro(function.__doc__), ""]
            lines += _entries(function.__doc__)
    return "\n".join(lines) + "\n"


def _intro(doc: str) -> str:
    return plain(_SECTIONS.split(cleandoc(doc), maxsplit=1)[0].strip())


def _entries(doc: str) -> Iterator[str]:
    for name, entry in described(cleandoc(doc)).items():
        yield f"* **`{name}`**: {plain(' '.join(entry.partition(':')[2].split()))}"
