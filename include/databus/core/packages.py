"""Packages that come with an extra of databus: which import needs which extra, and the error where one is missing.

`pip install databus` brings what every flow needs to be defined, checked and looked at. What only some kinds need comes
with extras (pyproject.toml; docs/install/packages.md); nothing of it is imported before it is used.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from databus.core.errors.config import PackageMissingError, PackageVersionError

_ROWS = ("numpy", "pyarrow", "numba")
"""Packages that decode and encode rows: each extra whose kinds touch rows brings them."""

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "mysql": ("pymysql", "pymysqlreplication", *_ROWS),
    "kafka": ("confluent_kafka", *_ROWS),
    "consumer": ("confluent_kafka",),
    "stream": ("confluent_kafka", "starlette", "uvicorn", "httptools", "uvloop"),
    "elasticsearch": ("opensearchpy", "certifi", *_ROWS),
    "registry": (
        *("confluent_kafka", "google.protobuf", "grpc_tools", "fastavro", "jsonschema", "referencing", "httpx2"),
        *("cachetools", "authlib"),
    ),
    "quality": ("great_expectations", "pandas"),
    "postgres": ("psycopg",),
    "lineage": ("openlineage.client", "attr"),
    "spark": ("pyspark", "grpc", "pandas", "cryptography", *_ROWS),
    "airflow": ("airflow", "asgiref", "croniter", "dateutil", "fastapi", "pendulum", "psutil"),
    "sandbox": ("databus.sandbox", "databus.bench", "databus.demo", "httpx", "psutil", "cryptography"),
}
"""Extra → what is imported of its packages. A package that several extras bring is named by the kind that asks."""

_DISTRIBUTIONS = {
    "airflow": "apache-airflow",
    "attr": "attrs",
    "confluent_kafka": "confluent-kafka",
    "databus.bench": "databus-sandbox",
    "databus.demo": "databus-sandbox",
    "databus.sandbox": "databus-sandbox",
    "dateutil": "python-dateutil",
    "google.protobuf": "protobuf",
    "great_expectations": "great-expectations",
    "grpc": "grpcio",
    "grpc_tools": "grpcio-tools",
    "llvmlite": "numba",
    "openlineage.client": "openlineage-python",
    "opensearchpy": "opensearch-py",
    "pymysql": "pymysql",
    "pymysqlreplication": "mysql-replication",
}
"""Import → name under which pip installs it, where the two differ."""

_OF_OTHERS = {"llvmlite": "mysql", "openlineage": "lineage", "google": "registry"}
"""Import that comes with a package of the table → its extra."""


OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
"""Minor releases of Python that the wheel asks for; how far they were tried, says docs/install/packages.md."""

OLDEST_AIRFLOW, NEWEST_AIRFLOW = (3, 1), (3, 3)
"""Minor releases of Airflow that were tried; how far, says docs/install/packages.md."""


def install_command(*extras: str) -> str:
    """Return the command that installs extras; the sandbox is a distribution of its own."""
    return "pip install databus-sandbox" if "sandbox" in extras else f"pip install 'databus[{','.join(extras)}]'"


def lacking(extra: str) -> tuple[str, ...]:
    """Return the packages of an extra that cannot be imported here, by the names under which pip installs them."""
    absent = (name for name in EXTRAS[extra] if not _is_there(name))
    return tuple(dict.fromkeys(_DISTRIBUTIONS.get(name, name) for name in absent))


def require(extras: Iterable[str], subject: str) -> None:
    """Refuse to go on where a package of these extras is not installed.

    Args:
        extras: names of extras.
        subject: what needs them, e.g. "sink east of kind kafka".

    Raises:
        PackageMissingError: names the packages, and the command that installs them.
    """
    lacks = {extra: packages for extra in extras if (packages := lacking(extra))}
    if lacks:
        raise _missing(tuple(lacks), tuple(itertools.chain(*lacks.values())), subject)


def require_one_version(*packages: str) -> None:
    """Refuse packages that write the same files and are installed in different versions; those not there do not count.

    Raises:
        PackageVersionError: names them with their versions.
    """
    found = {name: there for name in packages if (there := version_of(name)) is not None}
    if len(set(found.values())) > 1:
        raise PackageVersionError(
            f"versions differ of packages that write the same files: {', '.join(map(' '.join, found.items()))}",
            hint=f"Install both in one version, the second one last: {_one_version(found)}.",
        )


def version_of(package: str) -> str | None:
    """Return the version of a package by the name under which pip installs it; None where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def airflow_too_old(version: str) -> PackageVersionError | None:
    """Return the error about a version of Airflow that is older than databus works with; None for another."""
    if release(version) >= OLDEST_AIRFLOW:
        return None
    oldest = ".".join(map(str, OLDEST_AIRFLOW))
    return PackageVersionError(
        f"databus needs Airflow {oldest} or later, found {version}",
        hint=f"pip install 'apache-airflow>={oldest}', with Airflow's constraints.",
    )


def release(version: str) -> tuple[int, int]:
    """Return (major, minor) of a version such as "3.1.0" or "3.2.0rc1"."""
    major, minor = re.match(r"(\d+)\.(\d+)", version).groups()  # type: ignore[union-attr]  # PEP 440
    return int(major), int(minor)


def _one_version(found: Mapping[str, str]) -> str:
    newest = max(found.values(), key=lambda text: [int(part) for part in text.split(".") if part.isdigit()])
    return "pip install --force-reinstall --no-deps " + " ".join(f"{name}=={newest}" for name in found)


@contextmanager
def naming_packages(subject: str) -> Iterator[None]:
    """Turn the refusal to import an optional package into the error that names its extra; others go on as they are.

    Raises:
        PackageMissingError: a package of an extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (named := of_import(error, subject)) is None:
            raise
        raise named from error


def of_import(error: ModuleNotFoundError, subject: str) -> PackageMissingError | None:
    """Return the error that names the extra of a module that was not found; None for a module of no extra."""
    name = error.name or ""
    parts = name.split(".")
    # The longest name first: databus.sandbox is of an extra, databus is not.
    for module in (".".join(parts[:count]) for count in range(len(parts), 0, -1)):
        extra = _OF_OTHERS.get(module) or next((e for e, modules in EXTRAS.items() if module in modules), None)
        if extra is not None:
            return _missing((extra,), (_DISTRIBUTIONS.get(module, module),), subject)
    return None


def _missing(extras: tuple[str, ...], packages: tuple[str, ...], subject: str) -> PackageMissingError:
    named = tuple(dict.fromkeys(packages))
    verb = "is" if len(named) == 1 else "are"
    return PackageMissingError(
        f"{subject} needs {', '.join(named)}, which {verb} not installed",
        hint=f"{install_command(*extras)}, wherever flows are run.",
    )


def _is_there(name: str) -> bool:
    try:
        return sys.modules.get(name) is not None or find_spec(name) is not None
    except (ImportError, ValueError):
        return False
