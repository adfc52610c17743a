"""Preflight of a search cluster: version, rights, and the settings of indices that are there already."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any

from databus.core.errors.sink import SinkBackpressureError, SinkSettingError
from databus.core.findings import Finding, Level
from databus.sinks.elasticsearch.clearing import tells_tables
from databus.sinks.elasticsearch.client import translated

if TYPE_CHECKING:
    from opensearchpy import OpenSearch

    from databus.sinks.elasticsearch.spec import Elasticsearch

_OLDEST = {"opensearch": 2, "elasticsearch": 8}
_ANY_SETTINGS = {"flat_settings": "true", "ignore_unavailable": "true"}
"""An index whose name has no placeholder may not be there yet."""
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SERVER_GC_DELETES = "60s"
"""Default of index.gc_deletes of both servers (Index settings, dynamic)."""

_DISK_IS_FULL = "index.blocks.read_only_allow_delete"
"""Set by the server at its flood stage, and lifted by it once there is room (Disk-based shard allocation)."""

PROMISES = {
    "exactly_once": "exactly_once: the newest state of each key; a document newer than its batch stops the flow",
    "at_least_once": "at_least_once: a newer document is left as it is, without a report",
    "throughput_first": "throughput_first: as at_least_once, in large requests",
}


def index_pattern(template: str, flow: str) -> str:
    """Return the index pattern of all names that a template can give."""
    parts = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            parts.append(flow if name == "flow" else "*")
    return re.sub(r"\*+", "*", "".join(parts)).lower()


def probe(client: OpenSearch, spec: Elasticsearch, place: str, pattern: str) -> list[Finding]:
    """Return what was found; later probes are left out when an earlier one shows that they cannot work.

    Args:
        client: the client.
        spec: the sink's spec.
        place: connection for messages.
        pattern: pattern of the indices that the sink may write to.
    """
    from opensearchpy.exceptions import OpenSearchException

    findings = []
    try:
        findings.append(_version(client.info(), place))
        findings.append(Finding(f"{place}: profile", Level.OK, PROMISES[spec.profile]))
        if spec.on_truncate == "delete" and not tells_tables(spec.index, spec.ids):
            findings.append(_untold(spec, place))
        limits = client.nodes.info(metric="http", params={"filter_path": "nodes.*.http.max_content_length_in_bytes"})
        findings.extend(_request_size(limits, spec, place))
        found = client.indices.get_settings(index=pattern, params=_ANY_SETTINGS)
        findings.extend(_settings(found, spec, place))
    except OpenSearchException as error:
        refused = translated(error, f"{place}: preflight")
        findings.append(Finding.of(place, refused))
    return findings


def _untold(spec: Elasticsearch, place: str) -> Finding:
    return Finding(
        f"{place}: on_truncate",
        Level.WARN,
        f"nothing shows which documents of index {spec.index!r} are a table's: a TRUNCATE or DROP TABLE stops the flow",
        'Set ids="table_key" or an index with {database} and {table}, or on_truncate="ignore".',
    )


def _version(info: Mapping[str, Any], place: str) -> Finding:
    version = info["version"]
    product = version.get("distribution", "elasticsearch")
    number = version["number"]
    subject, text = f"{place}: version", f"{product} {number}"
    oldest = _OLDEST.get(product)
    if oldest is not None and int(number.split(".")[0]) >= oldest:
        return Finding(subject, Level.OK, text)
    supported = ", ".join(f"{name} {major}" for name, major in _OLDEST.items())
    return Finding(subject, Level.WARN, text, f"Tested with {supported} and newer.")


def _request_size(nodes: Mapping[str, Any], spec: Elasticsearch, place: str) -> Iterator[Finding]:
    limits = [node["http"]["max_content_length_in_bytes"] for node in nodes.get("nodes", {}).values()]
    if limits and spec.request_bytes > min(limits):
        text = f"bulk_bytes is {spec.request_bytes}, the server takes requests of {min(limits)} bytes at most"
        yield Finding(f"{place}: http.max_content_length", Level.WARN, text, "Lower bulk_bytes.")


def _settings(found: Mapping[str, Any], spec: Elasticsearch, place: str) -> Iterator[Finding]:
    for index, described in sorted(found.items()):
        settings = described["settings"]
        for block in ("index.blocks.read_only", "index.blocks.write"):
            if settings.get(block) == "true":
                hint = f'Somebody has set it. PUT /{index}/_settings {{"{block}": null}} takes it away.'
                refused = SinkSettingError("the index takes no writes", hint=hint)
                yield Finding.of(f"{place}: {index}: {block}", refused)
        if settings.get(_DISK_IS_FULL) == "true":
            full = SinkBackpressureError(
                "the server's disk is full: the index takes no writes",
                hint="Free disk space: the server lifts the block by itself, and the flow goes on.",
            )
            yield Finding.of(f"{place}: {index}: {_DISK_IS_FULL}", full)
        gc_deletes = settings.get("index.gc_deletes", _SERVER_GC_DELETES)
        subject = f"{place}: {index}: index.gc_deletes"
        if spec.soft_deletes or seconds(gc_deletes) >= seconds(spec.gc_deletes):
            yield Finding(subject, Level.OK, gc_deletes)
        else:
            yield Finding(
                subject,
                Level.WARN,
                f"{gc_deletes}: a replay that comes later than this after a delete brings the document back",
                f'PUT /{index}/_settings {{"index.gc_deletes": "{spec.gc_deletes}"}}, or soft_deletes=True',
            )


def seconds(text: str) -> float:
    """Return a time value of the servers, e.g. "7d", in seconds."""
    match = re.fullmatch(r"(-?\d+)(ms|s|m|h|d)", text)
    return float(match[1]) * _SECONDS[match[2]] if match else 0.0
