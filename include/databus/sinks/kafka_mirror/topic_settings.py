"""Settings and access rules of a mirrored topic as they should be on the target. Pure: asks no server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._config import ConfigSource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from databus.kafka.selection import selects
from databus.sinks.kafka_mirror.spec import MirrorTopics

SOURCE_TIME = {"message.timestamp.type": "CreateTime"}
"""What stamps at the append on the source would be stamped anew on the target."""


def own(entries: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that a topic has of its own, not by brokers' defaults; `entries`: name → ConfigEntry."""
    dynamic = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {n: e.value for n, e in entries.items() if e.source == dynamic and e.value is not None}


def wanted(spec: MirrorTopics, of_source: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a topic that is made; `of_source` is what its source has of its own."""
    followed = {n: v for n, v in of_source.items() if selects(spec.configs, spec.exclude_configs, n)}
    return {**(followed if spec.copy_settings else {}), **SOURCE_TIME, **spec.topic_config}


def changes(
    spec: MirrorTopics, of_source: Mapping[str, str], target: Mapping[str, Any]
) -> dict[str, tuple[str, str | None]]:
    """Return setting → (value now, value wanted) of a topic that is there; None is the target's default.

    Args:
        spec: the mirror's sink.
        of_source: what the source's topic has of its own.
        target: setting → ConfigEntry of the target's topic.
    """
    present = own(target)
    found: dict[str, tuple[str, str | None]] = {}
    for name, value in wanted(spec, of_source).items():
        if name in target and target[name].value != value and (name not in spec.topic_config):
            found[name] = (target[name].value, value)
    for name, value in present.items():
        kept = name in spec.topic_config or name in SOURCE_TIME
        if name not in of_source and not kept and selects(spec.configs, spec.exclude_configs, name):
            found[name] = (value, None)
    return found


def acls(spec: MirrorTopics, bindings: Iterable[AclBinding]) -> set[AclBinding]:
    """Return the access rules of the target that go with those of the source (MirrorMaker 2's rules).

    Literal rules of mirrored topics; a right to write is left out, and a right to everything becomes one to read.
    """
    found = set()
    for rule in bindings:
        allows = rule.permission_type is AclPermissionType.ALLOW
        literal = rule.restype is ResourceType.TOPIC and rule.resource_pattern_type is ResourcePatternType.LITERAL
        if not literal or not spec.wants(rule.name) or (allows and rule.operation is AclOperation.WRITE):
            continue
        reads = AclOperation.READ if allows and rule.operation is AclOperation.ALL else rule.operation
        found.add(
            AclBinding(
                ResourceType.TOPIC, spec.target(rule.name), ResourcePatternType.LITERAL,
                rule.principal, rule.host, reads, rule.permission_type,
            )
        )  # fmt: skip
    return found
