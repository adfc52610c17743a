"""The committed description of the API is the one that the application gives behind the login."""

from __future__ import annotations

import json

from tests.reference import openapi


def test_the_committed_description_is_the_applications() -> None:
    assert openapi.FILE.read_text(encoding="utf-8") == openapi.text(), "`make reference` writes it"


def test_every_action_says_which_headers_it_takes_and_what_a_problem_is() -> None:
    found = json.loads(openapi.FILE.read_text(encoding="utf-8"))["paths"]
    actions = {path: methods["post"] for path, methods in found.items() if "post" in methods}
    assert len(actions) > 12
    for path, action in actions.items():
        names = {parameter["name"] for parameter in action["parameters"]}
        assert "application/json" in action["requestBody"]["content"], path
        assert path.endswith("/preview") or "Idempotency-Key" in names, path
        assert "application/problem+json" in action["responses"]["default"]["content"], path
    assert "If-Match" in {p["name"] for p in actions["/api/v1/dags/{dag_id}/checkpoint/rewind"]["parameters"]}
