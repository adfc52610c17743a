"""Character sets of MySQL and MariaDB: from the collation number of a column to its text.

Numbers: information_schema.COLLATIONS of MySQL 8.0 and MariaDB 10.11. What a code means is what the server's CONVERT(…
USING utf8mb4) gives.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from databus.binlog.values.charset_tables import MULTI_BYTE, SINGLE_BYTE, UNDEFINED

BINARY_COLLATION = 63

_COLLATIONS: dict[str, str] = {
    "big5": "1 84",
    "latin2": "2 9 21 27 77",
    "dec8": "3 69",
    "cp850": "4 80",
    "latin1": "5 8 15 31 47-49 94",
    "hp8": "6 72",
    "koi8r": "7 74",
    "swe7": "10 82",
    "ascii": "11 65",
    "ujis": "12 91",
    "sjis": "13 88",
    "cp1251": "14 23 50-52",
    "hebrew": "16 71",
    "tis620": "18 89",
    "euckr": "19 85",
    "latin7": "20 41-42 79",
    "koi8u": "22 75",
    "gb2312": "24 86",
    "greek": "25 70",
    "cp1250": "26 34 44 66 99",
    "gbk": "28 87",
    "cp1257": "29 58-59",
    "latin5": "30 78",
    "armscii8": "32 64",
    "utf8mb3": "33 76 83 192-215 223 576-578 2048-2303",
    "ucs2": "35 90 128-151 159 640-642 2560-2815",
    "cp866": "36 68",
    "keybcs2": "37 73",
    "macce": "38 43",
    "macroman": "39 53",
    "cp852": "40 81",
    "utf8mb4": "45-46 224-247 255-330 608-610 2304-2559",
    "utf16": "54-55 101-124 672-674 2816-3071",
    "utf16le": "56 62",
    "cp1256": "57 67",
    "utf32": "60-61 160-183 736-738 3072-3327",
    "binary": "63",
    "geostd8": "92-93",
    "cp932": "95-96",
    "eucjpms": "97-98",
    "gb18030": "248-250",
}
"""Collation numbers of each character set; MariaDB's NO PAD twins at number + 1024 are added by rule."""

_MAX_BYTES = {
    "big5": 2,
    "cp932": 2,
    "eucjpms": 3,
    "euckr": 2,
    "gb18030": 4,
    "gb2312": 2,
    "gbk": 2,
    "sjis": 2,
    "ucs2": 2,
    "ujis": 3,
    "utf16": 4,
    "utf16le": 4,
    "utf32": 4,
    "utf8mb3": 3,
    "utf8mb4": 4,
}

_CODECS = {
    "cp932": "cp932",
    "euckr": "cp949",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
}

_CHARACTER = {
    "big5": re.compile(rb"[\x81-\xfe].|.", re.DOTALL),
    "sjis": re.compile(rb"[\x81-\x9f\xe0-\xfc].|.", re.DOTALL),
    "ujis": re.compile(rb"\x8f..|[\x8e\xa1-\xfe].|.", re.DOTALL),
    "eucjpms": re.compile(rb"\x8f..|[\x8e\xa1-\xfe].|.", re.DOTALL),
}


@dataclass(frozen=True)
class Charset:
    """Character set: how its bytes become text.

    Attributes:
        name: the server's name for it.
        max_bytes: most bytes one character takes.
        table: for single-byte sets the character of each byte, UNDEFINED where there is none; "" otherwise.
    """

    name: str
    max_bytes: int
    table: str
    _decode: Callable[[bytes], str] = field(repr=False, compare=False)

    @property
    def binary(self) -> bool:
        """Return whether these are bytes, not text."""
        return self.name == "binary"

    @property
    def utf8(self) -> bool:
        """Return whether stored bytes are UTF-8 as they stand."""
        return self.name in ("utf8mb4", "utf8mb3", "ascii")

    def decode(self, data: bytes) -> str:
        """Return the text of stored bytes.

        Raises:
            UnicodeError: the bytes are not text of this character set.
        """
        return self._decode(data)


def _expand(ranges: str) -> list[int]:
    numbers: list[int] = []
    for part in ranges.split():
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


@functools.cache
def _names() -> dict[int, str]:
    names = {number: name for name, ranges in _COLLATIONS.items() for number in _expand(ranges)}
    twins = {number + 1024: name for number, name in names.items() if number < 512}
    return twins | names


def _single_byte(name: str) -> Charset:
    codec, wrong, right = SINGLE_BYTE[name]
    table = [UNDEFINED if c == "\ufffd" else c for c in bytes(range(256)).decode(codec, "replace")]
    for byte, character in zip(bytes.fromhex(wrong), right, strict=True):
        table[byte] = character
    text = "".join(table)

    def decode(data: bytes) -> str:
        decoded = data.decode("latin-1").translate(text)
        if UNDEFINED in decoded:
            raise UnicodeError(f"byte {data[decoded.index(UNDEFINED)]:#04x} is not defined in {name}")
        return decoded

    return Charset(name, 1, text, decode)


def _user_defined(code: bytes) -> str | None:
    """Return the private-use character of rows 0xF5 and above in ujis and eucjpms.

    There are 940 two-byte codes, then 940 three-byte ones.
    """
    row, cell = code[-2] - 0xF5, code[-1] - 0xA1
    if not 0 <= row < 10 or not 0 <= cell < 94:
        return None
    return chr((0xE000 if len(code) == 2 else 0xE3AC) + row * 94 + cell)


def _corrected(name: str) -> Charset:
    codec, codes, characters = MULTI_BYTE[name]
    known = dict(zip((bytes.fromhex(c) for c in codes.split()), characters, strict=True))
    split = _CHARACTER[name]

    def one(code: bytes) -> str:
        found = known.get(code)
        if found is None:
            found = _user_defined(code) if name in ("ujis", "eucjpms") and len(code) > 1 else None
            known[code] = found = found or code.decode(codec)
        return found

    def decode(data: bytes) -> str:
        return data.decode("ascii") if data.isascii() else "".join(map(one, split.findall(data)))

    return Charset(name, _MAX_BYTES[name], "", decode)


_GB18030_CORRECTED = {0x1E3F: "\ue7c7", 0xE7C7: "\u1e3f"}
"""Characters whose codes the standard exchanged in 2005: the servers follow it, the codec is of 2000."""


def _gb18030(data: bytes) -> str:
    return data.decode("gb18030").translate(_GB18030_CORRECTED)


def _ucs2(data: bytes) -> str:
    text = data.decode("utf-16-be")
    if text and max(text) > "\uffff":  # to the servers a surrogate pair is two codes without a character
        raise UnicodeError("a surrogate pair is no character of ucs2")
    return text


_DECODERS: dict[str, Callable[[bytes], str]] = {"gb18030": _gb18030, "ucs2": _ucs2}


@functools.cache
def charset_named(name: str) -> Charset:
    """Return a character set by the server's name.

    Raises:
        KeyError: no server here has it.
    """
    if name in SINGLE_BYTE:
        return _single_byte(name)
    if name in MULTI_BYTE:
        return _corrected(name)
    if name in _DECODERS:
        return Charset(name, _MAX_BYTES[name], "", _DECODERS[name])
    codec = "latin-1" if name == "binary" else _CODECS[name]
    return Charset(name, _MAX_BYTES.get(name, 1), "", lambda data: data.decode(codec))


def charset_of(collation: int) -> Charset:
    """Return the character set of a collation number.

    Raises:
        KeyError: the number is of no collation that MySQL 8.0 or MariaDB 10.11 has.
    """
    return charset_named(_names()[collation])
