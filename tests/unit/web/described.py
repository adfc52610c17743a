"""Answers of the API held to its committed description: no member that it does not name, none of those left out."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from tests.reference import openapi

DAG = "/api/v1/dags/{dag_id}"


def checked(method: str, path: str, answer: Any) -> Any:
    """Return the JSON of an answer, after a look at whether the description has it so.

    Args:
        method: "get" or "post".
        path: of the route, below that of its DAG; one of all flows as it is.
        answer: the answer, with `status_code`, `headers` and `json()`.
    """
    found, kind = answer.json(), answer.headers["content-type"].partition(";")[0]
    described = "default" if answer.status_code >= 400 else "200"
    place = path if path.startswith("/api/") else f"{DAG}{path}"
    wrong = list(validator(method, place, described, kind).iter_errors(found))
    assert not wrong, f"{method} {place}: {wrong[0].json_path}: {wrong[0].message}"
    return found


@cache
def document() -> dict[str, Any]:
    """Return the committed description."""
    found: dict[str, Any] = json.loads(openapi.FILE.read_text(encoding="utf-8"))
    return found


@cache
def validator(method: str, path: str, status: str, kind: str) -> Any:
    """Return what an answer is held to: a member that is not described is refused."""
    answers = document()["paths"][path][method]["responses"]
    content = answers[status]["content"]
    assert kind in content, f"{method} {path} answers {kind}, and {sorted(content)} are described"
    return Draft202012Validator({**_strict(copy.deepcopy(content[kind]["schema"])), "components": _components()})


@cache
def _components() -> dict[str, Any]:
    found: dict[str, Any] = _strict(copy.deepcopy(document()["components"]))
    return found


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _strict(each) for name, each in schema.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found
