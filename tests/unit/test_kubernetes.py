"""docker/kubernetes: what its files share with one another, with the images and with the code; the checker's failures.

Helm and kubeconform themselves run in `make kubernetes-check`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from databus.connections.environment import EnvironmentConnections
from databus.core.settings import Settings
from databus.sandbox.versions import load_versions

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
FOLDER = DOCKER / "kubernetes"
PAGE = ROOT / "docs" / "install" / "airflow-chart.md"


def loaded(path: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / path).read_text())
    return found


def airflow() -> dict[str, Any]:
    return loaded("airflow-values.yaml")


def chart_values() -> dict[str, Any]:
    return loaded("chart/values.yaml")


def templates() -> str:
    return "\n".join(path.read_text() for path in sorted((FOLDER / "chart" / "templates").iterdir()))


def secrets() -> dict[str, str]:
    lines = (FOLDER / "secrets.env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.fixture(scope="module")
def check() -> ModuleType:
    found = None
    for name in ("check", "check_kubernetes"):
        spec = importlib.util.spec_from_file_location(name, DOCKER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        # The second imports the first by its name, as scripts of one folder do.
        sys.modules[name] = found
        spec.loader.exec_module(found)
    assert found is not None
    return found


def test_images_carry_the_versions_of_the_sandbox() -> None:
    versions = load_versions()
    values = chart_values()
    assert values["zookeeper"]["image"] == f"zookeeper:{versions['ZOOKEEPER_VERSION']}"
    assert values["spark"]["image"] == f"databus-spark:{versions['SPARK_VERSION']}"
    image = airflow()["images"]["airflow"]
    assert f"{image['repository']}:{image['tag']}" == f"databus-airflow:{versions['AIRFLOW_VERSION']}"
    assert airflow()["airflowVersion"] == versions["AIRFLOW_VERSION"]


def test_the_page_builds_these_images() -> None:
    text, versions = PAGE.read_text(), load_versions()
    assert f"databus-airflow:{versions['AIRFLOW_VERSION']}" in text
    assert f"databus-spark:{versions['SPARK_VERSION']}" in text
    for name in ("AIRFLOW_VERSION", "PYTHON_VERSION", "JAVA_VERSION"):
        assert f"--build-arg {name}={versions[name]}" in text


def test_what_airflow_mounts_is_what_the_chart_makes() -> None:
    claims = {volume["persistentVolumeClaim"]["claimName"] for volume in airflow()["volumes"]}
    assert claims == {"databus-segments"}
    assert "claimName: databus-segments" in templates()
    paths = {mount["mountPath"]: mount["subPath"] for mount in airflow()["volumeMounts"]}
    image = (DOCKER / "Dockerfile.airflow").read_text()
    environment = {entry["name"]: entry["value"] for entry in airflow()["env"]}
    assert paths == {chart_values()["segments"]["store"]: "segments", "/var/cache/databus/numba": "numba"}
    assert environment["DATABUS_SEGMENT_STORE"] == chart_values()["segments"]["store"]
    assert "NUMBA_CACHE_DIR=/var/cache/databus/numba" in image
    assert "mountPath: /var/cache/databus/numba\n  subPath: numba" in templates()


def test_connections_name_services_of_the_chart() -> None:
    services = set(re.findall(r"kind: Service\nmetadata:\n  name: ([\w-]+)", templates()))
    connections = EnvironmentConnections(secrets())
    assert connections.get("zookeeper_default").host in services
    assert connections.get("spark_connect_default").host.removeprefix("sc://") in services
    assert connections.get("spark_connect_default").port == 15002
    notes = (FOLDER / "chart" / "templates" / "NOTES.txt").read_text()
    for conn_id in ("ZOOKEEPER_DEFAULT", "SPARK_CONNECT_DEFAULT"):
        assert secrets()[f"AIRFLOW_CONN_{conn_id}"] in notes


def test_every_connection_of_the_image_s_flows_is_in_the_example() -> None:
    named = {
        conn_id
        for file in (ROOT / "dags").glob("*.py")
        for conn_id in re.findall(r'conn_id="(\w+)"', file.read_text(encoding="utf-8"))
    }
    known = EnvironmentConnections(secrets()).known()
    # The mirror's DAG is paused until somebody has a second Kafka.
    assert named - set(known) == {"kafka_west"}
    for conn_id in known:
        assert json.loads(secrets()[f"AIRFLOW_CONN_{conn_id.upper()}"])["conn_type"]


def test_secrets_that_are_named_are_made_by_the_page() -> None:
    made = set(re.findall(r"kubectl create secret generic ([\w-]+)", PAGE.read_text()))
    values = airflow()
    named = {values["data"]["metadataSecretName"], *(values[key] for key in values if key.endswith("SecretName"))}
    named |= {entry["secretRef"]["name"] for entry in yaml.safe_load(values["extraEnvFrom"])}
    assert named == made


def test_variables_are_known_to_databus_and_airflow() -> None:
    from airflow.configuration import conf

    given = {entry["name"]: entry["value"] for entry in airflow()["env"]} | secrets()
    settings = Settings.from_environment(given)
    assert settings.installation == "kubernetes"
    assert settings.records_url.startswith("postgresql+psycopg://")
    ours = {name for name in given if name.startswith("DATABUS_")}
    assert ours == {"DATABUS_INSTALLATION", "DATABUS_SEGMENT_STORE", "DATABUS_RECORDS_URL"}
    for name in sorted(name for name in given if name.startswith("AIRFLOW__")):
        section, _, key = name.removeprefix("AIRFLOW__").lower().partition("__")
        assert key in conf.configuration_description[section]["options"], name
    for section, options in airflow()["config"].items():
        assert set(options) <= set(conf.configuration_description[section]["options"])


def test_the_auth_manager_is_installed() -> None:
    module, _, name = airflow()["config"]["core"]["auth_manager"].rpartition(".")
    assert importlib.util.find_spec(module) is not None, name


def test_roles_of_spark_are_those_of_its_entrypoint() -> None:
    entrypoint = (DOCKER / "spark-entrypoint.sh").read_text()
    roles = set(re.findall(r"args: \[(\w+)\]|args:\n +- (\w+)", templates()))
    assert {first or second for first, second in roles} == {"master", "worker", "connect"}
    for name in re.findall(r"name: (SPARK_\w+)", templates()):
        assert f"${{{name}:-" in entrypoint, name


def test_user_and_group_are_those_of_the_images() -> None:
    assert "--uid 50000 --gid 0" in (DOCKER / "Dockerfile.spark").read_text()
    assert "USER 50000" in (DOCKER / "Dockerfile.airflow").read_text()
    assert "runAsUser: 50000\nrunAsGroup: 0" in templates()


def test_no_password_is_in_the_values() -> None:
    for path in ("airflow-values.yaml", "chart/values.yaml"):
        assert not re.search(r"(?i)password|://\w+:\w+@", (FOLDER / path).read_text())


def test_every_key_of_values_is_used_and_every_use_has_a_value() -> None:
    def paths(values: dict[str, Any], before: str = "") -> set[str]:
        found = set()
        for key, value in values.items():
            nested = isinstance(value, dict) and key != "resources"
            found |= paths(value, f"{before}{key}.") if nested else {f"{before}{key}"}
        return found

    used = set(re.findall(r"\.Values\.([\w.]+)", templates()))
    assert used == paths(chart_values())


def test_a_tool_that_is_missing_or_finds_something_is_a_failure(check: ModuleType, tmp_path: Path) -> None:
    gone, empty = check.Tools(str(tmp_path / "helm"), "/bin/true", tmp_path, "1.37.0"), check.Tools(
        "/bin/true", "/bin/false", tmp_path, "1.37.0"
    )  # fmt: skip
    assert "cannot run" in check.chart_defects(gone, check.CHART, ())[0]
    assert check.chart_defects(empty, check.CHART, ()) == ["chart: renders no object"]


def test_schemas_refer_to_one_another_beside_each_other(check: ModuleType, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    with pytest.raises(SystemExit, match="no schemas"):
        check.copy_schemas(source, target)
    (source / "service-v1.json").write_text(
        '{"$id": "https://kubernetes.io/api/service/v1", "$ref": "/api/_definitions.json#/$defs/x"}'
    )
    check.copy_schemas(source, target)
    assert json.loads((target / "service-v1.json").read_text()) == {"$ref": "_definitions.json#/$defs/x"}


def test_an_object_that_kubeconform_refuses_fails_the_check(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    helm = tmp_path / "helm"
    helm.write_text('#!/bin/bash\n[ "$1" = lint ] || echo "kind: Service"\n')
    helm.chmod(0o755)
    kubeconform = tmp_path / "kubeconform"
    kubeconform.write_text("#!/bin/bash\necho refused; exit 1\n")
    kubeconform.chmod(0o755)
    (tmp_path / "service-v1.json").write_text("{}")
    given = ["--schemas", str(tmp_path), "--kubernetes-version", "1.37.0", "--helm", str(helm)]
    assert check.main([*given, "--kubeconform", "/bin/true"]) == 0
    assert check.main([*given, "--kubeconform", str(kubeconform)]) == 1
    told = capsys.readouterr().out
    assert "FAIL  chart with cluster-values.yaml" in told
    assert "refused" in told


def test_airflow_s_chart_is_checked_where_it_is_given(check: ModuleType, tmp_path: Path) -> None:
    log = tmp_path / "log"
    helm = tmp_path / "helm"
    helm.write_text(f'#!/bin/bash\necho "$@" >> {log}\n[ "$1" = lint ] || echo "kind: Service"\n')
    helm.chmod(0o755)
    (tmp_path / "service-v1.json").write_text("{}")
    given = ["--schemas", str(tmp_path), "--kubernetes-version", "1.37.0", "--helm", str(helm)]
    assert check.main([*given, "--kubeconform", "/bin/true", "--airflow-chart", str(tmp_path / "airflow")]) == 0
    told = log.read_text()
    assert f"lint --strict --quiet {tmp_path / 'airflow'} --values {FOLDER / 'airflow-values.yaml'}" in told


def test_what_airflow_s_chart_takes_is_there_or_made(check: ModuleType) -> None:
    there = check.beforehand()
    assert there["claim"] == {"databus-segments"}
    assert there["secret"] >= {"databus-env", "databus-metadata", "databus-fernet", "databus-api", "databus-jwt"}
    pod = """---
kind: Pod
metadata:
  name: scheduler
spec:
  - secretRef:
      name: databus-env
  - secretKeyRef:
      key: connection
      name: databus-metadata
  - secretKeyRef:
      name: {secret}
      key: jwt-secret
  - secretName: "airflow-own"
  - claimName: {claim}
---
kind: Secret
metadata:
  name: airflow-own
"""
    assert list(check.name_defects(pod.format(secret="databus-jwt", claim="databus-segments"), there)) == []
    defects = list(check.name_defects(pod.format(secret="other", claim="logs"), there))
    assert [defect.split(" is ")[0] for defect in defects] == ["secret other", "claim logs"]
    (defect,) = check.name_defects("exec \\\n airflow users create", there)
    assert "createUserJob.enabled" in defect
