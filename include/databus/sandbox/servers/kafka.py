"""Kafka in KRaft mode: each node is broker and controller."""

from __future__ import annotations

import base64
import itertools
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databus.core.errors.config import SandboxError
from databus.sandbox.maven import Artifact, Download, libraries
from databus.sandbox.process import Command
from databus.sandbox.servers.java import copy_config, java_argv
from databus.sandbox.servers.protocol import Context, NotHealthyError, ServerDefaults

_MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_HEAP = "512m"
_HEAP_OF_MANY = "320m"


def default_kafka_ports(client: int, nodes: int) -> dict[str, int]:
    """Ports of a cluster: the clients' count up from `client`, the controllers' from `client` + 100."""
    ports = {f"client-{node}": client + node - 1 for node in range(1, nodes + 1)}
    return ports | {f"controller-{node}": client + 99 + node for node in range(1, nodes + 1)}


def cluster_id(folder: Path) -> str:
    """A stable cluster id for the cluster in `folder`: 16 bytes in URL-safe base64, as Kafka's Uuid prints them.

    Like Kafka's own random ids it never begins with a dash, which command lines would take for an option.
    """
    tries = (uuid.uuid5(uuid.NAMESPACE_URL, f"{folder.as_uri()}{'#' * salt}").bytes for salt in itertools.count())
    texts = (base64.urlsafe_b64encode(found).decode().rstrip("=") for found in tries)
    return next(text for text in texts if not text.startswith("-"))


@dataclass(frozen=True)
class Kafka(ServerDefaults):
    """A cluster of `nodes` nodes on this machine."""

    nodes: int = 1

    def install(self, context: Context) -> Path:
        """Broker, tools and a logger; one cache for all clusters."""
        version, log4j = context.versions["KAFKA_VERSION"], context.versions["LOG4J_VERSION"]
        artifacts = (
            Artifact("org.apache.kafka", f"kafka_{context.versions['SCALA_BINARY_VERSION']}", version),
            Artifact("org.apache.kafka", "kafka-tools", version),
            Artifact("org.apache.logging.log4j", "log4j-core", log4j),
            Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", log4j),
        )
        download = Download("kafka", artifacts, context.versions["MAVEN_DEPENDENCY_PLUGIN_VERSION"])
        return libraries(download, version, context.progress)

    def prepare(self, context: Context) -> None:
        """Write each node's properties, and format its log folder the first time."""
        copy_config("log4j2.properties", context.folder / "log4j2.properties")
        for node in self._node_ids():
            properties = self._properties_file(context, node)
            text = "".join(f"{key}={value}\n" for key, value in self.properties(context, node).items())
            properties.parent.mkdir(parents=True, exist_ok=True)
            properties.write_text(text, encoding="utf-8")
            if not (context.data / f"node-{node}" / "meta.properties").exists():
                self._format(context, properties)

    def properties(self, context: Context, node: int) -> dict[str, object]:
        """server.properties of one node (Kafka 4.3 documentation, "Broker Configs")."""
        ports, host = context.ports, context.host
        replicas, in_sync = self.nodes, max(1, self.nodes - 1)
        voters = ",".join(f"{peer}@{host}:{ports[f'controller-{peer}']}" for peer in self._node_ids())
        client = f"PLAINTEXT://{host}:{ports[f'client-{node}']}"
        return {
            "process.roles": "broker,controller",
            "node.id": node,
            "controller.quorum.voters": voters,
            "listeners": f"{client},CONTROLLER://{host}:{ports[f'controller-{node}']}",
            "advertised.listeners": client,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": context.data / f"node-{node}",
            "num.partitions": 1,
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": 8,
            # A leaving broker gives its partitions away; one that is alone leaves them without a leader, and then Kafka
            # takes transactions for committed without writing their ends (ADR 28).
            "controlled.shutdown.enable": str(self.nodes > 1).lower(),
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": 8,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": 0,
            # Access rules can be written and read; who has no login may do everything all the same.
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "log.retention.hours": -1,
            "message.max.bytes": _MAX_MESSAGE_BYTES,
            "replica.fetch.max.bytes": _MAX_MESSAGE_BYTES,
            "num.io.threads": 4,
            "num.network.threads": 2,
            "background.threads": 2,
            # Twice a second by default, for followers of the metadata; half of what an idle broker does.
            "metadata.max.idle.interval.ms": 500 if self.nodes > 1 else 5_000,
        }

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return a command per node, with the roles `broker-1`, `broker-2` and so on."""
        heap = _HEAP if self.nodes == 1 else _HEAP_OF_MANY
        return tuple(
            Command(
                f"broker-{node}",
                self._java(context, "kafka.Kafka", str(self._properties_file(context, node)), heap=heap),
                context.folder,
                context.logs / f"broker-{node}.log",
            )
            for node in self._node_ids()
        )

    def check_health(self, context: Context) -> None:
        """The cluster's metadata names a controller and every node."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        settings: dict[str, Any] = {
            "bootstrap.servers": self.address(context.ports, context.host),
            "log_level": 0,
            "error_cb": _ignore,
            "socket.timeout.ms": 3_000,
            **self.client_settings(context),
        }
        try:
            metadata = AdminClient(settings).list_topics(timeout=3.0)
        except KafkaException as error:
            raise NotHealthyError(str(error)) from None
        if len(metadata.brokers) != self.nodes or metadata.controller_id < 0:
            raise NotHealthyError(f"{len(metadata.brokers)} of {self.nodes} brokers are in the cluster")

    def client_settings(self, context: Context) -> dict[str, object]:  # noqa: ARG002 - for secured kinds
        """Librdkafka settings that a client needs beside the addresses."""
        return {}

    def format_options(self, context: Context) -> tuple[str, ...]:  # noqa: ARG002 - for secured kinds
        """Further arguments of the storage tool."""
        return ()

    def address(self, ports: Mapping[str, int], host: str) -> str:
        """The bootstrap servers."""
        return ",".join(f"{host}:{ports[f'client-{node}']}" for node in self._node_ids())

    def _node_ids(self) -> range:
        return range(1, self.nodes + 1)

    def _properties_file(self, context: Context, node: int) -> Path:
        return context.folder / f"node-{node}.properties"

    def _java(self, context: Context, main: str, *arguments: str, heap: str, tuning: str = "") -> tuple[str, ...]:
        logging = f"-Dlog4j2.configurationFile={context.folder / 'log4j2.properties'}"
        options = (logging, tuning) if tuning else (logging,)
        return java_argv(main, f"{context.installation}/libs/*", *arguments, heap=heap, options=options)

    def _format(self, context: Context, properties: Path) -> None:
        argv = self._java(
            context,
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            cluster_id(context.folder),
            "--config",
            str(properties),
            *self.format_options(context),
            heap="128m",
            tuning="-XX:TieredStopAtLevel=1",  # it ends before optimised code would pay: a third less CPU time
        )
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
            raise SandboxError(f"{context.name}: formatting {properties.stem} failed:\n{tail}")


def _ignore(_error: object) -> None:
    """A broker that is not up yet is no news: the caller asks again."""


KAFKA = Kafka("kafka", default_kafka_ports(19092, 1))
KAFKA_B = Kafka("kafka-b", default_kafka_ports(19392, 1))
KAFKA_C = Kafka("kafka-c", default_kafka_ports(19952, 1))
KAFKA_3 = Kafka("kafka-3", default_kafka_ports(19592, 3), nodes=3)
