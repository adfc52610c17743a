"""Any request that the description allows, and many that it does not: no error of the server, and a described form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databus.web.flow_page import add_flow_page
from databus.web.trace_page import add_trace_page
from tests.unit.web.described import document, validator
from tests.unit.web.operators_app import DAG, Operators, held, hold, operators_app

OPERATIONS = [(path, method) for path, methods in document()["paths"].items() for method in methods]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=30)


def of_schema(schema: dict[str, Any]) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one for each type
    """Return values that a schema allows, as far as its types and bounds go."""
    if "$ref" in schema:
        found: Any = document()
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return of_schema(found)
    if "anyOf" in schema:
        return st.one_of(*map(of_schema, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    match schema.get("type"):
        case "object":
            known = {name: of_schema(each) for name, each in schema.get("properties", {}).items()}
            needed = set(schema.get("required", ()))
            optional = {name: each for name, each in known.items() if name not in needed}
            return st.fixed_dictionaries({name: known[name] for name in known if name in needed}, optional=optional)
        case "array":
            return st.lists(of_schema(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=3)
        case "integer":
            least, most = schema.get("minimum"), schema.get("maximum")
            return st.integers(-(2**70) if least is None else least, 2**70 if most is None else most)
        case "string":
            return st.sampled_from(["orders", "shop.orders", "memory", "check", "latest", "e1"]) | _TEXT
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case _:
            return _JSON


@st.composite
def requests(draw: st.DrawFn, path: str, method: str) -> tuple[str, dict[str, Any], dict[str, str], bytes | None]:
    operation = document()["paths"][path][method]
    asked: dict[str, Any] = {}
    headers = {}
    for parameter in operation.get("parameters", ()):
        name, place = parameter["name"], parameter["in"]
        value = draw(of_schema(parameter["schema"]) | _TEXT)
        if place == "path":
            known = {"dag_id": DAG, "run_id": "r1"}[name]
            part = draw(st.just(known) | st.just(known) | _TEXT.filter(lambda t: t.strip("./ \t\r\n")))
            path = path.replace(f"{{{name}}}", "".join(f"%{byte:02x}" for byte in part.encode()))
        elif place == "header" and value is not None and draw(st.integers(0, 4)):
            headers[name] = str(value).encode("ascii", "ignore").decode().translate(dict.fromkeys(range(32))) or "k"
        elif place == "query" and value is not None and (parameter.get("required") or draw(st.booleans())):
            asked[name] = str(value).lower() if isinstance(value, bool) else value
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return path, asked, headers, None
    body = draw(of_schema(content["schema"]) | of_schema(content["schema"]) | _JSON)
    kind = draw(st.sampled_from(["application/json"] * 4 + ["text/plain", "application/x-www-form-urlencoded"]))
    text = json.dumps(body).encode() if draw(st.integers(0, 9)) else draw(st.binary(max_size=20))
    return path, asked, {**headers, "Content-Type": kind}, text


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operators]:
    folder = tmp_path_factory.mktemp("any_request")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABUS_RECORDS_URL", f"sqlite:///{folder / 'records.db'}")
        patch.setenv("DATABUS_SEGMENT_STORE", str(folder))
        with operators_app(folder) as found:
            made: Any = found.client.app
            add_flow_page(made, lambda: None)
            add_trace_page(made, lambda: {DAG}, lambda: None, found.connections)
            hold(found, held(1, email="a@b"), held(2))
            yield found


def looked_at(app: Operators, path: str, method: str, data: st.DataObject) -> None:
    place, asked, headers, body = data.draw(requests(path, method))
    answer = app.client.request(method.upper(), place, params=asked, headers=headers, content=body)
    told = f"{method} {place} {asked} {body!r}: {answer.status_code} {answer.text[:500]}"
    assert answer.status_code < 500 or answer.status_code == 503, told
    kind = answer.headers["content-type"].partition(";")[0]
    if kind in ("application/json", "application/problem+json"):
        described = "200" if answer.status_code < 400 else "default"
        if path.endswith("/openapi.json") and described == "200":
            return
        wrong = list(validator(method, path, described, kind).iter_errors(answer.json()))
        assert not wrong, f"{told}\n{wrong[0].message}"


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_a_few_requests_to_each_route(app: Operators, path: str, method: str) -> None:
    few = settings(max_examples=4, deadline=None, database=None, derandomize=True, suppress_health_check=[*HealthCheck])
    few(given(st.data())(lambda data: looked_at(app, path, method, data)))()


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_many_requests_to_each_route(app: Operators, path: str, method: str) -> None:
    many = settings(max_examples=200, deadline=None, database=None, suppress_health_check=[*HealthCheck])
    many(given(st.data())(lambda data: looked_at(app, path, method, data)))()
