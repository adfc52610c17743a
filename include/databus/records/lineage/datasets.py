"""OpenLineage datasets of a run: what its batches read and wrote, with counts and checks as facets.

Names follow OpenLineage's "Naming" specification: a namespace says where (scheme://host:port), a name says what.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from databus.core.batches.report import CheckResult
from databus.core.connections import Connection
from databus.core.tables.column_lineage import TableLineage
from databus.records.lineage.column_facet import column_facet, unknown_columns
from databus.records.summary import RunSummary, SinkTotal

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import RunFacet

_SCHEMES = {"mysql": ("mysql", 3306), "mariadb": ("mysql", 3306), "kafka": ("kafka", 9092)} | {
    name: (name, 9200) for name in ("elasticsearch", "opensearch")
}
_PARTITION = re.compile(r"\[\d+\]$")
_SEVERITY = {"warn": "warn", "quarantine": "error", "fail": "error"}
_WRITES = ("records", "created", "updated", "deleted", "noop")


@dataclass(frozen=True)
class Lineage:
    """Inputs, outputs and facets of one run, as the client's objects.

    Attributes:
        inputs: input datasets.
        outputs: output datasets.
        run_facets: facets of the run by name.
    """

    inputs: tuple[InputDataset, ...] = ()
    outputs: tuple[OutputDataset, ...] = ()
    run_facets: Mapping[str, RunFacet] = field(default_factory=dict)


def namespace_of(connection: Connection) -> str:
    """Return the namespace of a connection's datasets, e.g. "mysql://db.example:3306"; of a cluster, its first node's.

    Servers without a naming rule get their connection type as scheme.
    """
    scheme, default_port = _SCHEMES.get(connection.conn_type, (connection.conn_type, None))
    named = (str(connection.extra.get(name) or "") for name in ("bootstrap.servers", "metadata.broker.list"))
    servers = next(filter(None, named), connection.host)
    first = servers.split(",")[0].strip().rpartition("://")[2]
    # A login in a host's URL stays out of lineage.
    host, _, port = first.rpartition("@")[2].partition(":")
    number = port or connection.port or default_port
    return f"{scheme}://{host or 'localhost'}" + (f":{number}" if number else "")


def declared(source: str, inputs: Sequence[str], outputs: Mapping[str, Sequence[str]], flow: str = "") -> Lineage:
    """Return what a flow is declared to read and write, before its run has moved anything.

    Args:
        source: namespace of the source.
        inputs: table names or patterns.
        outputs: namespace of a sink → topics, indices or their templates.
        flow: flow name for the run's facet.
    """
    from openlineage.client.event_v2 import InputDataset, OutputDataset

    written = [OutputDataset(space, name) for space, names in outputs.items() for name in names]
    facets = {"databus": _run_facet({"flow": flow})} if flow else {}
    return Lineage(tuple(InputDataset(source, name) for name in inputs), tuple(written), facets)


def recorded(
    summary: RunSummary, source: str, sinks: Mapping[str, str], columns: Sequence[TableLineage] = ()
) -> Lineage:
    """Return what a run's batches read and wrote.

    Args:
        summary: the run's sums.
        source: namespace of the source.
        sinks: sink name → namespace; sinks that are left out (memory, console) have no datasets.
        columns: what the outputs are made of.
    """
    inputs = tuple(
        _input(source, table, counts.read, [c for c in summary.checks if c.table in (table, "*")])
        for table, counts in summary.tables.items()
        if "." in table  # statements belong to no table
    )
    outputs = tuple(
        dataset
        for total in summary.sinks
        if total.sink in sinks
        for dataset in _outputs(sinks[total.sink], total, source, [c for c in columns if c.sink == total.sink])
    )
    moved = [table for table, counts in summary.tables.items() if counts.dispatched and "." in table]
    facet = _run_facet(
        {
            "flow": summary.flow,
            "batches": list(summary.batches),
            "start": summary.start.to_json() if summary.start else None,
            "end": summary.end.to_json() if summary.end else None,
            "watermark": summary.watermark.isoformat() if summary.watermark else None,
            "rows": summary.total.figures,
            "reconciled": summary.reconciled,
            "columns_unknown": unknown_columns(moved if outputs else (), columns),
        }
    )
    return Lineage(inputs, outputs, {"databus": facet})


def _input(namespace: str, table: str, rows: int, checks: Sequence[CheckResult]) -> InputDataset:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as quality
    from openlineage.client.facet_v2 import input_statistics_input_dataset as statistics

    facets: dict[str, Any] = {"inputStatistics": statistics.InputStatisticsInputDatasetFacet(rowCount=rows)}
    if checks:
        facets["dataQualityAssertions"] = quality.DataQualityAssertionsDatasetFacet(
            [_assertion(quality.Assertion, check) for check in checks]
        )
    return InputDataset(namespace, table, inputFacets=facets)


def _assertion(of_client: type[Any], check: CheckResult) -> Any:
    import attr

    # openlineage-python 1.45, which Airflow 3.1 has, knows the first four alone.
    told = {
        "assertion": check.kind,
        "success": check.violations == 0,
        "column": check.column,
        "severity": _SEVERITY[check.severity],
        "name": check.check,
        "expected": "0",
        "actual": str(check.violations),
        "params": {"evaluated": check.evaluated, "severity": check.severity},
    }
    known = attr.fields_dict(of_client)
    return of_client(**{name: value for name, value in told.items() if name in known})


def _outputs(namespace: str, total: SinkTotal, source: str, columns: Sequence[TableLineage]) -> list[OutputDataset]:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    records: dict[str, int] = {}
    for output, facts in total.outputs.items():
        if name := _PARTITION.sub("", output):
            records[name] = records.get(name, 0) + sum(facts.get(fact, 0) for fact in _WRITES)
    made = {name: column_facet(source, [c for c in columns if c.output == name]) for name in records}
    return [
        OutputDataset(
            namespace,
            name,
            facets={"columnLineage": facet} if (facet := made[name]) else {},
            outputFacets={"outputStatistics": statistics.OutputStatisticsOutputDatasetFacet(rowCount=count)},
        )
        for name, count in sorted(records.items())
    ]


def _run_facet(values: Mapping[str, Any]) -> RunFacet:
    from databus.records.lineage.run_facet import DatabusRunFacet

    return DatabusRunFacet(values=dict(values))
