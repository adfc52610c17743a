"""The OpenLineage project's own JSON schemas (Apache-2.0), kept beside this file, and validation against them.

`openlineage/` holds spec/OpenLineage.json and facets as the project publishes them; each names itself by `$id`.
"""

from __future__ import annotations

import functools
import json
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

CORE = "https://openlineage.io/spec/2-0-2/OpenLineage.json"


FORMATS = FormatChecker(["uuid"])
"""jsonschema passes formats whose checkers are not installed: these are checked here."""


@FORMATS.checks("date-time", raises=ValueError)
def _date_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


@FORMATS.checks("uri", raises=ValueError)
def _uri(value: object) -> bool:
    return not isinstance(value, str) or bool(urlsplit(value).scheme)


@functools.cache
def registry() -> Registry[Any]:
    folder = Path(__file__).with_name("openlineage")
    resources = [Resource.from_contents(json.loads(file.read_text())) for file in sorted(folder.glob("*.json"))]
    return Registry().with_resources([(str(resource.id()), resource) for resource in resources])


def _facets(event: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = [*event["run"].get("facets", {}).items(), *event["job"].get("facets", {}).items()]
    for dataset in [*event.get("inputs", []), *event.get("outputs", [])]:
        for group in ("facets", "inputFacets", "outputFacets"):
            found += dataset.get(group, {}).items()
    return found


def assert_valid(event: dict[str, Any]) -> list[str]:
    """Validate an event, and each facet against the schema that it names; returns the names of the facets.

    A facet whose schema is not kept here fails: nothing passes unlooked at.
    """
    schema = {"$ref": event["schemaURL"]}
    assert event["schemaURL"] == f"{CORE}#/$defs/RunEvent"
    Draft202012Validator(schema, registry=registry(), format_checker=FORMATS).validate(event)
    names = []
    for name, facet in _facets(event):
        Draft202012Validator({"$ref": facet["_schemaURL"]}, registry=registry(), format_checker=FORMATS).validate(facet)
        names.append(name)
    return names
