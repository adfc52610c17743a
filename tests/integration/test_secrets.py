"""Secrets: after runs that work and runs that fail, nothing that is left anywhere holds one."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard
from kazoo.exceptions import NoNodeError

from databus import Flow, __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.connections import Connection
from databus.core.errors import DatabusError
from databus.core.flow_specs import FlowContext
from databus.ops.health.doctor import examine_flow
from databus.ops.health.preflight import preflight, require_passed
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.records.lineage.datasets import declared, namespace_of
from databus.runtime.context import RunIdentity
from databus.runtime.spark.session import connect_session
from databus.runtime.window_limits import WindowControl, WindowLimits
from databus.sinks.elasticsearch.client import connect
from tests.collecting import collect_garbage
from tests.integration.secured_world import CONN_IDS, SecuredShop, SecuredWorld, walk

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(900)]


class Needles:
    """The secrets in every form in which they could lie about."""

    def __init__(self, secrets: Iterable[str]):
        self.forms: dict[bytes, str] = {}
        for secret in secrets:
            raw = secret.encode()
            assert len(raw) > 20
            for form in (raw, raw.hex().encode(), secret.encode("utf-16-le"), *in_base64(raw)):
                self.forms[form] = secret

    def found_in(self, data: bytes) -> list[str]:
        return [secret for form, secret in self.forms.items() if form in data]


def in_base64(raw: bytes) -> Iterator[bytes]:
    """Yield what every base64 text that encodes `raw` somewhere within must contain, whatever stands before it."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw)
        yield text[-(-before * 4 // 3) + (1 if before else 0) : len(text) - 4]


def test_the_needles_find_what_is_hidden() -> None:
    secret = "Pw0123456789abcdef0123"
    needles = Needles([secret])
    for n in range(3):
        text = base64.b64encode(b"x" * n + f"login:{secret}@host".encode())
        assert needles.found_in(b"noise" + text) == [secret]
    assert needles.found_in(f"a{secret}b".encode()) == [secret]
    assert needles.found_in(secret[:-1].encode()) == []


class Scene:
    """Runs flows in this process and keeps everything that is said."""

    def __init__(self, world: SecuredWorld, log: Path):
        self.world = world
        self.log = log

    def run(self, flow: Flow, connections: EnvironmentConnections | None = None) -> DatabusError | None:
        """Run a window; an error is written down as a task log would show it, with all its causes."""
        source = connections or self.world.connections
        control = WindowControl(WindowLimits(max_seconds=120, until_caught_up=True, lease_wait_s=5))
        try:
            with open_services(flow, source, self.world.settings) as services:
                require_passed(flow, preflight(flow, services))
                spark = connect_session(f"sc://{self.world.sandbox.address('spark')}", f"secrets/{flow.name}")
                try:
                    run_flow(flow, services, spark, RunIdentity("secrets-1", "", __version__), control)
                finally:
                    collect_garbage()
        except DatabusError as error:
            with self.log.open("a") as out:
                traceback.print_exception(error, file=out)
                out.write(f"{error!r} {error} {error.__dict__} {pickle.dumps(error)!r}\n")
            return error
        return None


@pytest.fixture
def scene(secured: SecuredWorld, tmp_path: Path) -> Iterator[Scene]:
    """A place where all loggers of this process write at DEBUG."""
    root, handler = logging.getLogger(), logging.FileHandler(tmp_path / "process.log")
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield Scene(secured, tmp_path / "errors.log")
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        handler.close()


def fail_in_many_ways(scene: Scene, shop: SecuredShop) -> None:
    """Make each server refuse, one executor fail in mid-batch, and a connection be unreadable."""
    world = scene.world
    for role, base, code in (
        ("kafka", "kafka_secured", "sink_access_denied"),
        ("search", "opensearch_secured", "sink_access_denied"),
        ("source", "mysql_secured", "source_access_denied"),
        ("zookeeper", "zookeeper_secured", "checkpoint_access_denied"),
    ):
        name = world.override(base, f"refused_{role}", password=world.wrong(role))
        error = scene.run(shop.flow(**{role: name}))
        assert error is not None
        assert error.code == code
    name = world.override("kafka_secured", "refused_setting", {"ssl.key.pem": world.wrong("pem")})
    assert scene.run(shop.flow(kafka=name)) is not None
    word = world.wrong("text")
    broken = EnvironmentConnections(
        {**world.environment, "AIRFLOW_CONN_MYSQL_SECURED": f'{{"password": "{word}", "conn_type": "mysql",'}
    )
    assert scene.run(shop.flow(), broken) is not None
    typed = json.dumps({"conn_type": "mysql", "host": "h", "port": word})
    assert scene.run(shop.flow(), EnvironmentConnections({**world.environment, "AIRFLOW_CONN_MYSQL_SECURED": typed}))
    fail_in_an_executor(scene, shop)


def fail_in_an_executor(scene: Scene, shop: SecuredShop) -> None:
    """Block the index between preflight and the batch that comes later."""
    connection = scene.world.connections.get("opensearch_secured")
    index = f"{shop.name}-orders"
    with connect(connection) as client:
        client.indices.put_settings(index=index, body={"index.blocks.read_only": True})
        try:
            shop.writer.run(20)
            flow = shop.flow()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("tests.integration.test_secrets.preflight", lambda *_: [])
                error = scene.run(flow)
            assert error is not None
            assert error.code.startswith("sink_")
        finally:
            client.indices.put_settings(index=index, body={"index.blocks.read_only": None})
    assert scene.run(flow) is None  # and the same plan is finished once the block is gone


def test_no_secret_is_left_anywhere(
    secured: SecuredWorld, secured_shop: SecuredShop, scene: Scene, tmp_path: Path
) -> None:
    fail_in_many_ways(scene, secured_shop)
    flow = secured_shop.flow()
    (tmp_path / "objects.log").write_text("\n".join(objects(secured, flow)))
    (tmp_path / "lineage.log").write_text("\n".join(lineage(secured, flow)))
    (tmp_path / "doctor.log").write_text("\n".join(map(repr, examine_flow(flow, secured.connections))))
    (tmp_path / "spark-ui.log").write_text("\n".join(spark_pages(secured)))
    needles = Needles(secured.secrets)
    leaks = {str(path): found for path in left_behind(secured, tmp_path) if (found := needles.found_in(content(path)))}
    for node, data in znodes(secured):
        if found := needles.found_in(node.encode() + b" " + data):
            leaks[f"znode {node}"] = found
    assert leaks == {}


def left_behind(world: SecuredWorld, folder: Path) -> Iterator[Path]:
    """Yield every file of the run: logs, reports, segments, Spark's events and temporary files, what servers wrote.

    Left out is what holds secrets by its nature and is readable by its owner alone: the sandbox's own password files,
    and the broker's configuration, which names the accounts it accepts.
    """
    seen = 0
    roots = (world.home, world.home.parent / "spark-events", folder)
    # Databases' own files of 100 MB and more hold what the accounts' SQL left there: hashes.
    left_out = (world.home / "tls", world.home / "mysql-tls", world.home / "mariadb-tls")
    for root in roots:
        for path in root.rglob("*"):
            own = path == world.home / "kafka-tls" / "node-1.properties" or any(map(path.is_relative_to, left_out))
            if path.is_file() and not own:
                seen += 1
                yield path
    events = list((world.home.parent / "spark-events").rglob("events_*"))
    assert seen > 100
    assert any(b"SparkListenerJobEnd" in content(path) for path in events)
    for path in (world.home / "mysql-tls" / "log").glob("*"):
        yield path


def content(path: Path) -> bytes:
    """Return a file's bytes, unpacked where Spark packs its event log, without the zeros that servers reserve."""
    if path.suffix != ".zstd":
        return path.read_bytes().rstrip(b"\0")
    with (
        path.open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as found,
    ):
        return b"".join(iter(lambda: found.read(1 << 20), b""))


def znodes(world: SecuredWorld) -> Iterator[tuple[str, bytes]]:
    client = world.zookeeper("databus", world.known.password("zookeeper-tls"))
    try:
        nodes = list(walk(client, "/databus"))
        assert any(node.endswith("/checkpoint") for node in nodes)
        for node in nodes:
            with suppress(NoNodeError):
                yield node, client.get(node)[0]
    finally:
        client.stop()
        client.close()


def objects(world: SecuredWorld, flow: Flow) -> Iterator[str]:
    """Yield repr, str and settings of all that holds a connection."""
    found: list[Any] = [world.connections.get(conn_id) for conn_id in CONN_IDS]
    assert all(isinstance(connection, Connection) for connection in found)
    with open_services(flow, world.connections, world.settings) as services:
        context = FlowContext(flow.name, world.settings, services.server_ids)
        store: Any = services.store
        found += [services, context, store, *vars(store).values(), flow, flow.to_json()]
        source = flow.source.open(world.connections, context)
        found += [source, *vars(source).values()]
        source.close()
        plan = None
        for spec in flow.sinks:
            sink = spec.open(world.connections, context)
            found += [sink, *vars(sink).values(), sink.preflight(), plan]
            sink.close()
    for thing in found:
        yield f"{thing!r} {thing}"
        with suppress(AttributeError, TypeError):
            yield thing.model_dump_json()


def lineage(world: SecuredWorld, flow: Flow) -> Iterator[str]:
    """Yield the events' datasets, also those of hosts that were written with a login."""
    from openlineage.client.serde import Serde

    word = world.wrong("host")
    spaces = [namespace_of(world.connections.get(conn_id)) for conn_id in CONN_IDS]
    spaces.append(namespace_of(Connection(conn_id="x", conn_type="opensearch", host=f"https://me:{word}@db:9200")))
    assert spaces[-1] == "opensearch://db:9200"
    found = declared(spaces[0], ["shop.*"], {space: ["out"] for space in spaces[1:]}, flow.name)
    for dataset in (*found.inputs, *found.outputs):
        yield Serde.to_json(dataset)


def spark_pages(world: SecuredWorld) -> Iterator[str]:
    """Yield what Spark shows of the runs: its environment, plans and Connect sessions."""
    port = world.sandbox.status_of("spark").ports["ui"]
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False, follow_redirects=True
    ) as client:
        application = client.get("/api/v1/applications").json()[0]["id"]
        for path in ("environment", "sql?details=true&planDescription=true&length=1000", "jobs", "stages?details=true"):
            answer = client.get(f"/api/v1/applications/{application}/{path}")
            assert answer.status_code == 200, path
            yield answer.text
        for page in ("/environment/", "/SQL/", "/connect/", "/jobs/"):
            answer = client.get(page)
            assert answer.status_code == 200, page
            yield answer.text


def test_key_files_and_passwords_of_the_sandbox_are_its_owners_alone(secured: SecuredWorld) -> None:
    kept = [path for path in (secured.home / "tls").iterdir() if path.suffix in {".key", ".pem", ".password"}]
    public = {"ca.pem"}
    assert len(kept) > 8
    assert not [path for path in kept if path.stat().st_mode & 0o077 and path.name not in public]
    assert (secured.home / "tls" / "ca.key").stat().st_mode & 0o777 == 0o600
