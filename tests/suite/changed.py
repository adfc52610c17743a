"""The tests that a change touches: those that import what changed, as far as they take minutes.

`python -m tests.suite.changed [--since COMMIT] [--minutes N] [--list] [pytest's arguments]`: without --since, what is
not committed. A unit test is touched if it imports a changed module in any number of steps; one that starts servers, if
it or a helper beside it imports one directly, or is changed itself. Where these take longer than the minutes, the
nearest and shortest are run, and the others are told. What whole flows do is in the whole run only.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.suite.groups import group_of, seconds_of
from tests.suite.steady import ROOT

Imports = Mapping[str, frozenset[str]]
"""Module → modules that it imports directly, of those of this repository."""

_ALL_IN_THE_FULL_TIER = 5
"""Pytest's code where no test is left."""

_ROOTS = {"databus": "include", "tests": "."}


def modules() -> dict[str, Path]:
    """Return every module of the product and the tests, by its dotted name."""
    found = {}
    for package, root in _ROOTS.items():
        for path in (ROOT / root / package).rglob("*.py"):
            found[module_of(str(path.relative_to(ROOT)))] = path
    return found


def module_of(file: str) -> str:
    """Return the dotted name of a module by its path in the repository; "" for what is none of the product or tests."""
    parts = Path(file).with_suffix("").parts
    parts = parts[1:] if parts[0] == "include" else parts
    if not file.endswith(".py") or parts[0] not in _ROOTS:
        return ""
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(known: Mapping[str, Path], gone: Iterable[str] = ()) -> Imports:
    """Read every module's imports, also inside functions and of modules that are gone; a `conftest.py` counts for all
    below its folder, that of all tests for the unit tests.
    """
    named = frozenset(known) | frozenset(gone)
    found = {name: _imported(path, named) for name, path in known.items()}
    conftests = {name.rpartition(".")[0]: name for name in known if name.rpartition(".")[2] == "conftest"}
    for name in list(found):
        if name.startswith("tests."):
            above = {conftest for package, conftest in conftests.items() if name.startswith(f"{package}.")}
            found[name] |= above - {name, *(() if _is_unit(name) else ("tests.conftest",))}
    return found


def touched(changed: Iterable[str], known: Imports) -> set[str]:
    """Return the test modules that a change of modules touches."""
    changed = set(changed)
    everything = _importers(changed, known, steps=None)
    near = _importers(changed, known, steps=1)
    helpers = {name for name in near if name.startswith("tests.") and not _is_test(name)}
    near |= _importers(helpers, known, steps=1)
    return {name for name in everything if _is_test(name) and (_is_unit(name) or name in near or name in changed)}


def nearest(tests: Iterable[str], changed: Iterable[str], known: Imports, seconds: Mapping[str, float]) -> list[str]:
    """Return test modules in the order to run them in: nearest first, and of these the shortest."""
    names = frozenset(changed)

    def rank(name: str) -> tuple[int, float, str]:
        return (0 if name in names else 1 if known[name] & names else 2), seconds[name], name

    return sorted(tests, key=rank)


def within(
    tests: Sequence[str], changed: Iterable[str], seconds: Mapping[str, float], most_s: float
) -> tuple[list[str], list[str]]:
    """Divide tests in their order into those that fit into some seconds, and the others; changed ones always fit."""
    names = frozenset(changed)
    fit: list[str] = []
    left: list[str] = []
    for name in tests:
        taken = sum(seconds[other] for other in fit)
        (fit if name in names or not fit or taken + seconds[name] <= most_s else left).append(name)
    return fit, left


def _seconds(paths: Mapping[str, Path]) -> dict[str, float]:
    """Return how long each test file takes: of a group of several, its share."""
    groups = {name: group_of(str(path.relative_to(ROOT))) for name, path in paths.items() if _is_test(name)}
    sizes = Counter(groups.values())
    return {name: seconds_of(group) / sizes[group] for name, group in groups.items()}


def _importers(of: set[str], known: Imports, steps: int | None) -> set[str]:
    """Return modules and what imports them, in some steps or any number; a package's own module is no step."""
    packages = {name.rpartition(".")[0] for name in known}
    found, edge, taken = set(of), set(of), 0
    while edge and (steps is None or taken < steps):
        edge = {name for name, imported in known.items() if imported & edge} - found
        found |= edge
        if not edge & packages:
            taken += 1
    return found


def _is_test(name: str) -> bool:
    return name.startswith("tests.") and name.rpartition(".")[2].startswith("test_")


def _is_unit(name: str) -> bool:
    return name.startswith("tests.unit.")


@cache
def _imported(path: Path, known: frozenset[str]) -> frozenset[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    if path == ROOT / "tests" / "conftest.py":  # its plugins are named as strings
        found |= {name for name in known if name.startswith("tests.suite.")}
    found |= {package for name in found for package in _packages(name)}  # importing a.b runs a/__init__ too
    return frozenset(found & known)


def _packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(2, len(parts))]  # the roots are imported by all


def _changed_files(since: str | None) -> list[str]:
    def git(*arguments: str) -> list[str]:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.splitlines()

    return [*git("diff", "--name-only", since or "HEAD"), *git("ls-files", "--others", "--exclude-standard")]


def main(arguments: Sequence[str]) -> int:
    """Run the tests that a change touches."""
    parser = argparse.ArgumentParser(prog="python -m tests.suite.changed", description=__doc__)
    parser.add_argument("--since", help="a commit: what has changed since then; default: what is not committed")
    parser.add_argument("--minutes", type=float, default=8, help="about how long it may take (8)")
    parser.add_argument("--list", action="store_true", help="print the test files, run none")
    options, rest = parser.parse_known_args(arguments)
    paths = modules()
    names = {file: module_of(file) for file in _changed_files(options.since)}
    changed = {name for name in names.values() if name}
    known = imports(paths, changed - set(paths))
    found, seconds = touched(changed, known), _seconds(paths)
    chosen, left = within(nearest(found, changed, known, seconds), changed, seconds, options.minutes * 60)
    files = sorted(str(paths[name].relative_to(ROOT)) for name in chosen)
    print(f"{len(changed)} modules changed, {len(found)} test files import them", flush=True)
    if left:
        longer = sum(seconds[name] for name in left) / 60
        print(
            f"left out: {len(left)} files farther away, some {longer:.0f} minutes (--minutes, or make test)", flush=True
        )
    if others := sorted(file for file, name in names.items() if not name):
        print(f"no test is known by imports for: {', '.join(others)}", flush=True)
    if options.list or not files:
        print(*files, sep="\n")
        return 0
    command = [sys.executable, "-m", "pytest", "-m", "not full", *files, *rest]
    code = subprocess.run(command, check=False, cwd=ROOT).returncode
    return 0 if code == _ALL_IN_THE_FULL_TIER else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
