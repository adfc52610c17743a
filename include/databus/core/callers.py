"""Line of a user's file that called: errors and warnings of a definition name it."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

_PACKAGE = f"{Path(__file__).resolve().parent.parent}{os.sep}"
_UNKNOWN = "<unknown>"


def caller() -> str:
    """Return `file:line` of the nearest line that a user wrote; "<unknown>" where a library or a command called."""
    paths = sysconfig.get_paths()
    libraries = tuple(f"{paths[name]}{os.sep}" for name in ("purelib", "platlib", "stdlib"))
    programs = f"{paths['scripts']}{os.sep}"
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to look at the stack cheaply
    while frame is not None:
        name = frame.f_code.co_filename
        # The top level of an installed module is one's own flow file; its functions call us as typer does.
        foreign = name.startswith(libraries) and frame.f_code.co_name != "<module>"
        if not (foreign or name.startswith((_PACKAGE, "<frozen", programs)) or "/pydantic/" in name):
            return f"{name}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return _UNKNOWN


def at_caller(text: str) -> str:
    """Return a text with the line that a user wrote before it; without one where none is known."""
    where = caller()
    return text if where == _UNKNOWN else f"{where}: {text}"
