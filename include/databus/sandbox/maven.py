"""Java libraries from Maven repositories: a pom is rendered and Maven copies the closure of its dependencies.

Which hosts serve them is decided by the local Maven settings, never here.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET  # only builds documents here, never reads foreign ones

from databus.core.errors.config import SandboxError
from databus.sandbox import packages
from databus.sandbox.cache import cached_folder
from databus.sandbox.progress import Progress, ProgressEvent, ProgressStep

_NAMESPACE = "http://maven.apache.org/POM/4.0.0"
_DOWNLOADED = re.compile(r"Downloaded from \S+: \S*/(?P<file>[^/\s]+) \((?P<size>[^)]+?) at ")


@dataclass(frozen=True)
class Artifact:
    """Coordinates of one artifact.

    Attributes:
        group: groupId.
        name: artifactId.
        version: exact version; ranges are refused by choice, since the newest is sometimes only half there.
        packaging: file type.
        classifier: variant of the file.
        transitive: whether what it depends on is wanted too.
    """

    group: str
    name: str
    version: str
    packaging: str = "jar"
    classifier: str = ""
    transitive: bool = True


def render_pom(name: str, artifacts: Sequence[Artifact]) -> str:
    """A pom without code that depends on `artifacts` (POM reference 4.0.0)."""
    project = ET.Element("project", xmlns=_NAMESPACE)
    for tag, text in (
        ("modelVersion", "4.0.0"),
        ("groupId", "databus.sandbox"),
        ("artifactId", name),
        ("version", "1"),
        ("packaging", "pom"),
    ):
        ET.SubElement(project, tag).text = text
    dependencies = ET.SubElement(project, "dependencies")
    for artifact in artifacts:
        dependency = ET.SubElement(dependencies, "dependency")
        fields = (
            ("groupId", artifact.group),
            ("artifactId", artifact.name),
            ("version", artifact.version),
            ("type", "" if artifact.packaging == "jar" else artifact.packaging),
            ("classifier", artifact.classifier),
        )
        for tag, text in fields:
            if text:
                ET.SubElement(dependency, tag).text = text
        if not artifact.transitive:
            # Left out of the resolution itself: a pom further down may name a repository that cannot be reached.
            exclusion = ET.SubElement(ET.SubElement(dependency, "exclusions"), "exclusion")
            ET.SubElement(exclusion, "groupId").text = "*"
            ET.SubElement(exclusion, "artifactId").text = "*"
    ET.indent(project)
    return ET.tostring(project, encoding="unicode") + "\n"


@dataclass(frozen=True)
class Download:
    """Download to fetch.

    Attributes:
        server: name of the server, for progress and messages.
        artifacts: the direct dependencies.
        plugin_version: version of maven-dependency-plugin.
    """

    server: str
    artifacts: tuple[Artifact, ...]
    plugin_version: str

    @property
    def recipe(self) -> str:
        """Recipe: all that decides what comes down."""
        return render_pom(self.server, self.artifacts)


def copy_dependencies(download: Download, folder: Path, progress: Progress) -> None:
    """Put all files of `download` into `folder`.

    Raises:
        SandboxError: Maven is missing or failed; the message ends with its last lines.
    """
    packages.require_java()
    maven = packages.require(packages.MAVEN)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="databus-maven-") as temporary:
        pom = Path(temporary) / "pom.xml"
        pom.write_text(render_pom(download.server, download.artifacts), encoding="utf-8")
        argv = [str(maven), "--batch-mode", "--file", str(pom)]
        argv += [f"org.apache.maven.plugins:maven-dependency-plugin:{download.plugin_version}:copy-dependencies"]
        argv += [f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
        _run(argv, download.server, progress)


def libraries(download: Download, version: str, progress: Progress) -> Path:
    """Return the folder of an installation that is libraries alone, below "libs"; fetched once and kept.

    Raises:
        SandboxError: as `copy_dependencies`.
    """
    return cached_folder(
        f"{download.server}-{version}",
        download.recipe,
        lambda folder: copy_dependencies(download, folder / "libs", progress),
    )


def _run(argv: Sequence[str], server: str, progress: Progress) -> None:
    tail: deque[str] = deque(maxlen=40)
    files = 0
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as maven:
        if maven.stdout is None:
            raise SandboxError(f"{server}: Maven gave no output")
        for line in maven.stdout:
            tail.append(line.rstrip())
            if (match := _DOWNLOADED.search(line)) is not None:
                files += 1
                detail = f"{match['file']} ({match['size']})"
                progress(ProgressEvent(server, ProgressStep.INSTALL, detail, done=files))
    if maven.returncode != 0:
        errors = [line for line in tail if line.startswith("[ERROR]")] or list(tail)
        raise SandboxError(
            f"{server}: Maven could not fetch its libraries:\n" + "\n".join(errors[:6]),
            hint="Check the network and ~/.m2/settings.xml (mirrors, proxies), then run the command again.",
            code="sandbox_download_failed",
        )
