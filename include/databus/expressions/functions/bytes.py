"""Functions of bytes, or of texts as their UTF-8: digests, Spark's hashes of rows, hex digits, Base64, URLs."""

from __future__ import annotations

import pyarrow as pa

from databus.expressions.functions.registry import Arguments, Kernel, Resolved, register
from databus.expressions.functions.signatures import converted_type, signature
from databus.expressions.text import binary, digests, row_hashes
from databus.expressions.text.values import Value, rowwise
from databus.expressions.types import INTEGERS


def _sha2(arguments: Arguments) -> Resolved:
    if len(arguments) != 2:
        raise arguments.refused()
    kind, _ = converted_type(arguments, 0, "bytes"), converted_type(arguments, 1, "int")
    bits = arguments.literal(1)
    if bits is None:
        raise arguments.refused("bits that are NULL")
    return Resolved("string", (kind, "int"), lambda data, _: digests.sha2(data, bits))


def _of_rows(result: str, kernel: Kernel) -> None:
    def resolved(arguments: Arguments) -> Resolved:
        if not len(arguments):
            raise arguments.refused()
        return Resolved(result, arguments.types, kernel, "all")

    register("hash" if result == "int" else "xxhash64", resolve=resolved)


def _hex(arguments: Arguments) -> Resolved:
    if len(arguments) == 1 and arguments.types[0] in INTEGERS:
        return Resolved("string", ("bigint",), binary.hex_of_number)
    return signature("string", ("bytes",), binary.hex_of_bytes)(arguments)


def _coded(arguments: Arguments) -> Resolved:
    """Return the resolution of `encode` and `decode` with UTF-8."""
    if len(arguments) != 2 or arguments.types[1] != "string" or str(arguments.literal(1)).lower() != "utf-8":
        raise arguments.refused("a character set other than UTF-8")
    if arguments.name == "encode":
        return Resolved(
            "binary", (converted_type(arguments, 0, "string"), "string"), lambda text, _: binary.encode_utf8(text)
        )
    if arguments.types[0] != "binary":
        raise arguments.refused()
    return Resolved("string", ("binary", "string"), lambda data, _: binary.decode_utf8(data))


def _always(value: Value) -> Value:
    """Return true for every text: those of a row are UTF-8, as the decoder and `decode` have checked."""
    return rowwise(pa.bool_(), lambda _: True, value)


register("sha2", resolve=_sha2)
register("sha", "sha1", resolve=signature("string", ("bytes",), digests.sha1))
register("md5", resolve=signature("string", ("bytes",), digests.md5))
register("crc32", resolve=signature("bigint", ("bytes",), digests.crc32))
_of_rows("int", row_hashes.murmur3)
_of_rows("bigint", row_hashes.xxhash64)
register("hex", resolve=_hex)
register("unhex", resolve=signature("binary", ("string",), binary.unhex))
register("unbase64", resolve=signature("binary", ("string",), binary.unbase64))
register("encode", "decode", resolve=_coded)
register("url_encode", resolve=signature("string", ("string",), binary.url_encode))
register("is_valid_utf8", resolve=signature("boolean", ("string",), _always))
register(
    *("make_valid_utf8", "validate_utf8", "try_validate_utf8"),
    resolve=signature("string", ("string",), lambda text: text),
)
