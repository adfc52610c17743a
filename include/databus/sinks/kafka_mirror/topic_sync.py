"""Topic sync of a mirror's target beside the records: partition counts, settings, access rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from databus.core.connections import Connection
from databus.core.errors.sink import SinkSettingError
from databus.kafka.client import ClientSettings
from databus.sinks.kafka.topics.cluster_topics import Topics
from databus.sinks.kafka_mirror.spec import MirrorTopics
from databus.sinks.kafka_mirror.topic_settings import acls, changes, own


@dataclass(frozen=True)
class TargetChange:
    """Topic change on the target.

    Attributes:
        topic: topic of the target.
        what: "partitions", "acl" or the setting's name.
        before: what it was, "" for nothing.
        after: what it is now; "" where it went back to the target's default.
    """

    topic: str
    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.what}: {self.before or 'nothing'} → {self.after or 'the default'}"


class MirrorClusters:
    """Topic sync between both clusters, through admin clients that are opened when first needed; used by one thread."""

    def __init__(self, spec: MirrorTopics, source: Connection, target: Connection):
        self._spec = spec
        self._source = Topics(ClientSettings.of(source, spec.timeout_s))
        self._target = Topics(ClientSettings.of(target, spec.timeout_s))

    def follow(self) -> list[TargetChange]:
        """Bring the topics of the target that are there up to their sources; return what was changed.

        Raises:
            SinkSettingError: names clash, or a topic has fewer partitions and may not grow; nothing was changed.
            SinkAccessError: a right is missing.
        """
        counts = {topic: n for topic, n in self._source.partitions().items() if self._spec.wants(topic)}
        names = self._spec.targets(counts)
        known = self._target.partitions()
        there = {topic: name for topic, name in names.items() if name in known}
        short = {topic: name for topic, name in there.items() if known[name] < counts[topic]}
        if not self._spec.grow:
            for topic, name in sorted(short.items()):
                raise fewer_partitions(self._spec, name, known[name], topic, counts[topic])
        done = []
        for topic, name in sorted(short.items()):
            self._target.grow(name, counts[topic])
            done.append(TargetChange(name, "partitions", str(known[name]), str(counts[topic])))
        if self._spec.follow_settings and self._spec.copy_settings:
            done += self._settings(there)
        if self._spec.sync_acls:
            done += self._acls()
        return done

    def close(self) -> None:
        """Close the clients; safe to call twice."""
        self._source.close()
        self._target.close()

    def _settings(self, there: Mapping[str, str]) -> Iterator[TargetChange]:
        if not there:
            return
        ours = self._source.entries(ConfigResource.Type.TOPIC, sorted(there))
        theirs = self._target.entries(ConfigResource.Type.TOPIC, sorted(there.values()))
        wanted = {
            name: found
            for topic, name in sorted(there.items())
            if (found := changes(self._spec, own(ours[topic]), theirs[name]))
        }
        if not wanted:
            return
        alter = [
            ConfigResource(
                ConfigResource.Type.TOPIC,
                name,
                incremental_configs=[
                    ConfigEntry(
                        setting,
                        after,
                        incremental_operation=AlterConfigOpType.DELETE if after is None else AlterConfigOpType.SET,
                    )
                    for setting, (_, after) in found.items()
                ],
            )
            for name, found in wanted.items()
        ]
        futures = self._target.admin.incremental_alter_configs(alter)
        for resource, future in futures.items():
            try:
                future.result()
            except KafkaException as error:
                raise self._target.error(f"change the settings of topic {resource.name}", error) from error
        for name, found in wanted.items():
            for setting, (before, after) in found.items():
                yield TargetChange(name, setting, before, after or "")

    def _acls(self) -> Iterator[TargetChange]:
        missing = acls(self._spec, self._rules(self._source)) - self._rules(self._target)
        if not missing:
            return
        for rule, future in self._target.admin.create_acls(list(missing)).items():
            try:
                future.result()
            except KafkaException as error:
                raise self._target.error(f"add an access rule to topic {rule.name}", error) from error
            said = f"{_name(rule.permission_type)} {_name(rule.operation)} for {rule.principal} from {rule.host}"
            yield TargetChange(rule.name, "acl", "", said)

    @staticmethod
    def _rules(side: Topics) -> set[AclBinding]:
        anyone: Any = None
        every = AclBindingFilter(
            ResourceType.TOPIC, anyone, ResourcePatternType.LITERAL, anyone, anyone,
            AclOperation.ANY, AclPermissionType.ANY,
        )  # fmt: skip
        try:
            return set(side.admin.describe_acls(every).result())
        except KafkaException as error:
            raise side.error("read the access rules of topics", error) from error


def _name(word: Any) -> str:
    return str(word.name)


def fewer_partitions(spec: MirrorTopics, name: str, have: int, topic: str, need: int) -> SinkSettingError:
    """Return the error for a topic of the target that has fewer partitions than its source and may not grow."""
    return SinkSettingError(
        f"mirror to {spec.conn_id}: {name} has {have} partitions, and {topic} on the source has {need}",
        hint=f"Add partitions to {name}, or set grow=True.",
        code="mirror_fewer_partitions",
    )
