"""Doctor: name every missing setting, grant, version and connection, and what to do about it."""

from __future__ import annotations

import itertools
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from databus.checkpoints.connection.acls import examine_access
from databus.core.connections import ConnectionSource
from databus.core.errors.config import ConnectionMissingError, PackageMissingError, PackageVersionError
from databus.core.errors.root import DatabusError
from databus.core.findings import Finding, Level
from databus.core.flow import Flow
from databus.core.packages import (
    NEWEST_AIRFLOW,
    NEWEST_PYTHON,
    OLDEST_AIRFLOW,
    OLDEST_PYTHON,
    airflow_too_old,
    install_command,
    release,
    require_one_version,
    version_of,
)
from databus.core.private_files import wider
from databus.core.settings import Settings
from databus.ops.health.alerts import channels_of
from databus.ops.health.packages import missing_packages
from databus.ops.health.preflight import preflight
from databus.ops.health.security import examine_security
from databus.ops.services import open_services

_NAMED = 5

_PACKAGES = {"kazoo": "2", "sqlalchemy": "2"}
"""Package that every flow needs → beginning of the versions that it was tested with."""

_OF_EXTRAS = {
    "apache-airflow": ("", "airflow"),
    "pyspark": ("4.1", "spark"),
    "pyspark-client": ("4.1", "airflow"),
    "pyarrow": ("", "spark"),
    "numba": ("", "spark"),
    "mysql-replication": ("1", "mysql"),
    "confluent-kafka": ("2", "kafka"),
    "opensearch-py": ("3", "elasticsearch"),
    "great-expectations": ("1", "quality"),
    "openlineage-python": ("1", "lineage"),
    "psycopg": ("3", "postgres"),
}
"""Package that some flows need → the same, and the extra that brings it."""


def examine_environment() -> list[Finding]:
    """Look at Python, packages and Java of this machine."""
    findings = [_python()]
    findings += [_package(name, wanted) for name, wanted in _PACKAGES.items()]
    findings += [_package(name, wanted, extra) for name, (wanted, extra) in _OF_EXTRAS.items()]
    try:
        require_one_version("pyspark", "pyspark-client")
    except PackageVersionError as error:
        findings.append(Finding.of("pyspark and pyspark-client", error))
    java = shutil.which("java")
    findings.append(
        Finding("java", Level.OK, java)
        if java
        else Finding(
            "java",
            Level.WARN,
            "not found on PATH; spark-submit and the sandbox need it, Spark Connect clients do not",
            "apt-get install openjdk-17-jre-headless",
            "environment_java",
        )
    )
    return findings


def examine_flow(flow: Flow, connections: ConnectionSource) -> list[Finding]:
    """Look at every connection, server, setting and grant a flow needs.

    A connection that is missing hides nothing of the others, unless it is ZooKeeper's. Where packages are missing no
    server is asked.
    """
    findings = missing_packages(flow, Settings.from_environment())
    unpacked = bool(findings)
    sinks = (pair for sink in flow.sinks for pair in sink.conn_ids())
    told = (pair for channel in channels_of(flow) for pair in channel.conn_ids())
    pairs = [*flow.source.conn_ids(), *sinks, (flow.zookeeper_conn_id, "zookeeper"), *told]
    for conn_id, wanted in dict.fromkeys(pairs):
        finding = _connection(connections, conn_id, wanted)
        findings.append(finding)
        if finding.level is not Level.ERROR:
            findings += examine_security(connections.get(conn_id))
    if unpacked:
        return findings
    wrong = [finding for finding in findings if finding.level is Level.ERROR]
    here = f"connection {flow.zookeeper_conn_id}"
    if any(finding.code != ConnectionMissingError.code or finding.subject == here for finding in wrong):
        return findings
    already = {(finding.code, finding.message) for finding in wrong}
    try:
        with open_services(flow, connections) as services:
            findings.append(Finding(f"zookeeper {flow.zookeeper_conn_id}", Level.OK, "reachable"))
            findings.append(examine_access(connections.get(flow.zookeeper_conn_id)))
            findings.append(examine_private_data(services.settings))
            findings += (f for f in preflight(flow, services) if (f.code, f.message) not in already)
    except DatabusError as error:
        findings.append(Finding.of(f"zookeeper {flow.zookeeper_conn_id}", error))
    return findings


