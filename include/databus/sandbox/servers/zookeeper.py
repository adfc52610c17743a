"""ZooKeeper, a single server."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from databus.sandbox.cache import cached_folder
from databus.sandbox.maven import Artifact, Download, copy_dependencies
from databus.sandbox.process import Command
from databus.sandbox.servers.java import copy_config, java_argv
from databus.sandbox.servers.protocol import Context, NotHealthyError, ServerDefaults

_TICK_MS = 500


def four_letter_word(host: str, port: int, word: str, timeout_s: float = 2.0) -> str:
    """Ask ZooKeeper one of its four letter words (Administrator's Guide, "The Four Letter Words").

    Raises:
        NotHealthyError: no connection.
    """
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(word.encode("ascii"))
            connection.shutdown(socket.SHUT_WR)
            parts = []
            while part := connection.recv(4096):
                parts.append(part)
    except OSError as error:
        raise NotHealthyError(f"{host}:{port}: {error}") from None
    return b"".join(parts).decode("utf-8", errors="replace")


@dataclass(frozen=True)
class ZooKeeper(ServerDefaults):
    """The `zookeeper` package's standalone server with its data kept and fsync off, since power cuts are not tested."""

    def install(self, context: Context) -> Path:
        """ZooKeeper and the libraries its pom calls provided."""
        version = context.versions["ZOOKEEPER_VERSION"]
        artifacts = (
            Artifact("org.apache.zookeeper", "zookeeper", version),
            Artifact("io.dropwizard.metrics", "metrics-core", context.versions["METRICS_CORE_VERSION"]),
            Artifact("org.xerial.snappy", "snappy-java", context.versions["SNAPPY_JAVA_VERSION"]),
            Artifact("ch.qos.logback", "logback-classic", context.versions["LOGBACK_VERSION"]),
        )
        download = Download("zookeeper", artifacts, context.versions["MAVEN_DEPENDENCY_PLUGIN_VERSION"])
        return cached_folder(
            f"zookeeper-{version}",
            download.recipe,
            lambda folder: copy_dependencies(download, folder / "libs", context.progress),
        )

    def prepare(self, context: Context) -> None:
        """Write zoo.cfg and the logging configuration."""
        context.data.mkdir(parents=True, exist_ok=True)
        copy_config("zookeeper-logback.xml", context.folder / "logback.xml")
        text = "".join(f"{key}={value}\n" for key, value in self.settings(context).items())
        (context.folder / "zoo.cfg").write_text(text, encoding="utf-8")

    def settings(self, context: Context) -> dict[str, object]:
        """zoo.cfg (ZooKeeper Administrator's Guide, "Configuration Parameters")."""
        return {
            "tickTime": _TICK_MS,
            "dataDir": context.data,
            "clientPort": context.ports["client"],
            "clientPortAddress": context.host,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": 0,
            "minSessionTimeout": 2 * _TICK_MS,
            "maxSessionTimeout": 60_000,
            "autopurge.snapRetainCount": 3,
            "autopurge.purgeInterval": 1,
            "forceSync": "no",
        }

    def commands(self, context: Context) -> tuple[Command, ...]:
        """One process."""
        options = (
            f"-Dlogback.configurationFile={context.folder / 'logback.xml'}",
            "-Dzookeeper.forceSync=no",
            "-Dzookeeper.jmx.log4j.disable=true",
        )
        argv = java_argv(
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            f"{context.installation}/libs/*",
            str(context.folder / "zoo.cfg"),
            heap="128m",
            options=options,
        )
        return (Command("server", argv, context.folder, context.logs / "server.log"),)

    def check_health(self, context: Context) -> None:
        """`srvr` names its mode only while the server serves requests."""
        answer = four_letter_word(context.host, context.ports["client"], "srvr")
        if "\nMode:" not in answer:
            raise NotHealthyError(answer.strip() or "srvr: no answer")


ZOOKEEPER = ZooKeeper("zookeeper", {"client": 12181})
