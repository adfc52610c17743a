"""The tests that a change touches: those that import what changed, as far as it takes minutes.

`python -m tests.suite.changed [--since COMMIT] [--list] [pytest's arguments]`: without --since, what is not committed.
A unit test is touched if it imports a changed module in any number of steps; one that starts servers, if it or a helper
beside it imports one directly, or is changed itself. What whole flows do is in the whole run only.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.suite.steady import ROOT

Imports = Mapping[str, frozenset[str]]
"""Module → modules that it imports directly, of those of this repository."""

_ROOTS = {"databus": "include", "tests": "."}


def modules() -> dict[str, Path]:
    """Return every module of the product and the tests, by its dotted name."""
    found = {}
    for package, root in _ROOTS.items():
        for path in (ROOT / root / package).rglob("*.py"):
            parts = path.relative_to(ROOT / root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(known: Mapping[str, Path]) -> Imports:
    """Read every module's imports, also inside functions; a `conftest.py` counts for all below its folder."""
    found = {name: _imported(path, frozenset(known)) for name, path in known.items()}
    conftests = {name.rpartition(".")[0]: name for name in known if name.rpartition(".")[2] == "conftest"}
    for name in list(found):
        if name.startswith("tests."):
            above = {conftest for package, conftest in conftests.items() if name.startswith(f"{package}.")}
            found[name] |= above - {name, "tests.conftest"}
    return found


def touched(changed: Iterable[str], known: Imports) -> set[str]:
    """Return the test modules that a change of modules touches."""
    changed = set(changed)
    everything = _importers(changed, known, steps=None)
    near = _importers(changed, known, steps=1)
    helpers = {name for name in near if name.startswith("tests.") and not _is_test(name)}
    near |= _importers(helpers, known, steps=1)
    return {name for name in everything if _is_test(name) and (_is_unit(name) or name in near or name in changed)}


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
    return frozenset(found & known)


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
    parser.add_argument("--list", action="store_true", help="print the test files, run none")
    options, rest = parser.parse_known_args(arguments)
    paths = modules()
    names = {str(path.relative_to(ROOT)): name for name, path in paths.items()}
    changed = [names[file] for file in _changed_files(options.since) if file in names]
    files = sorted(str(paths[name].relative_to(ROOT)) for name in touched(changed, imports(paths)))
    print(f"{len(changed)} modules changed, {len(files)} test files import them", flush=True)
    if options.list or not files:
        print(*files, sep="\n")
        return 0
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "not full", *files, *rest], check=False, cwd=ROOT
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
