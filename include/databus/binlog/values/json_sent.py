"""JSON columns as a server sends them, in the text that decoding the log gives: no blanks, doubles as Python's `repr`.

The server writes a double by the same shortest digits (dtoa.c, `my_gcvt`), but changes to exponents elsewhere. What
it writes from 10^-15 on without an exponent may also be a DECIMAL, which the log's text gives digit by digit: below
10^-4 the two cannot be told apart by their text unless it has zeros at its end or too many digits, and count as double.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from databus.binlog.kernels.json_blanks import write_without_blanks

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.]*(?:e[-+]?[0-9]+)?')
_SMALL = re.compile(r"-?0\.0000")


def sent_json_texts(array: pa.StringArray) -> pa.StringArray:
    """Return the documents of a column, sent as text, as decoding the log writes them; NULL stays NULL.

    Args:
        array: texts that begin at the first slot of their buffers.
    """
    validity, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(array) + 1)
    data = np.frombuffer(data_buffer, np.uint8, int(offsets[-1])) if len(array) else np.empty(0, np.uint8)
    data.flags.writeable = offsets.flags.writeable = False  # the kernel is compiled once for each kind of array
    text, text_offsets = np.empty(len(data), np.uint8), np.zeros(len(array) + 1, np.int32)
    marked = np.zeros(len(array), np.uint8)
    found = write_without_blanks(data, offsets, text, text_offsets, marked)
    used = text[: int(text_offsets[-1])]
    buffers = [validity, pa.py_buffer(text_offsets), pa.py_buffer(used)]
    compact = pa.Array.from_buffers(pa.string(), len(array), buffers)
    if not found:
        return compact
    texts = compact.to_pylist()
    for row in np.flatnonzero(marked).tolist():
        if texts[row] is not None:
            texts[row] = _TOKEN.sub(_number, texts[row])
    return pa.array(texts, pa.string())


def _number(token: re.Match[str]) -> str:
    text = token[0]
    if text[0] == '"':
        return text
    if "e" in text:
        return repr(float(text))
    if _SMALL.match(text) and text[-1] != "0":
        double = repr(float(text))
        if double.partition("e")[0].replace(".", "").lstrip("-") == text.replace(".", "").lstrip("-0"):
            return double
    return text
