"""Description of the API (OpenAPI), as the application makes it: `docs/openapi.json`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from databus.connections.environment import EnvironmentConnections
from databus.web.app import create_app
from databus.web.flow_page import add_flow_page
from databus.web.installation import Access, Installation
from databus.web.operations import add_operations, description
from databus.web.trace_page import add_trace_page
from tests.reference.pages import ROOT

FILE = ROOT / "docs" / "openapi.json"


def text() -> str:
    """Return the description as it is to be committed; the version is left out, each release would change it."""
    access = Access(_none, _none, _none, _none, _none, _none, lambda *_: None)
    installation = Installation(lambda _: None, EnvironmentConnections({}), lambda *_: None)
    app = create_app(_none, _none, Path(), partial(add_operations, access=access, installation=installation))
    add_flow_page(app, _none)
    add_trace_page(app, _none, _none, EnvironmentConnections({}))
    described = description(app)
    described["info"]["version"] = "v1"
    return json.dumps(described, indent=1, ensure_ascii=False) + "\n"


def _none() -> Any:
    """Stand for a guard, of which the description says nothing."""
