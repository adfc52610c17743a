"""Digests of bytes, or of texts as their UTF-8, in hex digits: MD5, SHA-1, SHA-2, and CRC-32 as a number.

All are standards with one value for each input, which `hashlib` and `zlib` give; Spark writes digests in lower case.
"""

from __future__ import annotations

from databus.expressions.functions.registry import Arguments, Resolved, register
from databus.expressions.functions.signatures import converted_type, signature
from databus.expressions.text import digests


def _sha2(arguments: Arguments) -> Resolved:
    if len(arguments) != 2:
        raise arguments.refused()
    kind, _ = converted_type(arguments, 0, "bytes"), converted_type(arguments, 1, "int")
    bits = arguments.literal(1)
    if bits is None:
        raise arguments.refused("bits that are NULL")
    return Resolved("string", (kind, "int"), lambda data, _: digests.sha2(data, bits))


register("sha2", resolve=_sha2)
register("sha", "sha1", resolve=signature("string", ("bytes",), digests.sha1))
register("md5", resolve=signature("string", ("bytes",), digests.md5))
register("crc32", resolve=signature("bigint", ("bytes",), digests.crc32))
