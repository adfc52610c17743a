"""Airflow's own health, as its api-server reports it to anybody."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass

from databus.core.alerts.alert import AlertKind
from databus.core.errors.config import ConfigError
from databus.observe.alerts.hysteresis import RuleVerdict
from databus.observe.alerts.rules import Observation

API_SERVER = "api-server"
DATABASE = "metadatabase"
_PARTS = (DATABASE, "scheduler", "triggerer", "dag_processor")


@dataclass(frozen=True)
class AirflowHealth:
    """Asks `GET /api/v2/monitor/health` (Airflow 3), which needs no login.

    Attributes:
        url: address of the api-server.
        timeout_s: how long to wait for its answer.
    """

    url: str
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(f"{self.url!r} is not the address of Airflow", hint="Write http://HOST:PORT.")

    def look(self) -> dict[str, str]:
        """Return part → what is wrong with it, "" when it is well.

        A part of which nothing is known has no entry: an api-server that is away reports nothing else, and
        without its database it calls every part unhealthy whose heartbeats are in there.
        """
        address = f"{self.url.rstrip('/')}/api/v2/monitor/health"
        try:
            with urllib.request.urlopen(address, timeout=self.timeout_s) as answer:  # noqa: S310 - checked above
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return {API_SERVER: f"answers HTTP {error.code}"}
        except (OSError, ValueError, http.client.HTTPException) as error:
            return {API_SERVER: f"does not answer: {error}"}
        if not isinstance(found, dict):
            return {API_SERVER: "answers something else than its health"}
        said = {API_SERVER: ""}
        for part in _PARTS:
            told = found.get(part)
            about = told if isinstance(told, dict) else {}
            state = about.get("status")
            if state is not None:  # None: this Airflow runs none of its kind
                beat = about.get(f"latest_{part}_heartbeat")
                said[part] = "" if state == "healthy" else f"is {state}" + (f", last seen {beat}" if beat else "")
            if said.get(DATABASE):
                break
        return said

    @staticmethod
    def observation(part: str, problem: str) -> Observation:
        """Return the observation of a part."""
        verdict = RuleVerdict.OVER if problem else RuleVerdict.CLEAR
        return Observation(AlertKind.AIRFLOW, verdict, f"Airflow's {part} {problem or 'is healthy'}", part)
