"""ZooKeeper: a single server, or an ensemble on this machine."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from databus.sandbox.maven import Artifact, Download, libraries
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


def ensemble_ports(client: int, nodes: int) -> dict[str, int]:
    """Ports of an ensemble: the clients' count up from `client`, the followers' from + 10, the election's from + 20."""
    firsts = {"client": client, "quorum": client + 10, "election": client + 20}
    return {f"{purpose}-{node}": first + node - 1 for purpose, first in firsts.items() for node in range(1, nodes + 1)}


@dataclass(frozen=True)
class ZooKeeper(ServerDefaults):
    """The `zookeeper` package's server with its data kept and fsync off, since power cuts are not tested."""

    nodes: int = 1

    def install(self, context: Context) -> Path:
        """ZooKeeper and the libraries its pom calls provided; one cache for all."""
        version = context.versions["ZOOKEEPER_VERSION"]
        artifacts = (
            Artifact("org.apache.zookeeper", "zookeeper", version),
            Artifact("io.dropwizard.metrics", "metrics-core", context.versions["METRICS_CORE_VERSION"]),
            Artifact("org.xerial.snappy", "snappy-java", context.versions["SNAPPY_JAVA_VERSION"]),
            Artifact("ch.qos.logback", "logback-classic", context.versions["LOGBACK_VERSION"]),
        )
        download = Download("zookeeper", artifacts, context.versions["MAVEN_DEPENDENCY_PLUGIN_VERSION"])
        return libraries(download, version, context.progress)

    def prepare(self, context: Context) -> None:
        """Write each member's zoo.cfg and number, and the logging configuration."""
        copy_config("zookeeper-logback.xml", context.folder / "logback.xml")
        for node in self._members():
            data = self.member_data(context.data, node)
            data.mkdir(parents=True, exist_ok=True)
            if self.nodes > 1:
                (data / "myid").write_text(f"{node}\n", encoding="utf-8")
            text = "".join(f"{key}={value}\n" for key, value in self.settings(context, node).items())
            self._config(context, node).write_text(text, encoding="utf-8")

    def settings(self, context: Context, node: int) -> dict[str, object]:
        """zoo.cfg of one member (Administrator's Guide, "Configuration Parameters")."""
        single: dict[str, object] = {
            "tickTime": _TICK_MS,
            "dataDir": self.member_data(context.data, node),
            "clientPort": context.ports[self._client(node)],
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
        if self.nodes == 1:
            return single
        members = {
            f"server.{peer}": f"{context.host}:{context.ports[f'quorum-{peer}']}:{context.ports[f'election-{peer}']}"
            for peer in self._members()
        }
        return {**single, "initLimit": 20, "syncLimit": 10, "standaloneEnabled": "false", **members}

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return the command of `server`, or one per member, with the roles `server-1`, `server-2` and so on."""
        options = (
            f"-Dlogback.configurationFile={context.folder / 'logback.xml'}",
            "-Dzookeeper.forceSync=no",
            "-Dzookeeper.jmx.log4j.disable=true",
        )
        main = "ZooKeeperServerMain" if self.nodes == 1 else "quorum.QuorumPeerMain"
        found = []
        for node in self._members():
            role = "server" if self.nodes == 1 else f"server-{node}"
            argv = java_argv(
                f"org.apache.zookeeper.server.{main}",
                f"{context.installation}/libs/*",
                str(self._config(context, node)),
                heap="128m",
                options=options,
            )
            found.append(Command(role, argv, context.folder, context.logs / f"{role}.log"))
        return tuple(found)

    def check_health(self, context: Context) -> None:
        """`srvr` names its mode only while a member serves requests; all must, and an ensemble has one leader."""
        modes = [member_mode(context.host, context.ports[self._client(node)]) for node in self._members()]
        if self.nodes > 1 and modes.count("leader") != 1:
            raise NotHealthyError(f"the members are {', '.join(modes)}: there is no one leader")

    def address(self, ports: Mapping[str, int], host: str) -> str:
        """The clients' ports of all members."""
        return ",".join(f"{host}:{ports[self._client(node)]}" for node in self._members())

    def member_data(self, data: Path, node: int) -> Path:
        """Return a member's data folder below the server's."""
        return data if self.nodes == 1 else data / f"member-{node}"

    def _members(self) -> range:
        return range(1, self.nodes + 1)

    def _client(self, node: int) -> str:
        return "client" if self.nodes == 1 else f"client-{node}"

    def _config(self, context: Context, node: int) -> Path:
        return context.folder / ("zoo.cfg" if self.nodes == 1 else f"zoo-{node}.cfg")


def member_mode(host: str, port: int) -> str:
    """Return what a member says it is: "standalone", "leader", "follower".

    Raises:
        NotHealthyError: it does not answer, or serves no requests just now.
    """
    answer = four_letter_word(host, port, "srvr")
    mode = next((line.partition(":")[2].strip() for line in answer.splitlines() if line.startswith("Mode:")), None)
    if mode is None:
        raise NotHealthyError(answer.strip() or "srvr: no answer")
    return mode


ZOOKEEPER = ZooKeeper("zookeeper", {"client": 12181})
ZOOKEEPER_3 = ZooKeeper("zookeeper-3", ensemble_ports(12381, 3), nodes=3)