def worst(findings: Sequence[Finding]) -> Level:
    """Return the worst level of some findings; OK for none."""
    order = (Level.ERROR, Level.WARN)
    return next((level for level in order if any(f.level is level for f in findings)), Level.OK)


def _connection(connections: ConnectionSource, conn_id: str, wanted: str) -> Finding:
    subject = f"connection {conn_id}"
    try:
        found = connections.get(conn_id)
    except DatabusError as error:
        return Finding.of(subject, error)
    if wanted and found.conn_type not in wanted.split("|"):
        return Finding(
            subject,
            Level.ERROR,
            f"is of type {found.conn_type!r}, the flow needs {wanted.replace('|', ' or ')!r}",
            "Name another conn_id in the flow, or correct the connection's type.",
            "connection_type",
        )
    return Finding(subject, Level.OK, f"{found.conn_type} {found.host}{f':{found.port}' if found.port else ''}".strip())


def _python() -> Finding:
    text = ".".join(map(str, sys.version_info[:3]))
    if OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        return Finding("python", Level.OK, text)
    oldest, newest = (".".join(map(str, minor)) for minor in (OLDEST_PYTHON, NEWEST_PYTHON))
    hint = f"Install databus into an environment of Python {oldest} to {newest}, e.g. python{oldest} -m venv .venv."
    return Finding("python", Level.ERROR, f"{text}, databus needs {oldest} to {newest}", hint, "environment_version")


def _package(name: str, wanted: str, extra: str = "") -> Finding:
    found = version_of(name)
    if found is None and name == "pyspark":
        hint = f"{install_command(extra)}, where flows are run; what only looks at them needs none."
        return Finding(name, Level.WARN, "not installed", hint, PackageMissingError.code)
    if found is None and extra:
        # Whether a flow needs it is said of that flow.
        return Finding(name, Level.OK, f"not installed; for flows that need it: {install_command(extra)}")
    if found is None:
        return Finding(name, Level.ERROR, "not installed", f"pip install {name}", "environment_package")
    if name == "apache-airflow":
        return _airflow(found)
    if wanted and not found.startswith(f"{wanted}."):
        hint = f"pip install '{name}=={wanted}.*'"
        return Finding(name, Level.WARN, f"{found}, tested with {wanted}.x", hint, "environment_version")
    return Finding(name, Level.OK, found)


def _airflow(found: str) -> Finding:
    name = "apache-airflow"
    if (error := airflow_too_old(found)) is not None:
        return Finding.of(name, error)
    if release(found) <= NEWEST_AIRFLOW:
        return Finding(name, Level.OK, found)
    oldest, newest = (".".join(map(str, minor)) for minor in (OLDEST_AIRFLOW, NEWEST_AIRFLOW))
    hint = f"pip install 'apache-airflow=={newest}.*', with Airflow's constraints."
    return Finding(name, Level.WARN, f"{found}, tested with {oldest} to {newest}", hint, "environment_version")


def examine_private_data(settings: Settings) -> Finding:
    """Name what is wider than 0700 (folders) and 0600 (files), with the command that mends it; changes nothing."""
    import sqlalchemy as sa

    subject, places = "private data", list[Path]()
    if "://" not in settings.segment_store:
        places.append(Path(settings.segment_store))
    url = sa.engine.make_url(settings.records_url)
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        places += [Path(f"{url.database}{ending}") for ending in ("", "-wal", "-shm")]
    found = list(itertools.islice(itertools.chain.from_iterable(map(wider, places)), _NAMED + 1))
    if not found:
        return Finding(subject, Level.OK, "segments and records are their owner's alone")
    named = ", ".join(f"{path} ({mode:04o})" for path, mode in found[:_NAMED])
    more = ", and more" if len(found) > _NAMED else ""
    mend = " ".join(shlex.quote(str(place)) for place in places if place.exists())
    return Finding(
        subject,
        Level.WARN,
        f"others than the owner may read, enter or change {named}{more}: rows lie there",
        f"chmod -R go-rwx {mend}",
        "private_data_wider",
    )
