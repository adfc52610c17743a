"""Sink `http`: POSTs rows as lines of JSON. A receiver that passes over event ids that it has gets each row once."""

from datetime import timedelta
from itertools import islice
from typing import ClassVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from databus.extend import SimpleRows, SimpleSink, SinkError, SinkUnavailableError, WriteReceipt


class HttpSink(SimpleSink):
    """Rows as NDJSON to a URL: url, rows_per_request (500), timeout (30 seconds)."""

    kind: ClassVar[str] = "http"
    url: str
    rows_per_request: int = 500
    timeout: timedelta = timedelta(seconds=30)

    def write(self, rows: SimpleRows) -> WriteReceipt:
        lines = (f"{row.to_json()}\n" for row in rows)
        while body := "".join(islice(lines, self.rows_per_request)):
            self._post(body)
        return rows.receipt()

    def ping(self) -> None:
        self._post("")

    def _post(self, body: str) -> None:
        request = Request(self.url, body.encode(), {"Content-Type": "application/x-ndjson"})
        try:
            urlopen(request, timeout=self.timeout.total_seconds()).close()
        except HTTPError as error:
            error.close()
            away = error.code == 429 or error.code >= 500
            raise (SinkUnavailableError if away else SinkError)(f"{self.url} answers {error}") from error
        except OSError as error:
            raise SinkUnavailableError(f"{self.url}: {error}", hint="Is the receiver up?") from error
