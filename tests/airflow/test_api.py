"""Routes × roles in Airflow's own application, with its auth manager: none is open; a DAG's flow, the log of events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.airflow

ROLES = {"viewer": "viewer", "user": "user", "admin": "admin", "nobody": ""}
DAG = "of_the_shop"

_ASK = """
    import json, warnings
    warnings.simplefilter("ignore")
    from airflow.utils.db import initdb
    initdb()
    from airflow.dag_processing.collection import update_dag_parsing_results_in_db
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.log import Log
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session
    from databus import Flow, Kafka, MysqlBinlog
    from databus.airflow import api, flow_dag, plugin
    flow = Flow(
        name="orders", source=MysqlBinlog(conn_id="m", tables=("shop.orders",)), sinks=(Kafka(conn_id="k", topic="t"),)
    )
    dag = flow_dag(flow, dag_id="of_the_shop", backfill_every=None)
    with create_session() as session:
        session.merge(DagBundleModel(name="b"))
        session.commit()
        lazy = [LazyDeserializedDAG.from_dag(dag)]
        errors = {}
        update_dag_parsing_results_in_db("b", None, lazy, errors, None, set(), session)
    assert not errors, errors
    told = {"same": api.flow_of("of_the_shop").flow == flow, "none": api.flow_of("orders")}
    api.note("ada", "of_the_shop", "databus_rewind", {"reason": "a bad deploy"})
    with create_session() as session:
        found = session.query(Log).filter(Log.event == "databus_rewind").one()
        told["noted"] = [found.owner, found.dag_id, json.loads(found.extra)]
    from airflow.api_fastapi.app import create_app
    from fastapi.routing import APIRoute
    from fastapi.testclient import TestClient
    app = create_app(apps="core")
    passwords = json.loads(open(PASSWORDS).read())
    tokens = {"": None, "forged": "forged"}
    for user, password in passwords.items():
        login = {"username": user, "password": password}
        tokens[user] = TestClient(app).post("/auth/token", json=login).json()["access_token"]
    told["routes"] = []
    for route in plugin.DatabusPlugin.fastapi_apps[0]["app"].app.routes:
        if isinstance(route, APIRoute) and "run_id" not in route.path:
            path = "/databus" + route.path_format.format(dag_id="of_the_shop")
            for method in sorted(route.methods):
                answers = {}
                for user, token in tokens.items():
                    headers = {"Authorization": f"Bearer {token}"} if token else {}
                    answers[user] = TestClient(app).request(method, path, headers=headers).status_code
                told["routes"].append([method, path, answers])
    print("@" + json.dumps(told))
"""


EDITING = (
    *("/images", "/quarantine/rows", "/quarantine/export", "/quarantine/held", "/peek"),
    *("/plan", "/doctor", "/ledger/verification"),
)
"""Routes that show values of rows, or open the servers of a flow as a preview does."""


def test_every_route_asks_airflow_who_comes(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords.json"
    passwords.write_text(json.dumps({user: f"secret-{user}" for user in ROLES}))
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path / 'airflow.db'}",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in ROLES.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "DATABUS_RECORDS_URL": f"sqlite:///{tmp_path / 'records.db'}",
        "_AIRFLOW_PROCESS_CONTEXT": "server",
    }
    script = tmp_path / "ask.py"  # a file: Airflow stores the code that a DAG comes from
    script.write_text(f"PASSWORDS = {str(passwords)!r}\n{textwrap.dedent(_ASK)}")
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("@")]
    assert lines, done.stderr[-3000:]
    told = json.loads(lines[0][1:])
    assert (told["same"], told["none"]) == (True, None)
    assert told["noted"] == ["ada", DAG, {"reason": "a bad deploy"}]
    assert len(told["routes"]) > 30
    for method, path, answers in told["routes"]:
        assert (answers[""], answers["forged"], answers["nobody"]) == (401, 403, 403), (method, path)
        # Behind the guard misses a server (503), a mirror (422), a recorded flow (404), or an action its body (415).
        for user in ("user", "admin"):
            assert answers[user] in ({415} if method == "POST" else {200, 404, 422, 503}), (method, path, answers)
        refused = method == "POST" or path.endswith(EDITING)
        assert answers["viewer"] == (403 if refused else answers["user"]), (method, path, answers)
