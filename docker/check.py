"""Checks docker/ without a docker engine: `make docker-check`.

The compose file is loaded by the library of docker compose itself (docker/composecheck), Dockerfiles are read by
hadolint, shell scripts by shellcheck. What those three cannot see is checked here: that everything a build or a mount
takes from the project is there. A tool that cannot run is a failure, never a skip.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

DOCKER = Path(__file__).resolve().parent
ROOT = DOCKER.parent
VERSIONS = ROOT / "include" / "databus" / "sandbox" / "versions.env"
_OPTION = re.compile(r"^--[a-z-]+(=.*)?$")
_CONTINUATION = re.compile(r"\\\s*\n")


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile.

    Attributes:
        name: upper case, for example "COPY".
        options: words that start with `--`, for example "--from=java".
        words: the other words.
    """

    name: str
    options: tuple[str, ...]
    words: tuple[str, ...]


def parse_dockerfile(text: str) -> list[Instruction]:
    """Instructions of a Dockerfile in order; comments left out, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    instructions = []
    for line in _CONTINUATION.sub(" ", "\n".join(lines)).splitlines():
        name, *rest = line.split()
        options = tuple(word for word in rest if _OPTION.match(word))
        words = tuple(word for word in rest if word not in options)
        instructions.append(Instruction(name.upper(), options, words))
    return instructions


def is_ignored(source: str, patterns: Sequence[str]) -> bool:
    """Whether .dockerignore keeps `source`, relative to the context, from the build: the last match decides."""
    parts = Path(source).parts
    candidates = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    ignored = False
    for raw in patterns:
        pattern = raw.removeprefix("!").removeprefix("**/").rstrip("/")
        if any(fnmatchcase(candidate, pattern) for candidate in candidates):
            ignored = not raw.startswith("!")
    return ignored


def copy_defects(dockerfile: str, instructions: Sequence[Instruction], context: Path) -> Iterator[str]:
    """Sources of COPY and ADD that the build would not find."""
    ignore_file = context / ".dockerignore"
    lines = ignore_file.read_text(encoding="utf-8").splitlines() if ignore_file.exists() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    for instruction in instructions:
        from_stage = any(option.startswith("--from=") for option in instruction.options)
        if instruction.name not in {"COPY", "ADD"} or from_stage:
            continue
        for source in instruction.words[:-1]:
            path = context / source
            if not path.exists() or (path.is_dir() and not any(path.iterdir())):
                yield f"{dockerfile}: {instruction.name} {source}: not in the project, or an empty folder"
            elif is_ignored(source, patterns):
                yield f"{dockerfile}: {instruction.name} {source}: left out by .dockerignore"


def argument_defects(dockerfile: str, instructions: Sequence[Instruction], given: Mapping[str, str]) -> Iterator[str]:
    """Build arguments that are declared without a value and not given, or given and not declared."""
    declared = {word.partition("=")[0]: "=" in word for i in instructions if i.name == "ARG" for word in i.words}
    for name, has_default in declared.items():
        if not has_default and not given.get(name):
            yield f"{dockerfile}: ARG {name} has no value: add it to build.args in compose.yaml"
    for name in given:
        if name not in declared:
            yield f"{dockerfile}: build.args has {name}, which no ARG declares"


def build_defects(project: Mapping[str, Any]) -> Iterator[str]:
    """Defects of every distinct build of the project."""
    builds = [service["build"] for service in project["services"].values() if service.get("build")]
    for build in {json.dumps(build, sort_keys=True): build for build in builds}.values():
        context = Path(build["context"])
        dockerfile = build.get("dockerfile", "Dockerfile")
        if not (context / dockerfile).is_file():
            yield f"{dockerfile}: no such file in {context}"
            continue
        instructions = parse_dockerfile((context / dockerfile).read_text(encoding="utf-8"))
        yield from copy_defects(dockerfile, instructions, context)
        yield from argument_defects(dockerfile, instructions, build.get("args") or {})


def mount_defects(project: Mapping[str, Any]) -> Iterator[str]:
    """Bind mounts of what is not there: docker would make an empty folder of that name."""
    for name, service in project["services"].items():
        for mount in service.get("volumes") or []:
            if mount["type"] == "bind" and not Path(mount["source"]).exists():
                yield f"{name}: mounts {mount['source']}, which does not exist"


def health_defects(project: Mapping[str, Any]) -> Iterator[str]:
    """Services that run on and have no health check: nothing could wait for them."""
    one_shot = {
        needed
        for service in project["services"].values()
        for needed, how in (service.get("depends_on") or {}).items()
        if how["condition"] == "service_completed_successfully"
    }
    for name, service in project["services"].items():
        if name not in one_shot and not service.get("healthcheck"):
            yield f"{name}: has no healthcheck"


def version_defects(compose: str, versions: str) -> Iterator[str]:
    """Versions in a second place: a tag written out, a name that nobody defines."""
    keys = {line.partition("=")[0] for line in versions.splitlines() if "=" in line and not line.startswith("#")}
    for image in re.findall(r"^\s*image:\s*(\S+)", compose, flags=re.MULTILINE):
        used = set(re.findall(r"\$\{(\w+)\}", image))
        if not used or not used <= keys:
            yield f"image {image}: take its version from {VERSIONS.name}, as ${{NAME_VERSION}}"


def run_tool(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Run a linter; returns its output, and its findings as lines (none when it exits with 0)."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError as error:
        return "", [f"{argv[0]} cannot run: {error}"]
    if done.returncode == 0:
        return done.stdout, []
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.stdout, lines or [f"{argv[0]} ended with exit code {done.returncode}"]


def report(title: str, defects: Sequence[str]) -> bool:
    """Print the outcome of one check; whether it is clean."""
    print(f"{'FAIL' if defects else 'ok  '}  {title}")
    for defect in defects:
        print(f"      {defect}")
    return not defects


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every check; 0 when all are clean."""
    parser = argparse.ArgumentParser(description="Check docker/ without a docker engine.")
    parser.add_argument("--composecheck", required=True, help="program built from docker/composecheck")
    parser.add_argument("--hadolint", required=True, help="the Dockerfile linter")
    parser.add_argument("--shellcheck", required=True, help="the shell script linter")
    options = parser.parse_args(arguments)

    compose = DOCKER / "compose.yaml"
    env_files = [VERSIONS, DOCKER / "secrets.env.example"]
    given = [word for file in env_files for word in ("-env-file", str(file))]
    output, defects = run_tool([options.composecheck, *given, str(compose)])
    clean = [report("compose.yaml loads: schema, references, every ${VARIABLE} has a value", defects)]
    if not defects:
        project = json.loads(output)
        checks: dict[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
            "what the images copy is in the project; build arguments match": build_defects,
            "what is mounted from the project is there": mount_defects,
            "every service has a health check": health_defects,
        }
        clean += [report(title, list(check(project))) for title, check in checks.items()]
    texts = [path.read_text(encoding="utf-8") for path in (compose, VERSIONS)]
    clean.append(report("versions stand in one place", list(version_defects(*texts))))
    for dockerfile in sorted(DOCKER.glob("Dockerfile.*")):
        _, defects = run_tool([options.hadolint, "--config", str(DOCKER / ".hadolint.yaml"), str(dockerfile)])
        clean.append(report(f"hadolint {dockerfile.name}", defects))
    for script in [*sorted(DOCKER.glob("*.sh")), ROOT / ".ci" / "run"]:
        _, defects = run_tool([options.shellcheck, str(script)])
        clean.append(report(f"shellcheck {script.name}", defects))
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
