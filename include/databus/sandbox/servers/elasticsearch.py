"""Elasticsearch, one node built from its published libraries."""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox.cache import cached_folder
from databus.sandbox.maven import Artifact, Download, copy_dependencies
from databus.sandbox.process import Command
from databus.sandbox.servers.java import compile_sources, copy_config, java_argv, source_text
from databus.sandbox.servers.protocol import Context, ServerDefaults, check_cluster

_NODE = "ElasticsearchNode.java"
_ROOT_PLUGIN = "RestRootPlugin.java"
_NETTY = "transport-netty4"
_REST_ROOT = "rest-root"


def lay_out_netty(libs: Path, modules: Path) -> None:
    """Make the module `transport-netty4`: its own jar, netty, and the descriptor that its jar carries.

    The descriptor's `modulename` is left out: the launcher runs from the class path, without Java modules.
    """
    module = modules / _NETTY
    module.mkdir(parents=True)
    for jar in [*libs.glob(f"{_NETTY}-*.jar"), *libs.glob("netty-*.jar")]:
        shutil.move(jar, module / jar.name)
    own_jar = next(module.glob(f"{_NETTY}-*.jar"), None)
    if own_jar is None:
        raise SandboxError(f"the download of Elasticsearch holds no {_NETTY}")
    with zipfile.ZipFile(own_jar) as content:
        prefix = f"META-INF/es-plugins/{_NETTY}/"
        descriptor = content.read(f"{prefix}plugin-descriptor.properties").decode("utf-8")
        policy = content.read(f"{prefix}entitlement-policy.yaml")
    kept = [line for line in descriptor.splitlines() if not line.startswith("modulename=")]
    (module / "plugin-descriptor.properties").write_text("\n".join(kept) + "\n", encoding="utf-8")
    (module / "entitlement-policy.yaml").write_bytes(policy)


def lay_out_rest_root(classes: Path, modules: Path, version: str) -> None:
    """Make the module `rest-root` of the compiled classes in `classes`."""
    module = modules / _REST_ROOT
    module.mkdir(parents=True)
    with zipfile.ZipFile(module / f"{_REST_ROOT}.jar", "w") as jar:
        for found in sorted(classes.rglob("*.class")):
            jar.write(found, found.relative_to(classes).as_posix())
    descriptor = {
        "name": _REST_ROOT,
        "description": "Answers GET /",
        "version": version,
        "elasticsearch.version": version,
        "java.version": 17,
        "classname": "RestRootPlugin",
    }
    text = "".join(f"{key}={value}\n" for key, value in descriptor.items())
    (module / "plugin-descriptor.properties").write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Elasticsearch(ServerDefaults):
    """A node with two modules: HTTP over netty, and the answer at its root."""

    def install(self, context: Context) -> Path:
        """Libraries, modules, and the launcher compiled against them."""
        version = context.versions["ELASTICSEARCH_VERSION"]
        artifacts = (
            Artifact("org.elasticsearch", "elasticsearch", version),
            Artifact("org.elasticsearch.plugin", _NETTY, version),
        )
        download = Download(context.name, artifacts, context.versions["MAVEN_DEPENDENCY_PLUGIN_VERSION"])

        def make(folder: Path) -> None:
            libs, modules = folder / "libs", folder / "modules"
            copy_dependencies(download, libs, context.progress)
            compile_sources([_NODE], f"{libs}/*", folder / "classes")
            compile_sources([_ROOT_PLUGIN], f"{libs}/*", folder / "plugin-classes")
            lay_out_netty(libs, modules)
            lay_out_rest_root(folder / "plugin-classes", modules, version)

        recipe = download.recipe + source_text(_NODE) + source_text(_ROOT_PLUGIN)
        return cached_folder(f"elasticsearch-{version}", recipe, make)

    def prepare(self, context: Context) -> None:
        """Make the node's home, which holds its data, and the logging configuration."""
        (context.data / "config").mkdir(parents=True, exist_ok=True)
        copy_config("log4j2.properties", context.folder / "log4j2.properties")

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return the command of its one process."""
        options = (
            f"-Dlog4j2.configurationFile={context.folder / 'log4j2.properties'}",
            "-Djava.security.manager=allow",
            "--add-opens=java.base/java.io=ALL-UNNAMED",
            "--add-opens=java.base/java.nio.channels=ALL-UNNAMED",
        )
        argv = java_argv(
            "ElasticsearchNode",
            f"{context.installation}/classes:{context.installation}/libs/*",
            str(context.data),
            str(context.installation / "modules"),
            str(context.ports["http"]),
            str(context.ports["transport"]),
            heap="768m",
            options=options,
        )
        return (Command("node", argv, context.folder, context.logs / "node.log"),)

    def check_health(self, context: Context) -> None:
        """The cluster is green or yellow."""
        check_cluster(context)


ELASTICSEARCH = Elasticsearch("elasticsearch", {"http": 19210, "transport": 19310})
