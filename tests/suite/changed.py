"""The tests that a change touches: those that import what changed, as far as they take minutes.

`python -m tests.suite.changed [--since COMMIT] [--minutes N] [--list] [pytest's arguments]`: without --since, what is
not committed. A test without servers is touched if it imports a changed module in any number of steps, also by a name
in a string; one that starts servers, if it or a helper beside it imports one directly, or is changed itself, and where
there is none such, the nearest. What is no module counts for the modules that name it. Where nothing is found, the
tests of the nearest package are. Where all that takes longer than the minutes, the nearest and shortest are run, and
the others told. It ends with 5, as pytest, where no test was run, and with 2 where it cannot be known which.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.suite import child
from tests.suite.groups import LIGHT, group_of, seconds_of
from tests.suite.imports import Imports, UnreadableError, imports, module_of, modules, naming
from tests.suite.steady import ROOT
from tests.suite.tiers import FULL

_NOTHING_RAN = 5
"""Pytest's code where no test is left."""

_CANNOT_TELL = 2

_NAMES_AT_MOST = 8


def touched(changed: Iterable[str], known: Imports) -> set[str]:
    """Return the test modules that a change of modules touches."""
    changed = set(changed)
    everything = importing(changed, known)
    near = _importers(changed, known, steps=1)
    helpers = {name for name in near if name.startswith("tests.") and not _is_test(name)}
    near |= _importers(helpers, known, steps=1)
    found = {name for name in everything if _is_light(name) or name in near or name in changed}
    if any(not _is_light(name) for name in found):
        return found
    for importers in _by_steps(changed, known):  # no server test is near: those that are nearest
        beside = importers & everything
        if beside - found or everything == found:
            return found | beside
    return found


def importing(changed: Iterable[str], known: Imports) -> set[str]:
    """Return the test modules that import what changed in any number of steps."""
    return {name for name in _importers(set(changed), known, steps=None) if _is_test(name)}


def of_package(place: str, known: Imports) -> set[str]:
    """Return the tests of the nearest package of a module or a file's folder, where it has any: by the tests' folders,
    or by what imports a module of it.
    """
    parts = place.split(".")[1:]
    for end in range(len(parts), 0, -1):
        package = ".".join(parts[:end])
        folders = tuple(f"tests.{kind}{package}." for kind in ("unit.", "", "integration."))
        found = {name for name in known if _is_test(name) and name.startswith(folders)}
        inside = {name for name in known if name.startswith(f"databus.{package}.")}
        if found := found or touched(inside, known):
            return found
    return set()


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
    found = of
    for taken, found in enumerate(_by_steps(of, known)):  # noqa: B007 - the last one is what was asked for
        if taken == steps:
            break
    return found


def _by_steps(of: set[str], known: Imports) -> Iterator[set[str]]:
    """Yield modules and what imports them: in no step, in one, in two, up to all."""
    packages = {name.rpartition(".")[0] for name in known}
    found = edge = set(of)
    yield found
    while edge:
        edge = {name for name, imported in known.items() if name not in found and not imported.isdisjoint(edge)}
        found = found | edge
        if not edge & packages:
            yield found


def _is_test(name: str) -> bool:
    return name.startswith("tests.") and name.rpartition(".")[2].startswith("test_")


def _is_light(name: str) -> bool:
    return name.replace(".", "/").startswith(LIGHT)


def changed_files(since: str | None, root: Path = ROOT) -> list[str]:
    """Return the paths that differ from a commit; of a file that was moved, both.

    Raises:
        UnreadableError: there is no git, no repository or no such commit.
    """

    def git(*arguments: str) -> list[str]:
        try:
            done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)
        except FileNotFoundError as error:
            raise UnreadableError("git: no such program: it tells what changed") from error
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip().partition("\n")[0]
            raise UnreadableError(f"git {arguments[0]}: {said} (SINCE is a commit of this repository)") from error
        return [name.decode(errors="surrogateescape") for name in done.stdout.split(b"\0") if name]

    new = git("ls-files", "--others", "--exclude-standard", "-z")
    return [*git("diff", "--name-only", "--no-renames", "-z", since or "HEAD", "--"), *new]


