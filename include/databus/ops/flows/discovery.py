"""Find flows in DAG files: the same files Airflow reads, one bad file never hides another."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import databus
from databus.core.amounts import counted
from databus.core.errors.config import ConfigError
from databus.core.errors.root import DatabusError
from databus.core.flow import Flow
from databus.core.flows_only import given_flows, without_dags
from databus.core.packages import lacking, of_import
from databus.registry import public_names


@dataclass(frozen=True)
class FoundFlow:
    """A flow and the file that defines it."""

    flow: Flow
    file: Path


@dataclass(frozen=True)
class BrokenFile:
    """A DAG file that could not be read.

    Attributes:
        file: the file.
        error: why, with line and hint where it is ours.
    """

    file: Path
    error: DatabusError


def dags_folder() -> Path:
    """Return $DATABUS_DAGS, Airflow's DAG folder, or ./dags."""
    chosen = os.environ.get("DATABUS_DAGS") or os.environ.get("AIRFLOW__CORE__DAGS_FOLDER")
    return Path(chosen) if chosen else Path("dags")


def builds_dags() -> bool:
    """Return whether DAGs can be built here: Airflow is installed."""
    return "apache-airflow" not in lacking("airflow")


def dag_files(root: Path) -> list[Path]:
    """Return the Python files of a folder and of those in it, sorted.

    As for Airflow, what is no file is none: a directory, or a link that leads nowhere, such as an editor's lock.
    """
    # Not rglob, which raises when a directory goes away meanwhile.
    files = (Path(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith(".py"))
    return sorted(file for file in files if os.path.isfile(file))  # noqa: PTH113 - never raises


def discover(
    folder: Path | None = None, mention: str = "databus", *, dags: bool = True
) -> tuple[list[FoundFlow], list[BrokenFile]]:
    """Import every DAG file that mentions databus and return its flows, sorted by name, and the broken files.

    Args:
        folder: where they are; $DATABUS_DAGS and so on by default.
        mention: only files that hold this word.
        dags: whether their DAGs are built too, so that what is wrong with them shows as well; where Airflow is not
            installed none is built.

    Raises:
        ConfigError: the folder does not exist.
    """
    root, dags = folder or dags_folder(), dags and builds_dags()
    if not root.is_dir():
        raise ConfigError(f"no DAG folder at {root}", hint="Name one with --dags or set DATABUS_DAGS.")
    found: dict[str, FoundFlow] = {}
    broken: list[BrokenFile] = []
    files = dag_files(root)
    others = _Others(frozenset(file.resolve() for file in files), mention)
    for file in files:
        try:
            if not _mentions(file, mention):
                continue
            for flow in _flows_of(file, others) if dags else _flows_alone(file, others):
                twin = found.get(flow.name)
                if twin is not None:
                    raise ConfigError(f"{file}: flow {flow.name!r} is defined in {twin.file} already")
                found[flow.name] = FoundFlow(flow, file)
        except DatabusError as error:
            broken.append(BrokenFile(file, error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's file may raise anything; others go on
            broken.append(BrokenFile(file, _of_python(file, error)))
    return sorted(found.values(), key=lambda f: f.flow.name), broken


def _mentions(file: Path, mention: str) -> bool:
    return mention in file.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True)
class _Others:
    """DAG files, of which one may import another: what an imported one defines is its own."""

    files: frozenset[Path]
    mention: str

    def own(self, defined: str, file: Path) -> bool:
        """Return whether a file that is read defines what was met in `defined` while it was imported."""
        there = Path(defined).resolve()
        return there == file.resolve() or there not in self.files or not _mentions(there, self.mention)

    def imported(self, file: Path) -> frozenset[int]:
        """Return the ids of the flows at the top level of those that are imported, also by an earlier file."""
        names = {other.name for other in self.files}  # which spares following the links of every module's path
        modules = [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
        placed = [(str(m.get("__file__") or ""), m) for m in modules]
        theirs = [m for at, m in placed if at.rpartition(os.sep)[2] in names and not self.own(at, file)]
        return frozenset(id(value) for module in theirs for value in list(module.values()) if isinstance(value, Flow))


def _of_python(file: Path, error: BaseException) -> ConfigError:
    """Return what Python refused a file for: the line of it, and what to do."""
    own = [at.lineno for at in traceback.extract_tb(error.__traceback__) if _same(at.filename, file)]
    line = error.lineno if isinstance(error, SyntaxError) and _same(error.filename or "", file) else (own or [None])[-1]
    said = error.msg if isinstance(error, SyntaxError) else error
    where = file if line is None else f"{file}:{line}"
    return ConfigError(f"{where}: {type(error).__name__}: {said}", hint=_what_to_do(file, error))


def _same(name: str, file: Path) -> bool:
    return bool(name) and Path(name).resolve() == file.resolve()


def _is_ours(error: BaseException) -> bool:
    """Return whether the line that failed is one of databus, and not of the file or of what it imports itself."""
    frames = [at.filename for at in traceback.extract_tb(error.__traceback__) if "importlib" not in at.filename]
    return bool(frames) and Path(frames[-1]).is_relative_to(Path(databus.__file__).parent)


def _what_to_do(file: Path, error: BaseException) -> str:
    if isinstance(error, NameError):
        places = dict.fromkeys((*databus.__all__, *public_names()), "databus")
        places |= dict.fromkeys(("flow_dag", "mirror_dag"), "databus.airflow")
        like = get_close_matches(str(error.name), places, n=1)
        meant = f"Is it `from {places[like[0]]} import {like[0]}`? " if like else ""
        return f"{meant}Import or define the name, or correct it."
    if isinstance(error, ModuleNotFoundError) and _is_ours(error) and (named := of_import(error, str(file))):
        return named.hint
    if isinstance(error, ImportError):
        return "Install it where flows are read (here and beside Airflow's DAG processor), or correct the import."
    if isinstance(error, SyntaxError):
        return "Correct the line; it is no Python."
    if isinstance(error, SystemExit):
        return "A DAG file is imported: take out what ends the process."
    return f"`python {file}` shows the whole traceback."


def find_flow(name: str, folder: Path | None = None, *, dags: bool = True) -> FoundFlow:
    """Return one flow by name; see `discover`.

    Raises:
        ConfigError: no such flow; names those that are like it, those there are, and how many files are not readable.
    """
    found, broken = discover(folder, dags=dags)
    for candidate in found:
        if candidate.flow.name == name:
            return candidate
    raise ConfigError(f"no flow {name!r}", hint=_known(name, [f.flow.name for f in found], broken), code="flow_unknown")


_NAMED = 10
"""Flows that an error names; `databus flows list` has all."""


def _known(wanted: str, names: Sequence[str], broken: Sequence[BrokenFile]) -> str:
    """Return in a few lines what flows there are, and that some files could not be read."""
    like = get_close_matches(wanted, names, n=3)
    meant = f"Did you mean {' or '.join(like)}? " if like else ""
    more = f" and {len(names) - _NAMED} more (`databus flows list`)" if len(names) > _NAMED else ""
    told = f"{meant}Known: {', '.join(names[:_NAMED]) or 'none'}{more}."
    if not broken:
        return told
    those = f"{broken[0].file}" + (f" and {counted(len(broken) - 1, 'more file')}" if len(broken) > 1 else "")
    return f"{told} Not readable: {those}; `databus flows validate` says why."


def _flows_alone(file: Path, others: _Others) -> Iterable[Flow]:
    """Return the flows of a file without its DAGs; of one that cannot do without them, with them."""
    try:
        with without_dags():
            return _flows_of(file, others)
    except Exception:  # noqa: BLE001 - a user's file may use its DAG in any way
        return _flows_of(file, others)


@contextmanager
def _logged_as_before() -> Iterator[None]:
    """Let nothing be shown while a file is imported that was too little to be shown before.

    Airflow sets up logging of its own once it is imported, which shows the INFO of every library.
    """
    before = logging.root.manager.disable
    logging.disable(max(before, logging.getLogger().level - 1))
    try:
        yield
    finally:
        logging.disable(before)


def _flows_of(file: Path, others: _Others) -> Iterable[Flow]:
    """Import a file under a name of its own; return the flows that its DAGs are made of, and those at its top level.

    Of two under one name it is the DAG's that runs. What another DAG file defines, imported from here, is that file's.
    """
    name = f"databus_dag_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with given_flows() as given, _logged_as_before():
            spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    named = {id(v): v for v in vars(module).values() if isinstance(v, Flow)}.values()
    names = {of.flow.name for of in given}
    theirs = others.imported(file)
    own = [of.flow for of in given if others.own(of.file, file) and id(of.written) not in theirs]
    return [*own, *(flow for flow in named if flow.name not in names and id(flow) not in theirs)]
