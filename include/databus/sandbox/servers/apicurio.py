"""Apicurio Registry, which speaks the Confluent schema registry's API at /apis/ccompat/v7."""

from __future__ import annotations

import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox import packages
from databus.sandbox.cache import cached_folder
from databus.sandbox.maven import Artifact, Download, copy_dependencies
from databus.sandbox.process import Command
from databus.sandbox.servers.protocol import Context, NotHealthyError, ServerDefaults, get_json


@dataclass(frozen=True)
class Apicurio(ServerDefaults):
    """The registry with its schemas in an H2 database in the data folder."""

    def install(self, context: Context) -> Path:
        """The unpacked distribution."""
        version = context.versions["APICURIO_VERSION"]
        archive = Artifact("io.apicurio", "apicurio-registry-app", version, "tar.gz", "all", transitive=False)
        download = Download(context.name, (archive,), context.versions["MAVEN_DEPENDENCY_PLUGIN_VERSION"])

        def make(folder: Path) -> None:
            with tempfile.TemporaryDirectory(prefix="databus-apicurio-") as temporary:
                copy_dependencies(download, Path(temporary), context.progress)
                with tarfile.open(next(Path(temporary).glob("*.tar.gz"))) as content:
                    content.extractall(folder, filter="data")

        return cached_folder(f"apicurio-{version}", download.recipe, make)

    def prepare(self, context: Context) -> None:
        """Make the data folder."""
        context.data.mkdir(parents=True, exist_ok=True)

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return the command of its one process."""
        jar = next(context.installation.rglob("*-runner.jar"), None)
        if jar is None:
            raise SandboxError(f"{context.installation} holds no *-runner.jar", hint="Delete the folder and try again.")
        settings = {
            "quarkus.http.host": context.host,
            "quarkus.http.port": context.ports["http"],
            "quarkus.datasource.jdbc.url": f"jdbc:h2:file:{context.data / 'registry'}",
            "apicurio.ccompat.legacy-id-mode.enabled": "true",
        }
        argv = [str(packages.require_java()), "-Xmx384m", "-XX:+UseSerialGC"]
        argv += [f"-D{key}={value}" for key, value in settings.items()]
        return (Command("server", (*argv, "-jar", str(jar)), context.folder, context.logs / "server.log"),)

    def check_health(self, context: Context) -> None:
        """The list of subjects can be read."""
        if not isinstance(get_json(context.host, context.ports["http"], "/apis/ccompat/v7/subjects"), list):
            raise NotHealthyError("the list of subjects is no list")


APICURIO = Apicurio("apicurio", {"http": 19085})
