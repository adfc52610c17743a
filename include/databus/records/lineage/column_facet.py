"""OpenLineage's columnLineage facet of a run's outputs (facet 1-2-0).

A value handed on as it is, also under another name, is DIRECT/IDENTITY; one that a step made is DIRECT/TRANSFORMATION,
with `masking` where the step hides it. A column that decides which rows come is INDIRECT/FILTER of the whole dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from databus.core.tables.column_lineage import FieldLineage, TableLineage

if TYPE_CHECKING:
    from openlineage.client.generated.column_lineage_dataset import (
        ColumnLineageDatasetFacet,
        InputField,
        Transformation,
    )


def column_facet(source: str, lineages: Iterable[TableLineage]) -> ColumnLineageDatasetFacet | None:
    """Return the facet of one output; None where nothing is known of any of its tables.

    Args:
        source: namespace of the tables.
        lineages: what its tables give it.
    """
    from openlineage.client.facet_v2 import column_lineage_dataset as facet

    fields: dict[str, dict[tuple[str, str], list[Transformation]]] = {}
    whole: dict[tuple[str, str], list[Transformation]] = {}
    for lineage in lineages:
        for found in lineage.fields:
            _add(fields.setdefault(found.field, {}), (lineage.table, found.column), _direct(found))
        for found in lineage.filters:
            _add(whole, (lineage.table, found.column), _indirect(found))
    if not fields:
        return None
    return facet.ColumnLineageDatasetFacet(
        fields={name: facet.Fields(inputFields=_inputs(source, inputs)) for name, inputs in sorted(fields.items())},
        dataset=_inputs(source, whole),
    )


def unknown_columns(tables: Iterable[str], lineages: Sequence[TableLineage]) -> list[dict[str, str]]:
    """Return the tables of which it is not known what becomes of their columns, and why.

    Args:
        tables: tables that were dispatched.
        lineages: what was noted.
    """
    told = {lineage.table for lineage in lineages}
    found = {(lineage.table, lineage.unknown) for lineage in lineages if lineage.unknown}
    found |= {(table, "no columns were noted when its rows were moved") for table in tables if table not in told}
    return [{"table": table, "reason": reason} for table, reason in sorted(found)]


def _add(
    inputs: dict[tuple[str, str], list[Transformation]], place: tuple[str, str], steps: Iterable[Transformation]
) -> None:
    known = inputs.setdefault(place, [])
    known += [step for step in steps if step not in known]


def _inputs(source: str, inputs: Mapping[tuple[str, str], list[Transformation]]) -> list[InputField]:
    from openlineage.client.facet_v2 import column_lineage_dataset as facet

    return [
        facet.InputField(namespace=source, name=table, field=column, transformations=steps)
        for (table, column), steps in sorted(inputs.items(), key=lambda item: item[0])
    ]


def _direct(found: FieldLineage) -> list[Transformation]:
    from openlineage.client.facet_v2 import column_lineage_dataset as facet

    if not found.steps:
        return [facet.Transformation(type="DIRECT", subtype="IDENTITY", description="", masking=False)]
    made: dict[str, Any] = {"type": "DIRECT", "subtype": "TRANSFORMATION"}
    return [facet.Transformation(**made, description=step.label, masking=step.masking) for step in found.steps]


def _indirect(found: FieldLineage) -> list[Transformation]:
    from openlineage.client.facet_v2 import column_lineage_dataset as facet

    made: dict[str, Any] = {"type": "INDIRECT", "subtype": "FILTER", "masking": False}
    return [facet.Transformation(**made, description=step.label) for step in found.steps]
