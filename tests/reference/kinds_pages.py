"""Pages of kinds, a page per group: each kind with its options, their types, defaults, units and meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from inspect import cleandoc
from typing import Any

import databus
from databus.core.option_texts import described
from databus.registry import GROUPS, load_public
from tests.reference.kind_examples import EXAMPLES
from tests.reference.markdown import plain
from tests.reference.option_types import REQUIRED, bounds_text, default_text, options_of, type_text, unit_text

BESIDE = {
    "sources": ("SnapshotOptions", "MockFault", "RangePartition", "ModuloPartition", "HashPartition"),
    "flow": ("Flow", "Batching", "Expectations", "Mirror"),
    "bases": ("SimpleSource", "SimpleSink"),
}
"""Page → classes that are no kind of a group."""

HEADS = {
    "flow": ("Flow", "what a flow is made of, its batches, expectations on it, and mirrors"),
    "sources": ("Sources", "where rows come from"),
    "transforms": ("Transforms", "changes of rows on their way"),
    "checks": ("Checks", "judges of rows and batches"),
    "sinks": ("Sinks", "where rows go"),
    "alerts": ("Alerts", "thresholds and channels"),
    "bases": ("Base classes", "what a source or sink of your own inherits"),
}


def pages() -> dict[str, Callable[[], str]]:
    """Return file name → function that makes its text."""
    return {f"{group}.md": partial(text, group) for group in HEADS}


def classes_of(group: str) -> tuple[str, ...]:
    """Return the names of the classes of a page."""
    own = [target.partition(":")[2] for target in GROUPS[group][0].values()] if group in GROUPS else []
    return (*own, *BESIDE.get(group, ()))


def text(group: str) -> str:
    title, what = HEADS[group]
    parts = [
        f"# {title}\n",
        f"Read this page to find an option: {what}. `help({classes_of(group)[0]})` in Python says the same.\n",
        "A duration is a `timedelta`; a bare number is refused. An option without a default must be given.\n",
    ]
    parts += [kind_text(name) for name in classes_of(group)]
    return "\n".join(parts)


def kind_text(name: str) -> str:
    spec: Any = getattr(databus, name) if name in databus.__all__ else load_public(name)
    intro, options = _parted(spec)
    kind = getattr(spec, "kind", "") if name not in ("Flow", "Mirror") else ""
    lines = [f"## {name}", *([f"Kind `{kind}`.", ""] if kind else []), intro, ""]
    if name in EXAMPLES:
        lines += ["```python", EXAMPLES[name], "```", ""]
    lines += list(_options(spec, options))
    return "\n".join(lines) + "\n"


def _parted(spec: Any) -> tuple[str, dict[str, str]]:
    """Return the docstring's text before its sections, and option → meaning."""
    whole = cleandoc(spec.__doc__)
    intro = re.split(r"^(?:Attributes|Args|Options of base classes|Raises):$", whole, maxsplit=1, flags=re.MULTILINE)[0]
    found = {name: entry.partition(":")[2] for name, entry in described(whole).items()}
    return plain(intro.strip()), {name: plain(" ".join(entry.split())) for name, entry in found.items()}


def _options(spec: Any, meanings: dict[str, str]) -> Iterator[str]:
    for name, annotation, default, metadata in options_of(spec):
        facts = [type_text(annotation)]
        facts += [unit] if (unit := unit_text(name, annotation)) else []
        facts += [bounds] if (bounds := bounds_text(metadata)) else []
        facts += ["required"] if default is REQUIRED else [f"default {default_text(default)}"]
        yield f"* **`{name}`** ({', '.join(facts)}): {meanings[name]}"
