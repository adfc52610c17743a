"""Errors of the HTTP service over Kafka topics (`databus stream`)."""

from __future__ import annotations

from databus.core.errors.root import DatabusError


class StreamError(DatabusError):
    """A request of the stream service failed."""

    code = "stream_error"


class StreamRequestError(StreamError):
    """A header, parameter or body is of a form that is not taken; nothing of it was written."""

    code = "stream_request"


class StreamSlowBodyError(StreamRequestError):
    """A body did not come in time; nothing of it was written."""

    code = "stream_slow_body"


class StreamTokenError(StreamError):
    """A request has no token that is known."""

    code = "stream_token"
    default_hint = "Send `Authorization: Bearer TOKEN` with a token of the service's file (--tokens)."


class StreamAccessError(StreamError):
    """A token is not for this topic."""

    code = "stream_access"
    default_hint = "Name the topic under write or read of the token's entry, and start the service anew."


class StreamTopicError(StreamError):
    """A topic, or a partition of it, is not there, or not served."""

    code = "stream_topic"
    default_hint = "Create the topic first: the service makes none, so that a misspelt name is not written to."


class StreamStateError(StreamError):
    """The topic of the producers' state does not do for the service as it was started."""

    code = "stream_state"


class StreamTooLargeError(StreamError):
    """A record or a request is larger than allowed; nothing of it was written."""

    code = "stream_too_large"


class StreamFullError(StreamError):
    """The service takes no more requests just now; nothing of this one was written.

    Attributes:
        retry_after_s: seconds until another attempt.
    """

    code = "stream_full"
    retryable = True
    retry_after_s: float = 1.0
    default_hint = "Send it again after the seconds of Retry-After."


class StreamAcksError(StreamError):
    """More replicas are asked for than the topic makes sure of; nothing was written."""

    code = "stream_acks"


class StreamSequenceError(StreamError):
    """A request's sequence is not the next one of its producer; nothing of it was written.

    Attributes:
        expected: the next sequence.
    """

    code = "stream_sequence"
    expected: int = 0


class StreamProducerConflictError(StreamError):
    """A sequence that was written comes again with other records; these were not written."""

    code = "stream_producer_conflict"
    default_hint = (
        "Two writers use one producer id, or one was started anew and counts from 0 again: give each writer, and each "
        "start, an id of its own."
    )


class StreamFencedError(StreamError):
    """Another instance of the service has taken over the producers' state."""

    code = "stream_fenced"
    default_hint = "Send the request to the other instance, and stop this one; two services need two names (--name)."


class StreamNotAnsweredError(StreamError):
    """The brokers did not confirm a request in time: whether it is written is not known."""

    code = "stream_not_confirmed"
    retryable = True
    default_hint = (
        "Send it again. With Databus-Producer and Databus-Sequence it is written once, whatever became of the first "
        "attempt; without them it may then be there twice."
    )


class StreamPlaceGoneError(StreamError):
    """Records at a place are no longer, or not yet, in the topic.

    Attributes:
        earliest: first offset that is there.
    """

    code = "stream_place_gone"
    earliest: int = 0


class StreamDeliveryError(StreamError):
    """A delivery that is acknowledged is not open: it was acknowledged before, or delivered anew after its deadline."""

    code = "stream_delivery"
    default_hint = "Its records come again, or came to another reader: acknowledge the delivery that brought them last."
