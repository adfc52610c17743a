"""Kinds by name: an explicit table of strings, plus other packages' entry points. Nothing registers by import."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any

from databus.core.alerts.alert import AlertSpec
from databus.core.batching import Batching
from databus.core.errors.config import UnknownKindError
from databus.core.flow import Flow
from databus.core.flow_specs import CheckSpec, SinkSpec, SourceSpec, TransformSpec
from databus.core.spec import Spec, at_caller, options_of

SOURCES = {
    "mysql_binlog": "databus.sources.mysql.spec:MysqlBinlog",
    "kafka": "databus.sources.kafka.spec:KafkaTopics",
    "mock": "databus.sources.mock.spec:Mock",
    "sequence_table": "databus.sources.sequence_table.spec:SequenceTable",
}
TRANSFORMS = {
    "filter": "databus.transforms.filter:Filter",
    "project": "databus.transforms.project:Project",
    "rename": "databus.transforms.rename:RenameColumns",
    "drop": "databus.transforms.drop:DropColumns",
    "mask": "databus.transforms.mask:Mask",
    "hash": "databus.transforms.hash:Hash",
    "route": "databus.transforms.route:Route",
    "key_by": "databus.transforms.key_by:KeyBy",
    "split": "databus.transforms.split:Split",
    "add_column": "databus.transforms.add_column:AddColumn",
    "cast": "databus.transforms.cast:Cast",
    "truncate": "databus.transforms.truncate:Truncate",
    "extract": "databus.transforms.extract:Extract",
    "flatten": "databus.transforms.flatten:Flatten",
    "lookup": "databus.transforms.lookup:Lookup",
    "python_function": "databus.transforms.python_function:PythonFunction",
}
CHECKS = {
    "not_null": "databus.checks.not_null:NotNull",
    "decodable": "databus.checks.decodable:Decodable",
    "accepted_values": "databus.checks.accepted_values:AcceptedValues",
    "in_range": "databus.checks.in_range:InRange",
    "volume": "databus.checks.volume:Volume",
    "freshness": "databus.checks.freshness:Freshness",
    "schema": "databus.checks.schema:Schema",
}
SINKS = {
    "kafka": "databus.sinks.kafka:Kafka",
    "kafka_mirror": "databus.sinks.kafka_mirror:MirrorTopics",
    "elasticsearch": "databus.sinks.elasticsearch.spec:Elasticsearch",
    "memory": "databus.sinks.memory:Memory",
    "console": "databus.sinks.console:Console",
    "noop": "databus.sinks.noop:Noop",
}
ALERTS = {
    "when": "databus.observe.alerts.rules:AlertWhen",
    "email": "databus.observe.alerts.email:Email",
    "webhook": "databus.observe.alerts.webhook:Webhook",
    "notifier": "databus.observe.alerts.notifier:Notifier",
}
PARTS = {
    "Mirror": "databus.mirror:Mirror",
    "RangePartition": "databus.sources.mysql.row_filters:RangePartition",
    "ModuloPartition": "databus.sources.mysql.row_filters:ModuloPartition",
    "HashPartition": "databus.sources.mysql.row_filters:HashPartition",
    "SnapshotOptions": "databus.sources.mysql.snapshot_options:SnapshotOptions",
    "MockFault": "databus.sources.mock.fault:MockFault",
    "Expectations": "databus.core.expectations:Expectations",
    "SimpleSink": "databus.sinks.simple:SimpleSink",
    "SimpleSource": "databus.sources.simple:SimpleSource",
}
"""Class name → "module:Class" of specs that stand in another kind's options, and of base classes."""
GROUPS: dict[str, tuple[Mapping[str, str], type[Spec]]] = {
    "sources": (SOURCES, SourceSpec),
    "transforms": (TRANSFORMS, TransformSpec),
    "checks": (CHECKS, CheckSpec),
    "sinks": (SINKS, SinkSpec),
    "alerts": (ALERTS, AlertSpec),
}
"""Group → (kind → "module:Class", base class). Other packages add kinds by entry points `databus.<group>`."""


def kinds(group: str) -> dict[str, str]:
    """Return kind → "module:Class" of a group, those of other packages included."""
    extra = {point.name: point.value for point in entry_points(group=f"databus.{group}")}
    return {**extra, **GROUPS[group][0]}


def spec_class(group: str, kind: str) -> type[Spec]:
    """Return the spec class of a kind.

    Raises:
        UnknownKindError: no such kind; the hint lists those that exist.
    """
    # Entry points are looked up only for what is not ours: it reads the metadata of every installed package.
    target = GROUPS[group][0].get(kind) or (known := kinds(group)).get(kind)
    if target is None:
        raise _unknown(f"unknown kind {kind!r} of {group}", kind, sorted(known))
    return _load(target)


def public_names() -> dict[str, str]:
    """Return class name → "module:Class" of every kind: what `from databus import …` offers beside Flow."""
    return {target.partition(":")[2]: target for group in GROUPS for target in kinds(group).values()} | PARTS


def load_public(name: str) -> type[Spec]:
    """Return a kind's class by its class name.

    Raises:
        UnknownKindError: no such class; the hint lists those that exist.
    """
    ours = (target for own, _ in GROUPS.values() for target in own.values())
    target = (
        PARTS.get(name)
        or next((t for t in ours if t.endswith(f":{name}")), None)
        or (known := public_names()).get(name)
    )
    if target is None:
        raise _unknown(f"databus has no {name!r}", name, sorted([*known, "Flow", "Batching"]))
    return _load(target)


def flow_from_json(data: Mapping[str, Any]) -> Flow:
    """Rebuild a flow from `Flow.to_json`.

    Raises:
        ConfigError: an unknown kind or option.
    """

    def build(group: str, item: Mapping[str, Any]) -> Any:
        options = options_of(item)
        if group == "sinks" and "transforms" in options:
            options["transforms"] = tuple(build("transforms", each) for each in options["transforms"])
        return spec_class(group, item["kind"]).from_stored(options)

    values = dict(data)
    values["source"] = build("sources", data["source"])
    for group in ("transforms", "checks", "sinks", "alerts"):
        values[group] = tuple(build(group, item) for item in data.get(group, ()))
    values["batching"] = Batching.from_stored(data.get("batching", {}))
    return Flow.from_stored(values)


def _load(target: str) -> type[Spec]:
    module, _, name = target.partition(":")
    found: type[Spec] = getattr(importlib.import_module(module), name)
    return found


def _unknown(what: str, name: str, known: list[str]) -> UnknownKindError:
    near = get_close_matches(name, known, n=1)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    return UnknownKindError(at_caller(what), hint=f"{guess}Known: {', '.join(known)}.")
