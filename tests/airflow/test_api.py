"""Routes × roles in Airflow's own application, whose auth manager hides DAGs: none is open; the log of events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.e2e.hidden_till import OUTSIDER, PREFIX

pytestmark = pytest.mark.airflow

ROOT = Path(__file__).parents[2]
ROLES = {"viewer": "viewer", "user": "user", "admin": "admin", OUTSIDER: "viewer", "nobody": ""}
DAG = f"{PREFIX}of_the_shop"

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
    dag = flow_dag(flow, dag_id=DAG, backfill_every=None)
    with create_session() as session:
        session.merge(DagBundleModel(name="b"))
        session.commit()
        lazy = [LazyDeserializedDAG.from_dag(dag)]
        errors = {}
        update_dag_parsing_results_in_db("b", None, lazy, errors, None, set(), session)
    assert not errors, errors
    told = {"same": api.flow_of(DAG).flow == flow, "none": api.flow_of("orders")}
    api.note("ada", DAG, "databus_rewind", {"reason": "a bad deploy"})
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
        if isinstance(route, APIRoute):
            values = dict.fromkeys(route.param_convertors, "none") | {"dag_id": DAG}
            path = "/databus" + route.path_format.format(**values)
            for method in sorted(route.methods):
                answers = {}
                for user, token in tokens.items():
                    headers = {"Authorization": f"Bearer {token}"} if token else {}
                    answers[user] = TestClient(app).request(method, path, headers=headers).status_code
                told["routes"].append([method, path, answers])
    definitions = "/databus/api/v1/definitions"
    told["listed"], told["by_session"] = {}, {}
    for user in ("viewer", OUTSIDER):
        headers = {"Authorization": f"Bearer {tokens[user]}"}
        listed = TestClient(app).get(definitions, headers=headers).json()["items"]
        told["listed"][user] = [item["dag_id"] for item in listed]
        by_cookie = TestClient(app, cookies={"_token": tokens[user]})
        told["by_session"][user] = by_cookie.get(f"/databus/api/v1/dags/{DAG}/definition").status_code
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
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.e2e.hidden_till.HiddenTill",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in ROLES.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "DATABUS_RECORDS_URL": f"sqlite:///{tmp_path / 'records.db'}",
        "PYTHONPATH": str(ROOT),
        "_AIRFLOW_PROCESS_CONTEXT": "server",
    }
    script = tmp_path / "ask.py"  # a file: Airflow stores the code that a DAG comes from
    given = f"PASSWORDS, DAG, OUTSIDER = {str(passwords)!r}, {DAG!r}, {OUTSIDER!r}"
    script.write_text(f"{given}\n{textwrap.dedent(_ASK)}")
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
        assert answers[OUTSIDER] == (403 if DAG in path else answers["viewer"]), (method, path, answers)
    assert (told["listed"]["viewer"], told["listed"][OUTSIDER]) == ([DAG], [])
    assert told["by_session"][OUTSIDER] == 403
    assert told["by_session"]["viewer"] in {200, 404}
