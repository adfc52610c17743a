from __future__ import annotations

import pytest

from databus.checkpoints.codec import MAX_WRITE_BYTES, check_size, decode, decode_as, encode
from databus.core.errors import CheckpointFormatError, CheckpointTooLargeError
from databus.core.state.checkpoint import Checkpoint


def test_what_was_encoded_is_decoded() -> None:
    assert encode({"v": 1, "b": "ü", "a": 1}) == '{"a":1,"b":"ü","v":1}'.encode()
    assert decode(encode({"v": 1, "a": 1}), "thing") == {"v": 1, "a": 1}


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"null", b"7", b'"text"', b"[]", b"{}", b'{"v": 2}', b'{"v": "1"}']
)
def test_anything_else_is_named(data: bytes) -> None:
    with pytest.raises(CheckpointFormatError, match="checkpoint of flow orders"):
        decode_as(data, "checkpoint of flow orders", Checkpoint.from_json)


@pytest.mark.parametrize(
    "offset",
    ['"x"', "null", '{"kind": "binlog", "file": "nonsense", "pos": 4}', '{"kind": "sequence"}'],
)
def test_fields_of_the_wrong_kind_are_format_errors(offset: str) -> None:
    data = f'{{"v": 1, "offset": {offset}, "batch": 1}}'.encode()
    with pytest.raises(CheckpointFormatError):
        decode_as(data, "checkpoint of flow orders", Checkpoint.from_json)


def test_the_bound_is_256_kib() -> None:
    assert MAX_WRITE_BYTES == 262_144
    check_size(MAX_WRITE_BYTES - 1, "the commit")
    with pytest.raises(CheckpointTooLargeError, match="the commit would write 262144 bytes") as caught:
        check_size(MAX_WRITE_BYTES, "the commit")
    assert not caught.value.retryable
