"""Health over HTTP."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from typing import Any

from databus.sandbox.servers.protocol import NotHealthyError


def get_json(host: str, port: int, path: str, timeout_s: float = 5.0) -> Any:
    """GET a JSON document from a server of the sandbox; never through a proxy.

    Raises:
        NotHealthyError: no connection, a status other than 200, or no JSON.
    """
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except (OSError, HTTPException) as error:
        raise NotHealthyError(f"http://{host}:{port}{path}: {error}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise NotHealthyError(f"http://{host}:{port}{path} answers {response.status}")
    try:
        return json.loads(body)
    except ValueError:
        raise NotHealthyError(f"http://{host}:{port}{path} does not answer JSON") from None
