"""Page of versions: of each program the one that the tests run, the oldest that is taken, and where it is tested."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from databus.sinks.elasticsearch.preflight import _OLDEST as OLDEST_SEARCH
from databus.sources.mysql.preflight import _OLDEST as OLDEST_SOURCES

ROOT = Path(__file__).parents[2]


class Program(NamedTuple):
    """Program beside databus.

    Attributes:
        name: as people call it.
        variable: of `sandbox/versions.env`, or the package of `requirements.txt`.
        oldest: what is taken, in words; what is older is refused or warned of.
        tests: paths of tests that run it.
    """

    name: str
    variable: str
    oldest: str
    tests: tuple[str, ...]


def programs() -> tuple[Program, ...]:
    """Return all programs; what is oldest comes from the checks of the preflight, and from what the wheel asks for."""
    mysql, mariadb = (".".join(map(str, OLDEST_SOURCES[name])) for name in ("mysql", "mariadb"))
    names = ", which can log column names; older ones are refused"
    ids = "not checked; 2.8 is the first with ids of topics, by which topics made anew are noticed"
    search = {name: f"from {number} on; of older ones the preflight warns" for name, number in OLDEST_SEARCH.items()}
    return (
        Program("Python", "PYTHON_VERSION", project()["requires-python"], ("tests/unit",)),
        Program("Java", "JAVA_VERSION", "for spark-submit and the sandbox alone", ("tests/spark",)),
        Program("Airflow", "apache-airflow", needed("apache-airflow"), ("tests/airflow", "tests/e2e")),
        Program("Spark", "SPARK_VERSION", needed("pyspark"), ("tests/spark", "tests/e2e")),
        Program("MySQL", "MYSQL_VERSION", f"from {mysql} on{names}; 8.4 and later not run", ("tests/integration",)),
        Program("MariaDB", "MARIADB_VERSION", f"from {mariadb} on{names}", ("tests/integration/types",)),
        Program("Kafka", "KAFKA_VERSION", ids, ("tests/integration",)),
        Program("ZooKeeper", "ZOOKEEPER_VERSION", "not checked", ("tests/integration", "tests/contract")),
        Program("OpenSearch", "OPENSEARCH_VERSION", search["opensearch"], ("tests/integration/test_sink_search.py",)),
        Program(
            "Elasticsearch", "ELASTICSEARCH_VERSION", search["elasticsearch"], ("tests/integration/test_dead_sink.py",)
        ),
        Program(
            "Apicurio Registry", "APICURIO_VERSION", "registries with Confluent's API, not checked",
            ("tests/integration/test_kafka_registry.py",),
        ),
        Program(
            "PostgreSQL (records store)", "POSTGRES_VERSION", "not checked; SQLite by default",
            ("tests/integration/test_records.py",),
        ),
        Program("Great Expectations", "great-expectations", needed("great-expectations"), ("tests/spark",)),
        Program("Debezium (beside us in benchmarks)", "DEBEZIUM_VERSION", "none is needed", ("tests/bench",)),
    )  # fmt: skip


@cache
def project() -> dict[str, str]:
    """Return package → range, and `requires-python`, of the wheel."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*told["dependencies"], *(each for extra in told["optional-dependencies"].values() for each in extra)]
    found = {
        re.split(r"[\[<>=!~ ;]", each, maxsplit=1)[0]: re.sub(r"^[\w.-]+(\[[\w,-]+\])?", "", each) for each in asked
    }
    return {**found, "requires-python": told["requires-python"]}


def needed(package: str) -> str:
    """Return the range of a package that the wheel asks for."""
    return project()[package].replace(",", ", ").strip()


@cache
def versions() -> dict[str, str]:
    """Return variable or package → version that the tests run."""
    servers = (ROOT / "include/databus/sandbox/versions.env").read_text()
    packages = (ROOT / "requirements.txt").read_text()
    return {
        **dict(re.findall(r"^(\w+)=(\S+)$", servers, re.MULTILINE)),
        **dict(re.findall(r"^([\w.-]+)==(\S+)$", packages, re.MULTILINE)),
    }


HEAD = """# Supported versions

Read this page to know what databus runs with. The version behind a name is the one that the suite runs, on real servers
([testing](../testing.md)); others in the range are expected to work, and no test shows it.
"""


def text() -> str:
    parts = [HEAD]
    for program in programs():
        where = ", ".join(f"`{path}`" for path in program.tests)
        parts.append(f"* **{program.name}** {versions()[program.variable]}. Range: {program.oldest}. Tests: {where}")
    return "\n".join(parts)
