"""Entries of error codes: the HTTP service over Kafka topics."""

from __future__ import annotations

from databus.core.errors.entries import ErrorEntry

ENTRIES: dict[str, ErrorEntry] = {
    "stream_error": ErrorEntry(
        "The stream service failed in a way that has no code of its own.",
        "Read the message; nothing of the request was acknowledged.",
    ),
    "stream_request": ErrorEntry(
        "A header, parameter or body of a request is of a form that is not taken; nothing was written.",
        "The message names it; docs/howto/stream-over-http.md has each form.",
    ),
    "stream_slow_body": ErrorEntry(
        "The body of a request did not come in time; nothing was written.",
        "Send smaller requests.",
    ),
    "stream_token": ErrorEntry(
        "A request has no token, or one that is not in the service's file.",
        "Send `Authorization: Bearer TOKEN`.",
    ),
    "stream_access": ErrorEntry(
        "A token's entry does not name the topic under write or read.",
        "Add the topic to the entry, and start the service anew.",
    ),
    "stream_topic": ErrorEntry(
        "A topic or partition is not there, or the service does not serve it.",
        "Create the topic in Kafka, or name it in --topics; the service makes none.",
    ),
    "stream_too_large": ErrorEntry(
        "A record or request is larger than the service or the topic takes; nothing of the request was written.",
        "Send less at a time, or raise the limit that the message names.",
    ),
    "stream_full": ErrorEntry(
        "The service, or the client's rate, has no room for the request just now; nothing was written.",
        "Send it again after the seconds of Retry-After.",
        retried=True,
    ),
    "stream_state": ErrorEntry(
        "The topic `databus.stream.NAME.producers` has other partitions than the service has lanes, or settings by "
        "which it forgets producers that are in use; requests with a producer id are not written.",
        "Start the service with the lanes that the hint names, or set what it names at the topic.",
    ),
    "stream_acks": ErrorEntry(
        "A request asks for more replicas than the topic's min.insync.replicas makes sure of; nothing was written.",
        "Raise min.insync.replicas of the topic, or ask for fewer.",
    ),
    "stream_sequence": ErrorEntry(
        "A request's sequence is not the next of its producer: one is missing before it, or it is long written.",
        "Go on with `expected` of the answer, or with a new producer id from 0 on.",
    ),
    "stream_producer_conflict": ErrorEntry(
        "A sequence that was written came again with other records, which were not written: two writers use one id.",
        "Give each writer, and each start of one, a producer id of its own.",
    ),
    "stream_fenced": ErrorEntry(
        "Another instance of the service was started with the same name, and has taken its producers over.",
        "Send requests to that one and stop this one; two services need two names.",
    ),
    "stream_not_confirmed": ErrorEntry(
        "The brokers did not confirm a request in time, so whether it is written is not known.",
        "Send it again: with a producer id and sequence it is written once.",
        retried=True,
    ),
    "stream_place_gone": ErrorEntry(
        "The topic has no records at the offset that is asked for: retention has passed it, or it lies beyond the end.",
        "Go on at `earliest` of the answer; what stood before it is lost to this reader.",
    ),
    "stream_delivery": ErrorEntry(
        "A delivery that is acknowledged is not open: acknowledged before, or made again after its deadline.",
        "Acknowledge the delivery that brought the records last; handle them so that a repeat does no harm.",
    ),
}
"""Code → its entry."""
