"""Checks docker/kubernetes without a cluster: `make kubernetes-check`.

The chart is linted and rendered by Helm itself, with each set of values; kubeconform compares every object with the
schemas of Kubernetes that the Python package kubernetes-validate carries. Airflow's official chart is on no package
registry: where a folder or archive of it is given, it is rendered with airflow-values.yaml and compared as well.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from check import ROOT, report, run_tool

FOLDER = ROOT / "docker" / "kubernetes"
CHART = FOLDER / "chart"
AIRFLOW_VALUES = FOLDER / "airflow-values.yaml"
PAGE = ROOT / "docs" / "install" / "airflow-chart.md"

_DOCUMENT = re.compile(r"^---\s*$", re.MULTILINE)
_NAME = re.compile(r"^  name: \"?([\w.-]+)", re.MULTILINE)
_TAKEN = {
    "secret": re.compile(r"secretName: \"?([\w.-]+)|(?:secretRef|secretKeyRef):\s+(?:key: \S+\s+)?name: \"?([\w.-]+)"),
    "claim": re.compile(r"claimName: \"?([\w.-]+)"),
}
_MADE = {"secret": "kind: Secret\n", "claim": "kind: PersistentVolumeClaim\n"}


@dataclass(frozen=True)
class Tools:
    """Programs and schemas.

    Attributes:
        helm: the Helm program.
        kubeconform: the program that compares objects with schemas.
        schemas: folder of JSON schemas, named as kubeconform looks for them, e.g. deployment-apps-v1.json.
        version: Kubernetes' version of the schemas, e.g. "1.37.0".
    """

    helm: str
    kubeconform: str
    schemas: Path
    version: str


def copy_schemas(source: Path, target: Path) -> Path:
    """Copy schemas so that they refer to files beside them, not to addresses at kubernetes.io.

    Returns:
        `target`.

    Raises:
        SystemExit: there are none at `source`.
    """
    files = sorted(source.glob("*.json"))
    if not files:
        raise SystemExit(f"no schemas in {source}: install docker/kubernetes/tools/requirements.txt")
    for file in files:
        text = file.read_text(encoding="utf-8").replace('"/api/_definitions.json', '"_definitions.json')
        schema = json.loads(text)
        schema.pop("$id", None)
        (target / file.name).write_text(json.dumps(schema), encoding="utf-8")
    return target


def value_sets() -> tuple[tuple[str, ...], ...]:
    """Options of Helm for each set of values of our chart: its own, and each file of ci/ over them."""
    return ((), *(("--values", str(file)) for file in sorted((CHART / "ci").glob("*.yaml"))))


def lint_defects(tools: Tools, chart: Path, options: Sequence[str]) -> list[str]:
    """Findings of `helm lint --strict`; warnings count."""
    return run_tool([tools.helm, "lint", "--strict", "--quiet", str(chart), *options])[1]


def object_defects(tools: Tools, chart: Path, options: Sequence[str]) -> Iterator[str]:
    """Objects of the rendered chart that Kubernetes' schemas refuse, or that no schema knows."""
    rendered, defects = run_tool([tools.helm, "template", "databus", str(chart), *options])
    yield from defects
    if defects:
        return
    if "kind: " not in rendered:
        yield f"{chart.name}: renders no object"
        return
    schemas = f"{tools.schemas}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    argv = [tools.kubeconform, "-strict", "-summary", "-kubernetes-version", tools.version, "-schema-location", schemas]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(rendered)
        file.flush()
        yield from run_tool([*argv, file.name])[1]


def beforehand() -> dict[str, set[str]]:
    """Secrets that the page makes with kubectl and claims that our chart makes, before Airflow's chart is installed."""
    claims = (file.read_text(encoding="utf-8") for file in (CHART / "templates").glob("*.yaml"))
    return {
        "secret": set(re.findall(r"kubectl create secret generic ([\w-]+)", PAGE.read_text(encoding="utf-8"))),
        "claim": {name for text in claims for name in _made(text, "claim")},
    }


def _made(rendered: str, kind: str) -> set[str]:
    documents = (text for text in _DOCUMENT.split(rendered) if _MADE[kind] in text)
    return {found[1] for text in documents if (found := _NAME.search(text))}


def name_defects(rendered: str, there: dict[str, set[str]]) -> Iterator[str]:
    """Secrets and claims that pods of Airflow's chart take and nobody makes, and users made with FAB.

    Args:
        rendered: objects of the chart as YAML.
        there: kind → names that are there before.
    """
    for kind, pattern in _TAKEN.items():
        taken = {next(filter(None, found.groups())) for found in pattern.finditer(rendered)}
        for name in sorted(taken - _made(rendered, kind) - there[kind]):
            yield f"{kind} {name} is taken by a pod, and nobody makes it"
    if "airflow users create" in rendered:
        yield "a job runs `airflow users create`, which the image lacks: it has no FAB (createUserJob.enabled)"


def chart_defects(tools: Tools, chart: Path, options: Sequence[str]) -> list[str]:
    """Findings of both, for one set of values."""
    return [*lint_defects(tools, chart, options), *object_defects(tools, chart, options)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every check; 0 when all are clean."""
    parser = argparse.ArgumentParser(description="Check docker/kubernetes without a cluster.")
    parser.add_argument("--helm", required=True, help="the Helm program")
    parser.add_argument("--kubeconform", required=True, help="the program that compares objects with schemas")
    parser.add_argument("--schemas", required=True, type=Path, help="folder of Kubernetes' JSON schemas")
    parser.add_argument("--kubernetes-version", required=True, help="version of these schemas")
    parser.add_argument("--airflow-chart", type=Path, help="folder or archive of Airflow's official chart")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        schemas = copy_schemas(options.schemas, Path(folder))
        tools = Tools(options.helm, options.kubeconform, schemas, options.kubernetes_version)
        return 0 if all(outcomes(tools, options.airflow_chart)) else 1


def outcomes(tools: Tools, airflow_chart: Path | None) -> list[bool]:
    """Print the outcome of each check; whether each is clean."""
    clean = []
    for values in value_sets():
        title = Path(values[-1]).name if values else "values.yaml"
        clean.append(report(f"chart with {title}: lint, schemas", chart_defects(tools, CHART, values)))
    if airflow_chart is not None:
        values = ("--values", str(AIRFLOW_VALUES))
        rendered = run_tool([tools.helm, "template", "airflow", str(airflow_chart), *values])[0]
        defects = [*chart_defects(tools, airflow_chart, values), *name_defects(rendered, beforehand())]
        clean.append(report(f"Airflow's chart with {AIRFLOW_VALUES.name}", defects))
    return clean


if __name__ == "__main__":
    sys.exit(main())
