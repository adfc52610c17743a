"""Registry of functions: Spark's name → how its argument types are resolved to a kernel.

Each module of this folder registers its functions when it is imported; a new module needs no entry anywhere.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from databus.expressions.errors import NotCompiledError

Value: TypeAlias = pa.Array | pa.Scalar
Kernel = Callable[..., Value]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""Stands in `Arguments.literals` for an argument that is not constant."""


@dataclass(frozen=True)
class Arguments:
    """Arguments of a call, before they are converted.

    Attributes:
        name: the function's name as written, in lower case.
        types: their Spark types; "void" of a NULL without a type.
        literals: their Python values where they are constant (None for NULL), else MISSING.
        ansi: whether ANSI mode is on.
        written: whether each is a literal in the text, and not only constant.
    """

    name: str
    types: tuple[str, ...]
    literals: tuple[Any, ...]
    ansi: bool = True
    written: tuple[bool, ...] = ()

    def __len__(self) -> int:
        return len(self.types)

    def refused(self, why: str = "") -> NotCompiledError:
        """Return the error of a call that is not compiled with these arguments."""
        shown = f"{self.name}({', '.join(self.types)})"
        return NotCompiledError(f"{shown}: {why}" if why else shown)

    def literal(self, position: int) -> Any:
        """Return the value of an argument that must be constant.

        Raises:
            NotCompiledError: it is not.
        """
        if self.literals[position] is MISSING:
            raise self.refused(f"argument {position + 1} is not constant")
        return self.literals[position]


@dataclass(frozen=True)
class Resolved:
    """A call whose types are known.

    Attributes:
        type: Spark type of the result.
        arguments: types that the arguments are implicitly cast to before the kernel is called.
        kernel: function of one Arrow array or scalar (a constant) per argument, at least one of them an array unless
            all are constant; NULL in, NULL out. It raises ExpressionError where Spark fails in ANSI mode, and no error
            for a row with a NULL argument.
        reads: in which order Spark looks at the arguments: "strict": from the left, and none after a NULL;
            "reversed": the same from the right; "all": each of them.
    """

    type: str
    arguments: tuple[str, ...]
    kernel: Kernel
    reads: Literal["strict", "reversed", "all"] = "strict"


Resolve = Callable[[Arguments], Resolved]

_FUNCTIONS: dict[str, Resolve] = {}

FORMS: Final = ("and", "or", "in", "between", "case", "if", "coalesce", "nvl", "ifnull", "nvl2", "nullif")
"""Names that the compiler itself knows: they look at some of their arguments only."""
_FORM_WORDS: Final = ("cast", "try_cast", "is null", "is true", "is false", "is distinct from")


def register(*names: str, resolve: Resolve) -> None:
    """Add a function under its names.

    Raises:
        ValueError: a name is taken.
    """
    for name in names:
        if name in _FUNCTIONS or name in FORMS:
            raise ValueError(f"{name} is registered twice")
        _FUNCTIONS[name] = resolve


def resolve(arguments: Arguments) -> Resolved:
    """Return the kernel of a call.

    Raises:
        NotCompiledError: no such function here, or not with these arguments.
    """
    _load()
    found = _FUNCTIONS.get(arguments.name)
    if found is None:
        raise NotCompiledError(f"the function {arguments.name}")
    return found(arguments)


def names() -> tuple[str, ...]:
    """Return the names of all functions, operators and forms that are compiled, sorted."""
    _load()
    return tuple(sorted(name for name in {*_FUNCTIONS, *FORMS, *_FORM_WORDS} if not name.startswith("_")))


@cache
def _load() -> None:
    package = importlib.import_module("databus.expressions.functions")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
