"""Error codes that the code raises or reports, with the modules that do, read from its syntax."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from databus.cli.terminal.exits import ERROR, exit_code
from databus.core import errors, trace
from databus.core.errors import ConfigError, DatabusError

PACKAGE = Path(__file__).parents[2] / "include" / "databus"
_LEAVES = {ast.Name, ast.Constant, ast.Load, ast.Store, ast.Del, ast.alias}
_FAULTS = ("TlsFault", "Problem")
"""Calls that carry a code, their first argument, to where it is raised or reported."""


@dataclass
class Raised:
    """Code, and where it comes from.

    Attributes:
        modules: paths below the package.
        classes: names of the error classes that bear it; "" where it is decided elsewhere.
        finding: whether `doctor` and the preflight report it.
        warns_only: whether it is a finding that never stops a flow.
    """

    modules: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    finding: bool = False
    warns_only: bool = True


@dataclass
class Module:
    """Module, and what of it may hold a code.

    Attributes:
        place: path below the package.
        calls: calls of names.
        errors: name of an error's class → (base's name, code, whether it is retried); None for what it inherits.
        texts: name → expressions that are assigned to it.
        imported: name → path below the package of the module that it is imported from, and its name there.
    """

    place: str
    calls: list[tuple[str, ast.Call]] = field(default_factory=list)
    errors: dict[str, tuple[str, str | None, bool | None]] = field(default_factory=dict)
    texts: dict[str, list[ast.expr]] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)


@cache
def modules() -> dict[str, Module]:
    """Return path below the package → module."""
    paths = (path for path in sorted(PACKAGE.rglob("*.py")) if "errors/entries" not in path.as_posix())
    return {path.relative_to(PACKAGE).as_posix(): _read(path) for path in paths}


def _read(path: Path) -> Module:
    made = Module(path.relative_to(PACKAGE).as_posix())
    for node in _nodes(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                made.calls.append((name, node))
            case ast.ClassDef(name=name, bases=[ast.Name(id=base), *_]) if base.endswith("Error"):
                of = {part.targets[0].id: part.value for part in node.body
                      if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name)}  # fmt: skip
                code, again = (ast.literal_eval(of[key]) if key in of else None for key in ("code", "retryable"))
                made.errors[name] = (base, code, again)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for one, value in zip(names, values, strict=False):
                    made.texts.setdefault(ast.unparse(one), []).append(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                made.texts.setdefault(name, []).append(value)
            case ast.ImportFrom(module=str(source), names=names) if source.startswith("databus."):
                file = source.removeprefix("databus.").replace(".", "/")
                known = f"{file}.py" if (PACKAGE / f"{file}.py").exists() else f"{file}/__init__.py"
                made.imported |= {alias.asname or alias.name: (known, alias.name) for alias in names}
            case _:
                pass
    return made


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what has parts of its own, a node before its parts: some half of what `ast.walk` does, in its order."""
    left = deque([tree])
    while left:
        node = left.popleft()
        yield node
        for name in node._fields:
            part = getattr(node, name, None)
            for each in part if type(part) is list else (part,):
                if isinstance(each, ast.AST) and type(each) not in _LEAVES:
                    left.append(each)


@cache
def error_classes() -> dict[str, tuple[str, str | None, bool | None]]:
    """Return name → (base's name, code, whether it is retried) of every error's class."""
    return {name: of for module in modules().values() for name, of in module.errors.items()}


def _inherited(name: str, at: int) -> str | bool | None:
    """Return the code (1), or whether it is retried (2), of a class or the nearest base that says so."""
    while name in error_classes():
        if (found := error_classes()[name][at]) is not None:
            return found
        name = error_classes()[name][0]
    return DatabusError.code if at == 1 else DatabusError.retryable


def is_error(name: str) -> bool:
    while name in error_classes():
        name = error_classes()[name][0]
    return name == "DatabusError"


def class_of(name: str) -> type[DatabusError]:
    """Return a class of `core`, of another module's class the nearest base in `core`."""
    while not hasattr(errors, name) and not hasattr(trace, name):
        name = error_classes()[name][0]
    found: type[DatabusError] = getattr(errors, name, None) or getattr(trace, name)
    return found


@cache
def codes() -> dict[str, Raised]:
    """Return code → where it comes from.

    Raises:
        AssertionError: a code that cannot be read out of the code: write it as a constant.
    """
    found: dict[str, Raised] = {}
    for module in modules().values():
        for name, (_, code, _) in module.errors.items():
            if code and is_error(name):
                found.setdefault(code, Raised()).classes.add(name)
        for name, call in module.calls:
            for code in _given(name, call, module):
                entry = found.setdefault(code, Raised())
                entry.modules.add(module.place)
                if name in ("Finding", "Problem"):
                    entry.finding = True
                    entry.warns_only &= name == "Finding" and ast.unparse(call.args[1]) == "Level.WARN"
                else:
                    entry.classes.add(name if is_error(name) else "")
    return {code: found[code] for code in sorted(found)}


def _given(name: str, call: ast.Call, module: Module) -> Iterator[str]:
    """Yield the codes that a call gives to an error, finding or fault; that of its class where it gives none."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
    if name == "Finding":
        given += call.args[4:5]
    elif name in _FAULTS:
        given += call.args[:1]
    if given:
        yield from (text for value in given for text in _texts(value, module) if text)
    elif is_error(name):
        yield str(_inherited(name, 1))


def _texts(value: ast.expr, module: Module) -> Iterator[str]:
    """Yield the codes that an expression may have; none where it passes on that of another error or fault."""
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from (*_texts(one, module), *_texts(other, module))
        case ast.BoolOp(values=values):
            yield from (text for part in values for text in _texts(part, module))
        case ast.JoinedStr():
            pattern = "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in value.values)
            assert pattern == "source_{}_missing", f"{module.place}: {pattern}"
            yield "source_topic_missing"  # a table's has a constant
        case ast.Name(id=name) if name in module.imported:
            file, there = module.imported[name]
            yield from (text for given in modules()[file].texts[there] for text in _texts(given, modules()[file]))
        case ast.Name(id=name):  # of a parameter there is none
            yield from (text for given in module.texts.get(name, ()) for text in _texts(given, module))
        case ast.Attribute(value=ast.Name(id=name), attr="code") if is_error(name):
            yield str(_inherited(name, 1))
        case ast.Attribute() | ast.Subscript() | ast.Call():
            return
        case _:
            raise AssertionError(f"{module.place}: the code {ast.unparse(value)} cannot be read")


def exits_of(code: str) -> tuple[int, ...]:
    """Return the exit codes that the command may end with for a code; none for a mere warning."""
    raised = codes()[code]
    found = {exit_code(class_of(name or "DatabusError")("", code=code)) for name in raised.classes}
    if raised.finding and not raised.warns_only and of_doctor_alone(code):
        found.add(ERROR)  # of `doctor` itself: nothing is raised
    elif raised.finding and not raised.warns_only:
        found.add(exit_code(ConfigError("", code=code)))
    return tuple(sorted(found))


def of_doctor_alone(code: str) -> bool:
    """Tell whether only `doctor` finds a code: no preflight, and nothing raises it."""
    return codes()[code].modules == {"ops/health/doctor.py"} and not codes()[code].classes


def is_retried(code: str) -> bool:
    """Tell whether an error of the code is tried again without a person, by the classes that bear it."""
    return any(bool(_inherited(name, 2)) for name in codes()[code].classes)
