"""Command that writes dashboards and rules into a folder: `python -m databus.observe.charts FOLDER [--runbooks URL]`.

grafana/flows.json, mirrors.json, snapshot.json, plane.json
prometheus/recording.yaml, alerts.yaml
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from databus.observe.charts.boards import BOARDS
from databus.observe.charts.rules import RUNBOOKS, alerting_file, recording_file

_WRITTEN = "# Written by `make charts` from databus.observe.charts: change it there.\n"


def files(runbooks: str = RUNBOOKS) -> dict[str, str]:
    """Return path → text of each file.

    Args:
        runbooks: base address of the links to runbooks.
    """
    found = {
        f"grafana/{board.name}.json": json.dumps(board.json(), indent=1, ensure_ascii=False) + "\n" for board in BOARDS
    }
    rules = {"recording": recording_file(), "alerts": alerting_file(runbooks=runbooks)}
    for name, told in rules.items():
        text = yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=100_000)
        found[f"prometheus/{name}.yaml"] = _WRITTEN + text
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files; those that are there are replaced."""
    parser = argparse.ArgumentParser(prog="python -m databus.observe.charts", description=__doc__)
    parser.add_argument("folder", type=Path, help="where grafana/ and prometheus/ are written")
    parser.add_argument("--runbooks", default=RUNBOOKS, help=f"base address of runbooks (default: {RUNBOOKS})")
    options = parser.parse_args(arguments)
    for name, text in files(options.runbooks).items():
        path = options.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
