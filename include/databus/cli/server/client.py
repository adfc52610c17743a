"""Client of the API in Airflow: JSON over HTTP, problems as errors, actions once under a key of their own."""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from databus.cli.server.problems import ServerAnswerError, ServerAwayError, ServerProblemError, problem_error

PREFIX = "/databus/api/v1"

_PROBLEM = "application/problem+json"
_TIMEOUT_S = 120.0
"""Silence after which a connection counts as cut off; an action is then asked for again under its key."""

_PATIENCE_S = 1_800.0
"""An action whose answer is lost is asked for again for so long: a replay may take longer than a proxy waits."""

_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0)
_MAY_BE_DONE = (
    "The first request may have been done: look at `databus checkpoint history`, for held rows at `databus quarantine "
    "list`, before you ask for it once more."
)
_OF_PROXIES = (502, 503, 504)
_PAGE = 500
_PART = 65_536
"""Bytes of an answer in lines that are read at once."""

_MOST_BODY = 2_000
"""Characters of an answer that is no problem, of which an error tells."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the token is for this server alone, and another's login page is no answer."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True)
class ApiClient:
    """Client of one server.

    Attributes:
        root: address of Airflow.
        token: of Airflow's login.
        waiting: told why an action is asked for again.
        timeout_s: silence after which a connection counts as cut off.
    """

    root: str
    token: str = field(repr=False)
    waiting: Callable[[str], None] = lambda _: None
    timeout_s: float = _TIMEOUT_S

    def get(self, path: str, **query: Any) -> Any:
        """Return what a route shows.

        Args:
            path: below the API's prefix.
            query: what is None or "" is left out.

        Raises:
            ServerProblemError: the server refuses it.
            ServerAwayError: no answer.
            ServerAnswerError: it is no answer of the API.
        """
        with closing(self._ask(self._request(path, query))) as answer:
            return _json(self.root, answer)

    def lines(self, path: str, **query: Any) -> Iterator[str]:
        """Yield the lines of a route that answers some; raises as `get`, and where the answer ends before its end."""
        with closing(self._ask(self._request(path, query))) as answer:
            line = b""
            try:
                # Iterating over the answer takes a connection that ends between two chunks for the end of the lines.
                while part := answer.read(_PART):
                    *whole, line = (line + part).split(b"\n")
                    yield from (each.decode() for each in whole)
            except (OSError, http.client.HTTPException) as error:
                raise self._cut_off(str(error)) from error
            if line or answer.length:
                raise self._cut_off("its end is missing")

    def _cut_off(self, how: str) -> ServerAwayError:
        return ServerAwayError(f"{self.root}: the answer was cut off: {how}", hint="Ask again.")

    def pages(self, path: str, most: int | None = None, **query: Any) -> list[dict[str, Any]]:
        """Return the items of a list, page after page; raises as `get`.

        Args:
            path: below the API's prefix.
            most: items at most, None for all.
            query: as for `get`; `limit` is the size of a page at most.
        """
        limit = query.get("limit", _PAGE)
        return list(islice(self._items(path, query | {"limit": min(limit, most or limit)}), most))

    def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        """Return what a route answers to a question with a body, which changes nothing; raises as `get`."""
        with closing(self._ask(self._request(path, {}, body, headers or {}))) as answer:
            return _json(self.root, answer)

    def act(self, path: str, body: Mapping[str, Any], version: str = "") -> Any:
        """Have an action done once, and return its answer; raises as `get`.

        Where the connection is cut off behind the request, it is sent again under the same key: the server answers
        what it did, and does nothing twice. An error that ends this says that the first request may have been done.

        Args:
            path: below the API's prefix.
            body: what is asked for.
            version: of the checkpoint that was looked at; "" where the action takes none.
        """
        headers = {"Idempotency-Key": secrets.token_hex(16)}
        headers |= {"If-Match": f'"{version}"'} if version else {}
        until, asked = time.monotonic() + _PATIENCE_S, 0
        while True:
            try:
                return self.post(path, body, headers)
            except (ServerAwayError, ServerProblemError, ServerAnswerError) as error:
                again = _CutOffError.is_one(error) or (asked and isinstance(error, ServerAwayError))
                if not again or time.monotonic() > until:
                    if asked:
                        error.hint = f"{error.hint} {_MAY_BE_DONE}".strip()
                    raise
                self.waiting(f"{error.message}: asked again under the same key")
            time.sleep(_PAUSES_S[min(asked, len(_PAUSES_S) - 1)])
            asked += 1

    def _items(self, path: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        cursor = ""
        while cursor is not None:
            page = self.get(path, **query, cursor=cursor)
            yield from page["items"]
            cursor = page["next"]

    def _request(
        self, path: str, query: Mapping[str, Any], body: Any = None, headers: Mapping[str, str] | None = None
    ) -> urllib.request.Request:
        told = {name: _in_query(value) for name, value in query.items() if value is not None and value != ""}
        address = f"{self.root}{PREFIX}{path}" + (f"?{urlencode(told, doseq=True)}" if told else "")
        sent = {"Accept": f"application/json, {_PROBLEM}", **(headers or {})}
        sent |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        data = None
        if body is not None:
            data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        method = "GET" if body is None else "POST"
        return urllib.request.Request(address, data, sent, method=method)  # noqa: S310 - `server_root` looked at it

    def _ask(self, request: urllib.request.Request) -> Any:
        opener = urllib.request.build_opener(_NoRedirects)
        try:
            return opener.open(request, timeout=self.timeout_s)
        except urllib.error.HTTPError as error:
            with closing(error):
                raise _refusal(self.root, error) from None
        except urllib.error.URLError as error:
            hint = "Look at --server, and whether Airflow's API server runs there."
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                hint = "Name the file of its certificate's authority in SSL_CERT_FILE."
            raise ServerAwayError(f"{self.root} does not answer: {error.reason}", hint=hint) from error
        except (OSError, http.client.HTTPException) as error:
            told = f"{self.root}: the connection was cut off before the answer: {error or type(error).__name__}"
            raise _CutOffError(told, hint="What was asked for may have been done: look at the flow.") from error


class _CutOffError(ServerAwayError):
    """The connection was cut off behind the request: it may have been done."""

    @classmethod
    def is_one(cls, error: Exception) -> bool:
        """Return whether the request of an action is to be sent again."""
        return isinstance(error, cls | _ProxyError) or getattr(error, "code", "") == "action_open"


class _ProxyError(ServerAnswerError):
    """Answer of something in front of the server: the server itself does not answer."""


def _refusal(root: str, error: urllib.error.HTTPError) -> Exception:
    """Return what a refusal raises: a problem as the server tells it, anything else as what it is."""
    status, kind = error.code, error.headers.get_content_type()
    try:
        text = error.read(1_000_000).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        text = ""
    if kind in (_PROBLEM, "application/json"):
        try:
            facts = json.loads(text)
        except ValueError:
            facts = None
        if isinstance(facts, dict) and (status not in _OF_PROXIES or facts.get("code")):
            return problem_error(status, {**facts, "detail": facts.get("detail") or text[:_MOST_BODY]})
    if status in _OF_PROXIES:
        return _ProxyError(f"{root}: HTTP {status} by something in front of the API server", hint="Ask again.")
    if 300 <= status < 400:
        to = urlsplit(error.headers.get("Location") or "").hostname or "another page"
        hint = "Give the address that it leads to with --server; a login page means that the token is not taken."
        return ServerAnswerError(f"{root}: HTTP {status}, it sends on to {to}", hint=hint)
    return ServerAnswerError(f"{root}: HTTP {status}, {kind}: {text[:200].strip()!r}", hint=_NO_API)


_NO_API = f"Give the address of Airflow's API server, below which {PREFIX} lies, with databus's plugin of this version."


def _json(root: str, answer: Any) -> Any:
    kind = answer.headers.get_content_type()
    try:
        return json.loads(answer.read())
    except ValueError as error:
        raise ServerAnswerError(f"{root} answers {kind}, and no JSON", hint=_NO_API) from error
    except (OSError, http.client.HTTPException) as error:
        raise _CutOffError(f"{root}: the answer was cut off: {error}", hint="Ask again.") from error


def _in_query(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


@dataclass(frozen=True)
class ServedFlow:
    """Flow of a server.

    Attributes:
        client: asks the server.
        name: name of the flow.
        dag_id: its DAG, below whose address the routes lie.
    """

    client: ApiClient
    name: str
    dag_id: str

    def get(self, path: str, **query: Any) -> Any:
        """Return what a route of the flow shows; raises as `ApiClient.get`."""
        return self.client.get(self._below(path), **query)

    def lines(self, path: str, **query: Any) -> Iterator[str]:
        """Yield the lines of a route of the flow; raises as `ApiClient.get`."""
        return self.client.lines(self._below(path), **query)

    def pages(self, path: str, most: int | None = None, **query: Any) -> list[dict[str, Any]]:
        """Return the items of a list of the flow; raises as `ApiClient.get`."""
        return self.client.pages(self._below(path), most, **query)

    def preview(self, part: str, body: Mapping[str, Any]) -> Any:
        """Return the preview of an action, by the part of the API that does it; raises as `ApiClient.get`."""
        return self.client.post(self._below(f"/{part}/preview"), body)

    def act(self, path: str, body: Mapping[str, Any], version: str = "") -> Any:
        """Have an action on the flow done once; raises as `ApiClient.get`."""
        return self.client.act(self._below(path), body, version)

    def version(self) -> str:
        """Return the version at which the flow's checkpoint stands; raises as `ApiClient.get`."""
        return str(self.get("/checkpoint")["version"])

    def _below(self, path: str) -> str:
        return f"/dags/{quote(self.dag_id, safe='')}{path}"
