"""Choice of a server for the commands of this process, its login, and the verbs that it can be asked for."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from databus.cli.server.problems import VerbNotServedError, problem_error
from databus.cli.terminal.output import ERR
from databus.core.errors.config import ConfigError
from databus.core.private_files import wider

if TYPE_CHECKING:
    from databus.cli.server.client import ApiClient, ServedFlow

TOKEN, TOKEN_FILE = "DATABUS_SERVER_TOKEN", "DATABUS_SERVER_TOKEN_FILE"

SERVED = frozenset((
    *("flows list", "flows show", "flows graph", "plan", "lag", "peek"),
    *(f"snapshot {verb}" for verb in ("show", "begin", "pause", "resume", "cancel")),
    *(f"checkpoint {verb}" for verb in ("show", "history", "pause", "resume", "rewind", "skip")),
    *(f"checkpoint {verb}" for verb in ("restore", "adopt", "accept")),
    *(f"quarantine {verb}" for verb in ("list", "show", "export", "replay", "discard")),
    *("ledger", "gaps", "trace", "quality"),
    *(f"mirror {verb}" for verb in ("translate", "offsets", "lag", "heartbeat")),
    *("doctor", "alerts list"),
))  # fmt: skip
"""Verbs that the API has a route for."""

HERE = frozenset(("explain", "decode", "sandbox", "bench"))
"""Commands that concern this machine alone, whatever server is chosen."""

_chosen: list[tuple[str, Path | None]] = []
_told = set[str]()


def choose(address: str, token_file: Path | None) -> None:
    """Let the commands of this process ask a server; "" lets them open flows' servers from here.

    Raises:
        ConfigError: it is no address.
    """
    _told.clear()
    _chosen[:] = [(_root(address), token_file)] if address else []


def _root(address: str) -> str:
    """Return an address of Airflow as it was given, without a slash at its end."""
    parts = urlsplit(address.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = "what --server or DATABUS_SERVER names" if "@" in address else repr(address)  # it may hold a login
        raise ConfigError(f"{shown} is no address of a server", hint="Write it as https://airflow.example.com.")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError(
            f"the address of a server, https://{parts.hostname}…, holds a login, a query or a fragment",
            hint=f"Leave them out; a token goes into {TOKEN_FILE}.",
        )
    return address.strip().rstrip("/")


def require_served(verb: str, given: Collection[str] = ()) -> None:
    """Refuse a verb that a chosen server has no route for, and options that name another place to act on.

    Args:
        verb: its words, e.g. "checkpoint show".
        given: names of the options that were given on the command line.

    Raises:
        VerbNotServedError: the API has none.
        ConfigError: an option names DAG files or a Spark of this machine.
    """
    if _chosen and verb not in SERVED and verb.partition(" ")[0] not in HERE:
        raise VerbNotServedError(
            f"`databus {verb}` does not work with --server: the API has no route for it",
            hint=_INSTEAD.get(verb, "Run it where the flow's servers can be reached, without DATABUS_SERVER."),
        )
    if _chosen and verb in SERVED and (named := [option for option in ("dags", "spark") if option in given]):
        raise ConfigError(
            f"`databus {verb}` asks the server {_chosen[0][0]}, which has DAGs and a Spark of its own: "
            f"--{named[0]} names others",
            hint=f"Leave --{named[0]} out, or the server: --server '' goes before DATABUS_SERVER.",
        )


_INSTEAD = {
    "backfill": "Begin it in Airflow: the flow's DAG ending in _backfill takes the range, in its form or by its API.",
    "run": "Trigger the flow's DAG in Airflow.",
}


def server() -> ApiClient | None:
    """Return the client of the chosen server; None where the commands open flows' servers themselves.

    Raises:
        ConfigError: there is no token, or its file cannot be read.
    """
    if not _chosen:
        return None
    from databus.cli.server.client import ApiClient

    address, token_file = _chosen[0]
    _tell_open_way(address)
    return ApiClient(address, _token(token_file), lambda why: ERR.print(why, style="dim", markup=False, soft_wrap=True))


def served(flow: str) -> ServedFlow | None:
    """Return a flow of the chosen server by its name or that of its DAG; None where no server is chosen.

    Raises:
        ConfigError: there is no such flow among those that may be seen, or there are several.
        ServerProblemError: the server cannot read the DAG's flow.
    """
    client = server()
    if client is None:
        return None
    from databus.cli.server.client import ServedFlow

    listed = client.pages("/definitions", flow=flow)
    found = [item for item in listed if item["flow"] is not None]
    named = [item for item in found if item["flow"] == flow] or found
    if len(named) == 1:
        return ServedFlow(client, named[0]["flow"], named[0]["dag_id"])
    if named:
        dags = ", ".join(item["dag_id"] for item in named)
        raise ConfigError(f"several DAGs run a flow {flow!r}", hint=f"Name one of the DAGs instead: {dags}.")
    for error in (item["error"] for item in listed if item["dag_id"] == flow):
        raise problem_error(422, {**error, "detail": f"DAG {flow}: its flow cannot be read: {error['message']}"})
    raise ConfigError(
        f"{client.root} has no flow {flow!r} that you may see",
        hint="`databus flows list` names those that there are.",
        code="flow_unknown",
    )


def served_of(names: Sequence[str]) -> tuple[list[ServedFlow], list[dict[str, Any]]]:
    """Return flows of the chosen server by name, all that may be seen where none is named, and those it cannot read."""
    if names:
        return [found for name in names if (found := served(name)) is not None], []
    client = server()
    if client is None:
        return [], []
    from databus.cli.server.client import ServedFlow

    known, unread = served_flows(client)
    return [ServedFlow(client, item["flow"], item["dag_id"]) for item in known], unread


def served_flows(client: ApiClient) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the flows that may be seen, by name, and the DAGs whose flow cannot be read, which are named on stderr."""
    found = client.pages("/definitions")
    known = sorted((item for item in found if item["flow"] is not None), key=lambda item: str(item["flow"]))
    unread = [item for item in found if item["flow"] is None]
    for item in unread:
        told = f"not readable: DAG {item['dag_id']}: {item['error']['message']}"
        ERR.print(told, style="yellow", markup=False, soft_wrap=True)
    return known, unread


def _tell_open_way(address: str) -> None:
    """Say once that a token goes over the network as it is."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme == "https" or host in ("localhost", "::1") or host.startswith("127.") or address in _told:
        return
    _told.add(address)
    told = f"{address} is no https: who listens on the way to it can read the token"
    ERR.print(told, style="yellow", markup=False, soft_wrap=True)


def _token(file: Path | None) -> str:
    given = os.environ.get(TOKEN, "")
    if file is not None:
        try:
            given = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: the token cannot be read: {error}", hint=f"Correct {TOKEN_FILE}.") from error
        for path, mode in wider(file):
            told = f"{path} has mode {mode:o}: others can read the token; chmod 600 mends it"
            ERR.print(told, style="yellow", markup=False, soft_wrap=True)
    token = given.strip()
    if not token or not token.isprintable() or not token.isascii() or " " in token:
        where = str(file) if file is not None else TOKEN
        raise ConfigError(
            f"{where} holds no token of Airflow's login" if given else "no token of Airflow's login is named",
            hint=f"Put it into a file that {TOKEN_FILE} names, or into {TOKEN}; Airflow's POST /auth/token gives one.",
        )
    return token
