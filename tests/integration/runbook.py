"""Follow a runbook: its code blocks are read from the page and run as they stand there."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
_BLOCK = re.compile(r"^## (?P<step>\d+)\.[^\n]*\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_SH = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def steps(page: str, values: Mapping[str, str]) -> dict[int, list[Sequence[str]]]:
    """Return step → arguments of its `databus` commands, with the page's $NAMES filled in."""
    text = (RUNBOOKS / page).read_text()
    found: dict[int, list[Sequence[str]]] = {}
    for section in _BLOCK.finditer(text):
        lines = [line for block in _SH.findall(section["text"]) for line in block.splitlines()]
        filled = [shlex.split(_filled(line, values)) for line in lines]
        assert all(words[0] == "databus" for words in filled), filled
        found[int(section["step"])] = [words[1:] for words in filled]
    return found


def typed(page: str, heading: str) -> str:
    """Return what a section tells to type into a shell of Airflow's host; its $NAMES are for that shell to fill in."""
    (section,) = re.findall(
        rf"^## {heading}\n(.*?)(?=^## |\Z)", (RUNBOOKS / page).read_text(), re.MULTILINE | re.DOTALL
    )
    (block,) = re.findall(r"^```bash\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return str(block)


def _filled(line: str, values: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return values[match[1]]

    return re.sub(r"\$([A-Z]+)", value, line)


def links(page: str) -> list[Path]:
    """Return the files that a page refers to."""
    text = (RUNBOOKS / page).read_text()
    named = [RUNBOOKS / target for target in re.findall(r"\]\(([^)#:]+)\)", text)]
    named += [RUNBOOKS.parents[1] / path for path in re.findall(r"`(tests/[\w/.]+)`", text)]
    return [Path(os.path.normpath(path)) for path in named]
