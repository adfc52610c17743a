"""MirrorMaker 2 as the peer: a dedicated process between two clusters, with exactly once on or off."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox import packages
from databus.sandbox.cache import cached_folder
from databus.sandbox.maven import Artifact, Download, copy_dependencies
from databus.sandbox.ports import LOOPBACK, free_ports
from databus.sandbox.progress import log_progress
from databus.sandbox.servers.debezium import CONNECT_JVM
from databus.sandbox.servers.java import copy_config
from databus.sandbox.versions import load_versions

_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_STOPS_WITHIN_S = 30.0
_OF_EACH_CLUSTER = (
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
    "offset-syncs.topic.replication.factor",
    "offset.storage.replication.factor",
    "status.storage.replication.factor",
    "config.storage.replication.factor",
    "replication.factor",
)


@dataclass(frozen=True)
class MirrorMaker:
    """MirrorMaker 2 process and its settings.

    Attributes:
        name: of the run; part of both aliases, so that a new one begins at the source's start, in topics of its own.
        source: bootstrap servers to read.
        target: bootstrap servers to write.
        topic: what it mirrors, to `target_topic`.
        exactly_once: exactly.once.source.support with a consumer that reads what was committed; else its defaults.
        tasks: tasks.max.
        fast: settings for throughput before delay (see `throughput`); else Kafka's defaults, for the least delay.
        compression: compression.type of its producer.
        heartbeats: whether it writes heartbeats, each second.
    """

    name: str
    source: str
    target: str
    topic: str
    exactly_once: bool
    tasks: int = 4
    fast: bool = True
    compression: str = "none"
    heartbeats: bool = False

    @property
    def target_topic(self) -> str:
        """The topic it writes, as the default policy of replication names it."""
        return f"{self._source}.{self.topic}"

    def properties(self, port: int) -> dict[str, object]:
        """Return connect-mirror-maker.properties (Kafka 4.3 documentation, "Geo-Replication").

        Args:
            port: of the REST interface that exactly once asks for.
        """
        source, to = self._source, self._target
        flow = f"{source}->{to}"
        found: dict[str, object] = {
            "clusters": f"{source},{to}",
            f"{source}.bootstrap.servers": self.source,
            f"{to}.bootstrap.servers": self.target,
            f"{flow}.enabled": "true",
            f"{to}->{source}.enabled": "false",
            f"{flow}.topics": self.topic,
            f"{flow}.groups": ".*",
            "tasks.max": self.tasks,
            "refresh.topics.interval.seconds": 5,
            "sync.topic.acls.enabled": "false",
            "emit.heartbeats.enabled": str(self.heartbeats).lower(),
            "emit.heartbeats.interval.seconds": 1,
            f"{source}.consumer.auto.offset.reset": "earliest",
            f"{to}.producer.compression.type": self.compression,
            "dedicated.mode.enable.internal.rest": str(self.exactly_once).lower(),
            **dict.fromkeys(_OF_EACH_CLUSTER, 1),
        }
        if self.fast:
            found |= self.throughput()
        if self.exactly_once:
            found |= {
                f"{to}.exactly.once.source.support": "enabled",
                f"{source}.consumer.isolation.level": "read_committed",
                "listeners": f"http://{LOOPBACK}:{port}",
            }
        return found

    def throughput(self) -> dict[str, object]:
        """Return what is set against Kafka's defaults, throughput before delay."""
        return {
            f"{self._target}.producer.batch.size": 262144,
            f"{self._target}.producer.linger.ms": 10,
            f"{self._target}.producer.max.request.size": 4194304,
            f"{self._source}.consumer.fetch.min.bytes": 100000,
            f"{self._source}.consumer.max.partition.fetch.bytes": 4194304,
            f"{self._source}.consumer.max.poll.records": 5000,
        }

    @property
    def _source(self) -> str:
        return f"east_{self.name}"

    @property
    def _target(self) -> str:
        return f"west_{self.name}"

    @contextmanager
    def running(self, home: Path, ports_from: int) -> Iterator[subprocess.Popen[bytes]]:
        """Run it in a folder of its own below `home`, and stop it at the end.

        Raises:
            SandboxError: it ended by itself; the message holds the end of its log.
        """
        folder = home / self.name
        folder.mkdir(parents=True)
        logging = copy_config("log4j2.properties", folder / "log4j2.properties")
        port = free_ports({"rest": 0}, ports_from, ())["rest"]
        file = folder / "mm2.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.properties(port).items()), encoding="utf-8")
        argv = [str(packages.require_java()), *CONNECT_JVM, f"-Dlog4j2.configurationFile={logging}"]
        log = folder / "mm2.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*argv, "-cp", f"{install()}/libs/*", _MAIN, str(file)], cwd=folder, stdout=output, stderr=output
            )
        try:
            yield process
            if process.poll() is not None:
                tail = log.read_text(errors="replace")[-1500:]
                raise SandboxError(f"MirrorMaker {self.name} ended with {process.returncode}: {tail}")
        finally:
            process.terminate()
            try:
                process.wait(_STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def install() -> Path:
    """Return the folder of the program, which is fetched unless it is cached."""
    versions = load_versions()
    kafka, log4j = versions["KAFKA_VERSION"], versions["LOG4J_VERSION"]
    download = Download(
        "mirror-maker",
        (
            Artifact("org.apache.kafka", "connect-mirror", kafka),
            Artifact("org.apache.kafka", "connect-runtime", kafka),
            Artifact("org.apache.logging.log4j", "log4j-core", log4j),
            Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", log4j),
        ),
        versions["MAVEN_DEPENDENCY_PLUGIN_VERSION"],
    )
    return cached_folder(
        f"mirror-maker-{kafka}",
        download.recipe,
        lambda folder: copy_dependencies(download, folder / "libs", log_progress),
    )
