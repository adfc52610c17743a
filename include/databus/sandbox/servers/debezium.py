"""Debezium in a Kafka Connect worker: the peer that benchmarks run beside ours."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from databus.sandbox import packages
from databus.sandbox.cache import cached_folder
from databus.sandbox.maven import Artifact, Download, copy_dependencies
from databus.sandbox.process import Command
from databus.sandbox.servers.java import copy_config
from databus.sandbox.servers.protocol import Context, NotHealthyError, ServerDefaults, get_json

_MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"
CONNECT_JVM = ("-Xms256m", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
"""Options that Kafka's own connect-standalone.sh sets."""

AVRO_CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter"
"""Converter of Avro with Apicurio's registry, which connectors may name."""

_VERSIONED = re.compile(r"-\d[^/]*\.jar$")


@dataclass(frozen=True)
class Debezium(ServerDefaults):
    """Debezium worker, standalone, with the connectors for MySQL and MariaDB; they are made over its REST port."""

    def install(self, context: Context) -> Path:
        """The worker in `libs`, the connectors and a converter of Avro in `plugins`."""
        versions, plugin = context.versions, context.versions["MAVEN_DEPENDENCY_PLUGIN_VERSION"]
        kafka, log4j = versions["KAFKA_VERSION"], versions["LOG4J_VERSION"]
        worker = Download(
            context.name,
            (
                Artifact("org.apache.kafka", "connect-runtime", kafka),
                Artifact("org.apache.kafka", "connect-json", kafka),
                Artifact("org.apache.logging.log4j", "log4j-core", log4j),
                Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", log4j),
            ),
            plugin,
        )
        names = ("debezium-connector-mysql", "debezium-connector-mariadb")
        connectors = tuple(Artifact("io.debezium", name, versions["DEBEZIUM_VERSION"]) for name in names)
        download = Download(context.name, connectors, plugin)

        registry = (Artifact("io.apicurio", "apicurio-registry-utils-converter", versions["APICURIO_VERSION"]),)
        converter = Download(context.name, registry, plugin)

        def make(folder: Path) -> None:
            copy_dependencies(worker, folder / "libs", context.progress)
            copy_dependencies(download, folder / "plugins" / "debezium", context.progress)
            copy_dependencies(converter, folder / "plugins" / "apicurio", context.progress)
            # The converter does not name itself as a service, by which the worker finds its plugins.
            with zipfile.ZipFile(folder / "plugins" / "apicurio" / "services.jar", "w") as services:
                services.writestr("META-INF/services/org.apache.kafka.connect.storage.Converter", f"{AVRO_CONVERTER}\n")
            # Classes that the worker shares with its plugins must come from the worker.
            shared = {_artifact(jar) for jar in (folder / "libs").glob("*.jar")}
            for jar in (folder / "plugins").glob("*/*.jar"):
                if _artifact(jar) in shared:
                    jar.unlink()

        recipe = worker.recipe + download.recipe + converter.recipe
        return cached_folder(f"debezium-{versions['DEBEZIUM_VERSION']}", recipe, make)

    def prepare(self, context: Context) -> None:
        """Write the worker's properties.

        Raises:
            SandboxError: no Kafka was started in the same sandbox.
        """
        context.other("kafka", "writes to Kafka")
        context.data.mkdir(parents=True, exist_ok=True)
        copy_config("log4j2.properties", context.folder / "log4j2.properties")
        text = "".join(f"{key}={value}\n" for key, value in self.properties(context).items())
        self._properties_file(context).write_text(text, encoding="utf-8")

    def properties(self, context: Context) -> dict[str, object]:
        """connect-standalone.properties (Kafka 4.3 documentation, "Kafka Connect Configs"); throughput before delay."""
        converter = "org.apache.kafka.connect.json.JsonConverter"
        return {
            "bootstrap.servers": context.others["kafka"].address,
            "key.converter": converter,
            "value.converter": converter,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": context.data / "offsets",
            "offset.flush.interval.ms": 5000,
            "plugin.path": context.installation / "plugins",
            "plugin.discovery": "service_load",
            "listeners": f"http://{self.address(context.ports, context.host)}",
            "producer.linger.ms": 10,
            "producer.batch.size": 262144,
            "producer.buffer.memory": 67108864,
            "producer.max.request.size": 4194304,
        }

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return the command of its one process."""
        logging = f"-Dlog4j2.configurationFile={context.folder / 'log4j2.properties'}"
        argv = (str(packages.require_java()), *CONNECT_JVM, logging, "-cp", f"{context.installation}/libs/*", _MAIN)
        properties = str(self._properties_file(context))
        return (Command("worker", (*argv, properties), context.folder, context.logs / "worker.log"),)

    def check_health(self, context: Context) -> None:
        """The worker lists its connectors."""
        if not isinstance(get_json(context.host, context.ports["rest"], "/connectors"), list):
            raise NotHealthyError("the list of connectors is no list")

    @staticmethod
    def _properties_file(context: Context) -> Path:
        return context.folder / "worker.properties"


def _artifact(jar: Path) -> str:
    return _VERSIONED.sub("", jar.name)


DEBEZIUM = Debezium("debezium", {"rest": 19083}, after_others=True)
