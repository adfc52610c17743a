"""Errors of programs that read changes (`databus.consumer`)."""

from __future__ import annotations

from databus.core.errors.root import DatabusError


class ConsumerError(DatabusError):
    """Reading changes failed."""

    code = "consumer_error"


class MessageFormatError(ConsumerError):
    """A record is in none of the forms that databus reads."""

    code = "consumer_format"
    default_hint = (
        "Nothing behind it was acknowledged. Read topics of row changes alone (`topics=`), and name the topic of BEGIN "
        "and END as transaction_topic."
    )


class RowTypeError(ConsumerError):
    """A row does not fit the class that it was to become."""

    code = "consumer_row"
    default_hint = "Change the class, or take the row as it is: change.after."


class PlaceGoneError(ConsumerError):
    """Records at the consumer's place are no longer in the topic: what stood between was not read."""

    code = "consumer_place_gone"
    default_hint = (
        "Rows in between are lost to this consumer. Let the flow take a snapshot of the tables, then begin with a new "
        "group, or with an empty checkpoint."
    )


class StoredPlaceMovedError(ConsumerError):
    """The stored checkpoint is not the one that this consumer goes on from."""

    code = "consumer_checkpoint_moved"
    retryable = True
    default_hint = (
        "Roll the transaction back and call changes.rewind(): reading goes on from the stored checkpoint. It was moved "
        "by another consumer of that name, or the transaction of a former save was rolled back."
    )


class StoredPlaceError(ConsumerError):
    """A checkpoint cannot be read or written."""

    code = "consumer_checkpoint"


class StoredPlaceBusyError(ConsumerError):
    """Another process has the checkpoint file open."""

    code = "consumer_checkpoint_busy"
    default_hint = "Stop the other process, or give each one a file of its own and a share of the partitions (share=)."


class SpillFullError(ConsumerError):
    """Open transactions take more disk than they may."""

    code = "consumer_spill_full"
    default_hint = "Raise disk_bytes of transactions(), or lower its patience_s; nothing of them was acknowledged."


class StateTopicError(ConsumerError):
    """A state topic is missing, or is not one that a consumer can begin with."""

    code = "consumer_state_topic"
    default_hint = (
        'Let the flow keep it: Kafka(name="state", topic="state.{route}", envelope="row", '
        'topic_config={"cleanup.policy": "compact"}), with the partitions, keys and tables of the topic of changes.'
    )


class StateBehindError(ConsumerError):
    """The sink of a state topic and that of the changes did not come to the same batch in time."""

    code = "consumer_state_behind"
    retryable = True
    default_hint = (
        "Look whether the flow runs and both sinks are up (`databus lag`), and whether flow, sink and installation of "
        "StateTopic are right; then begin again, or raise its patience_s."
    )


class StateLostError(ConsumerError):
    """A state could not be read before retention had passed what comes behind it."""

    code = "consumer_state_lost"
    retryable = True
    default_hint = (
        "Raise retention.ms of the topic of changes and delete.retention.ms of the state topic above the time that "
        "reading takes, or share the partitions out to more consumers."
    )