class Choice:
    """The test modules to run for files that changed, and what is to be told of the others."""

    def __init__(self, files: Iterable[str], minutes: float) -> None:
        self.paths = modules()
        names = {file: module_of(file) for file in files}
        gone = {name for name in names.values() if name} - set(self.paths)
        known = imports(self.paths, gone)
        sources = {file: {name} if name else naming(file, self.paths) for file, name in names.items()}
        self.changed = {name for name in names.values() if name}
        self.by_package: list[str] = []
        self.unknown: list[str] = []
        found: set[str] = set()
        for file, of in sorted(sources.items()):
            tests = touched(of, known)
            if not tests and (tests := of_package(names[file] or _place(file), known)):
                self.by_package.append(file)
            if not tests:
                self.unknown.append(file)
            found |= tests
        every = frozenset[str]().union(*sources.values())
        found = {name for name in found if name in self.paths}
        far = {name for name in importing(every, known) if name in self.paths} - found
        self._seconds = _seconds(self.paths)
        self.fit, left = within(nearest(found, every, known, self._seconds), self.changed, self._seconds, minutes * 60)
        self.left = [*left, *nearest(far, every, known, self._seconds)]

    def files(self, names: Iterable[str]) -> list[str]:
        """Return the modules' paths in the repository."""
        return sorted(str(self.paths[name].relative_to(ROOT)) for name in names)

    def whole(self) -> list[str]:
        """Return changed test files of which some tests are in the full tier only: these are run as well."""
        full = {f"tests/{entry.file}" for entry in FULL}
        return [file for file in self.files(set(self.fit) & self.changed) if file in full]

    def tell(self, every: bool) -> None:
        """Print what is run for what, and what is not."""
        print(f"{len(self.changed)} modules changed; {len(self.fit)} test files are run", flush=True)
        if self.by_package:
            print(f"no test imports or names them, the nearest package's are run: {_listed(self.by_package)}")
        if self.unknown:
            print(f"no test is known for: {_listed(self.unknown)}")
        if self.left:
            longer = sum(self._seconds[name] for name in self.left) / 60
            files = self.files(self.left)
            told = ", ".join(files) if every else _listed(files)
            print(f"left out: {len(files)} files farther away, some {longer:.0f} minutes (make test): {told}")
        sys.stdout.flush()


def _place(file: str) -> str:
    """Return the dotted place of a file that is no module: of one of the product or the tests, its folder's."""
    return module_of(str(Path(file).with_name("__init__.py")))


def _listed(files: Sequence[str]) -> str:
    more = len(files) - _NAMES_AT_MOST
    return ", ".join(files[:_NAMES_AT_MOST]) + (f" and {more} more (--list)" if more > 0 else "")


def main(arguments: Sequence[str]) -> int:
    """Run the tests that a change touches."""
    parser = argparse.ArgumentParser(prog="python -m tests.suite.changed", description=__doc__)
    parser.add_argument("--since", help="a commit: what has changed since then; default: what is not committed")
    parser.add_argument("--minutes", type=float, default=8, help="about how long it may take (8)")
    parser.add_argument("--list", action="store_true", help="print the test files, run none")
    options, rest = parser.parse_known_args(arguments)
    try:
        files = changed_files(options.since)
        choice = Choice(files, options.minutes)
    except UnreadableError as error:
        print(error, file=sys.stderr)
        return _CANNOT_TELL
    if not files:
        print(f"nothing differs from {options.since or 'HEAD'} (SINCE=commit)")
    choice.tell(every=options.list)
    if options.list:
        print(*choice.files(choice.fit), sep="\n")
        return 0
    whole = choice.whole()
    others = [file for file in choice.files(choice.fit) if file not in whole]
    pytest = [sys.executable, "-m", "pytest"]
    codes = [child.run([*pytest, "-m", "not full", *others, *rest], ROOT)] if others else []
    codes += [child.run([*pytest, *whole, *rest], ROOT)] if whole else []
    ran = [code for code in codes if code != _NOTHING_RAN]
    if not ran:
        print("no test was run" + (": what is chosen is in the full tier only (make test-full)" if codes else ""))
        return _NOTHING_RAN
    return next((code for code in ran if code), 0)


if __name__ == "__main__":
    sys.exit(child.interruptible(lambda: main(sys.argv[1:])))
