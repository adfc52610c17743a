"""What each module of the product and the tests imports, also by a name in a string, and which files it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.suite.steady import ROOT

Imports = Mapping[str, frozenset[str]]
"""Module → modules that it imports directly, of those of this repository."""

_ROOTS = {"databus": "include", "tests": "."}

_DOTTED = re.compile(r"\b(?:databus|tests)(?:\.\w+)+")
_FROM = re.compile(r"\bfrom ((?:databus|tests)[\w.]*) import (\w+(?:, \w+)*)")
"""Both in strings: code that another process runs, places of what is loaded late."""

_REPOSITORY = re.compile(r"ROOT|__file__|project|PROJECT|REPOSITORY|parents")
"""What a path begins with that leads into the repository, not into a test's own folder."""

_TELLING = 8
"""Characters that a pattern of a file's name must spell out."""

_TELL = frozenset({ast.Import, ast.ImportFrom, ast.Expr, ast.Constant, ast.BinOp, ast.JoinedStr, ast.Call})
"""Nodes that say something of others: one in ten."""

_WORD = re.compile(r"\w+(?:\.\w+)*(?::\w+)?")
_LONG = 200
_BROAD = frozenset({"tests", "include", "include/databus", "databus"})
"""Folders of nearly all: that one is searched tells nothing of a file."""


class UnreadableError(Exception):
    """A file, a commit or a tool that is not as it must be: what and where, and what to do."""


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
    """Read every module's imports, also inside functions and strings, and of modules that are gone.

    A `conftest.py` counts for all below its folder, that of all tests for the unit tests.

    Raises:
        UnreadableError: a module is no Python.
    """
    named = frozenset(known) | frozenset(gone)
    found = {name: _imported(path, name, named) for name, path in known.items()}
    conftests = {name.rpartition(".")[0]: name for name in known if name.rpartition(".")[2] == "conftest"}
    for name in list(found):
        if name.startswith("tests."):
            above = {conftest for package, conftest in conftests.items() if name.startswith(f"{package}.")}
            unit = name.startswith("tests.unit.")
            found[name] |= above - {name, *(() if unit else ("tests.conftest",))}
    return found


def naming(file: str, known: Mapping[str, Path]) -> set[str]:
    """Return the modules that name a file which is no module of theirs: itself, or a folder that it is in.

    Raises:
        UnreadableError: a module is no Python.
    """
    parts = Path(file).parts
    folders = {"/".join(parts[a:b]) for a in range(len(parts)) for b in range(a + 1, len(parts) + 1)}
    ends = {"/".join(parts[a:]) for a in range(len(parts))}
    found = set()
    for name, path in known.items():
        module = _read(path)
        by_name = ends & module.files
        if by_name or module.paths & folders or any(re.fullmatch(pattern, parts[-1]) for pattern in module.patterns):
            found.add(name)
    return found


class _Module(NamedTuple):
    """What the text of a module says of others, and of files."""

    imported: frozenset[str]
    """Dotted names, of imports and in strings."""
    prefixes: frozenset[str]
    """Of modules whose last name comes from another string."""
    words: frozenset[str]
    """Strings that are such a name."""
    beside: frozenset[str]
    """What lies beside the module: `Path(__file__).with_name("it")`."""
    files: frozenset[str]
    paths: frozenset[str]
    """Below the repository."""
    patterns: frozenset[str]
    """Of files' names."""


def _imported(path: Path, name: str, known: frozenset[str]) -> frozenset[str]:
    module = _read(path)
    found = set(module.imported)
    found |= {prefix + word for prefix in module.prefixes for word in module.words}  # f"databus.cli.{place}"
    for beside in module.beside:  # loaded by its path, as Alembic does with migrations
        package = f"{name.rpartition('.')[0]}.{beside}"
        found |= {other for other in known if other == package or other.startswith(f"{package}.")}
    if path == ROOT / "tests" / "conftest.py":  # its plugins hold for all tests
        found |= {other for other in known if other.startswith("tests.suite.")}
    found |= {package for other in found for package in _packages(other)}  # importing a.b runs a/__init__ too
    return frozenset(found & known) - {name}


@cache
def _read(path: Path) -> _Module:
    imported, texts, documentation = set[str](), set[str](), set[int]()
    beside, paths, patterns = set[str](), set[str](), set[str]()
    for node in _nodes(_tree(path)):
        match node:
            case ast.Import():
                imported |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(module), level=0):
                imported |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
            case ast.Expr(value=ast.Constant() as value):
                documentation.add(id(value))
            case ast.Constant(value=str(text)) if id(node) not in documentation:
                texts.add(text)
            case ast.BinOp(op=ast.Div()):
                paths |= _path(node)
            case ast.JoinedStr():
                patterns |= _pattern(node)
            case ast.Call(func=ast.Attribute(attr="with_name", value=value), args=[ast.Constant(value=str(text))]):
                if "__file__" in ast.unparse(value):
                    beside.add(text)
    for text in texts:
        imported |= set(_DOTTED.findall(text))
        for package, names in _FROM.findall(text):
            imported |= {package, *(f"{package}.{name}" for name in names.split(", "))}
    return _Module(
        frozenset(imported),
        frozenset(text for text in texts if text.endswith(".") and _DOTTED.fullmatch(text[:-1])),
        frozenset(text.partition(":")[0] for text in texts if _WORD.fullmatch(text)),
        frozenset(beside),
        frozenset(text.strip("/") for text in texts if ("." in text or "/" in text) and len(text) < _LONG),
        frozenset(paths | beside) - _BROAD,
        frozenset(patterns),
    )


def _nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that say something of others, what holds another first: as `ast.walk`, in half the time."""
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # grows meanwhile
        if type(node) in _TELL:
            yield node
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                nodes.extend(each for each in value if isinstance(each, ast.AST))
            elif isinstance(value, ast.AST) and field != "ctx":
                nodes.append(value)


def _path(node: ast.BinOp) -> set[str]:
    """Return the path below the repository that `ROOT / "a" / "b"` is."""
    base, parts = _joined(node)
    return {"/".join(parts)} if parts and _REPOSITORY.search(ast.unparse(base)) else set()


def _pattern(node: ast.JoinedStr) -> set[str]:
    """Return the pattern of files' names that `f"records_{dialect}.sql"` is."""
    spelled = [str(part.value) if isinstance(part, ast.Constant) else "" for part in node.values]
    text = "".join(spelled)
    if not spelled or "." not in spelled[-1] or "/" in text or len(text) < _TELLING:
        return set()
    return {"".join(re.escape(part) or r"[\w-]+" for part in spelled)}


def _joined(node: ast.expr) -> tuple[ast.expr, list[str]]:
    """Divide `a / "b" / "c"` into `a` and its parts; a part that is no text ends them."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return node, []
    base, parts = _joined(node.left)
    if isinstance(node.right, ast.Constant) and isinstance(node.right.value, str):
        return base, [*parts, node.right.value]
    return base, parts


def _tree(path: Path) -> ast.Module:
    place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise UnreadableError(f"{place}:{error.lineno}: {error.msg}: mend it first") from error
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{place}: {error}: mend it first") from error


def _packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(2, len(parts))]  # the roots are imported by all
