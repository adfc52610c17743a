"""`databus stream`: records of Kafka topics over HTTP, until a signal ends it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from databus.cli.terminal.option_groups import grouped
from databus.cli.terminal.options import connection_source
from databus.cli.terminal.output import ERR

if TYPE_CHECKING:
    from databus.kafka.client import ClientSettings

_MIB = 1024 * 1024


@dataclass(frozen=True)
class PlaceOptions:
    """Option group of what is served, and where."""

    listen: Annotated[str, typer.Option("--listen", help="Address of the service, HOST:PORT.")] = "127.0.0.1:8470"
    name: Annotated[
        str, typer.Option("--name", help="Name of the service: of its state, and of its consumers' groups.")
    ] = "stream"
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topics", help='Pattern of topics that are served, e.g. "events.*"; may be repeated.', show_default="all"
        ),
    ] = None


@dataclass(frozen=True)
class ClientOptions:
    """Option group of who may connect."""

    tls_certificate: Annotated[
        str, typer.Option("--tls-certificate", help="File of the server's certificate, PEM.", show_default="plain HTTP")
    ] = ""
    tls_key: Annotated[str, typer.Option("--tls-key", help="File of its key, PEM.", show_default="none")] = ""
    tls_client_ca: Annotated[
        str,
        typer.Option(
            "--tls-client-ca", help="CA whose certificates clients have to show (mTLS), PEM.", show_default="none"
        ),
    ] = ""
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", help="File of tokens (JSON), with the topics of each.", show_default="no tokens"),
    ] = None
    open_to_all: Annotated[
        bool, typer.Option("--open", help="Let everybody in from other machines, without token or certificate.")
    ] = False


@dataclass(frozen=True)
class WriteLimits:
    """Option group of what requests may take."""

    record_bytes: Annotated[int, typer.Option("--record-bytes", help="Size of a record at most.", min=1)] = _MIB
    batch_bytes: Annotated[int, typer.Option("--batch-bytes", help="Size of a request at most.", min=1)] = 4 * _MIB
    batch_records: Annotated[int, typer.Option("--batch-records", help="Records of a request at most.", min=1)] = 10_000
    waiting_bytes: Annotated[
        int, typer.Option("--waiting-bytes", help="Bytes of bodies under way, of all requests together.", min=1)
    ] = 64 * _MIB
    requests: Annotated[int, typer.Option("--requests", help="Requests at a time.", min=1)] = 256
    connections: Annotated[int, typer.Option("--connections", help="Connections at a time.", min=1)] = 1_024
    rate: Annotated[
        float, typer.Option("--rate", help="Records a second of one client.", min=0, show_default="no bound")
    ] = 0.0


@dataclass(frozen=True)
class StateLimits:
    """Option group of what the service keeps."""

    lanes: Annotated[
        int, typer.Option("--lanes", help="Transactional writers; fixed for a name once it was started.", min=1, max=64)
    ] = 4
    producers: Annotated[int, typer.Option("--producers", help="Producer ids that are known at a time.", min=1)] = (
        100_000
    )
    producer_days: Annotated[
        float, typer.Option("--producer-days", help="Days without a request until an id is forgotten.", min=0.01)
    ] = 7.0
    readers: Annotated[int, typer.Option("--readers", help="Reads at a time.", min=1, max=500)] = 16
    deadline: Annotated[
        float,
        typer.Option("--deadline", help="Seconds until a delivery without an acknowledgement is made again.", min=0.1),
    ] = 30.0
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds in which the brokers confirm a request.", min=1, max=600)
    ] = 20.0


@grouped
def stream(
    kafka: Annotated[
        str, typer.Argument(help="Connection, e.g. kafka_east, or HOST:PORT of a broker.", metavar="KAFKA")
    ],
    place: PlaceOptions,
    access: ClientOptions,
    writing: WriteLimits,
    keeping: StateLimits,
) -> None:
    """Serve Kafka topics over HTTP, written once, read by acks.

    One process runs a name; a second one takes over from the first. A signal ends it, once requests under way are
    answered.
    """
    from databus.stream.access import Tokens
    from databus.stream.options import StreamOptions
    from databus.stream.server import Listener, server
    from databus.stream.service import StreamService

    options = StreamOptions(
        name=place.name,
        topics=tuple(place.topics or ("*",)),
        record_bytes=writing.record_bytes,
        batch_bytes=writing.batch_bytes,
        batch_records=writing.batch_records,
        waiting_bytes=writing.waiting_bytes,
        requests=writing.requests,
        connections=writing.connections,
        rate=writing.rate,
        lanes=keeping.lanes,
        producers=keeping.producers,
        producer_idle_s=timedelta(days=keeping.producer_days).total_seconds(),
        readers=keeping.readers,
        deadline_s=keeping.deadline,
        timeout_s=keeping.timeout,
    )
    listener = Listener.of(place.listen, access.tls_certificate, access.tls_key, access.tls_client_ca)
    tokens = Tokens.of_file(access.tokens) if access.tokens else Tokens()
    service = StreamService(_settings(kafka, options.timeout_s), options, tokens)
    listener.check_open(service, allowed=access.open_to_all)
    service.check_state()
    served = server(service, listener)
    scheme = "https" if listener.certificate else "http"
    ERR.print(f"serving topics of {kafka} on {scheme}://{place.listen}; Ctrl-C ends it", markup=False)
    served.run()
    if not served.started:
        raise typer.Exit(1)


def _settings(kafka: str, timeout_s: float) -> ClientSettings:
    from databus.kafka.client import ClientSettings

    if ":" in kafka:
        return ClientSettings(kafka, kafka, timeout_s=timeout_s)
    return ClientSettings.of(connection_source().get(kafka), timeout_s)
