"""Values of every kind, drawn: sizes around the limits of forms, numbers beside texts."""

from __future__ import annotations

from hypothesis import strategies as st

from databus.redis.rdb.values import Consumer, Group, Pending, Stream, StreamEntry, StreamId

EDGES = [0, 1, 12, 13, 127, 128, 4095, 4096, 32767, 32768, 8388607, 8388608, 2147483647, 2147483648, (1 << 63) - 1]
numbers = st.sampled_from([sign * edge for edge in EDGES for sign in (1, -1)] + [-(1 << 63), -(1 << 31)]) | st.integers(
    -(1 << 63), (1 << 63) - 1
)
sizes = st.sampled_from([0, 1, 63, 64, 253, 254, 4095, 4096, 16383, 16384])
texts = (
    st.binary(max_size=40)
    | numbers.map(lambda number: b"%d" % number)
    | st.builds(lambda size, byte: bytes([byte]) * size, sizes, st.integers(0, 255))
    | st.sampled_from([b"007", b"-0", b"+1", b" 1", b"1.5", b"18446744073709551615"])
)
scores = st.floats(allow_nan=False).map(lambda score: 0.0 if score == 0 else score) | st.integers(-1000, 1000).map(
    float
)
lists = st.lists(texts, min_size=1, max_size=12)
sets = st.sets(texts, min_size=1, max_size=12)
number_sets = st.sets(numbers.map(lambda number: b"%d" % number), min_size=1, max_size=12)
hashes = st.dictionaries(texts, texts, min_size=1, max_size=8)
sorted_sets = st.dictionaries(texts, scores, min_size=1, max_size=8)

words = st.integers(0, (1 << 64) - 1)


@st.composite
def streams(draw, version: int = 2) -> Stream:
    ids = [StreamId(*pair) for pair in sorted(draw(st.sets(st.tuples(words, words), max_size=8)))]
    ids = [identity for identity in ids if identity > (0, 0)]
    shared = draw(st.lists(texts, min_size=1, max_size=3))
    entries = []
    for identity in ids:
        names = shared if draw(st.booleans()) else draw(st.lists(texts, min_size=1, max_size=3))
        entries.append(StreamEntry(identity, tuple((name, draw(texts)) for name in names)))
    last = StreamId(*draw(st.tuples(words, words)))
    last = max([last, *ids])
    groups = []
    for name in draw(st.sets(texts, max_size=2)):
        consumers = tuple(
            Consumer(consumer, draw(st.integers(0, 1 << 42))) for consumer in sorted(draw(st.sets(texts, max_size=3)))
        )
        owned = ids if consumers else []
        pending = tuple(
            Pending(
                identity,
                draw(st.integers(0, 1 << 42)),
                draw(st.integers(1, 300)),
                draw(st.sampled_from(consumers)).name,
            )
            for identity in owned
            if draw(st.booleans())
        )
        read = draw(st.none() | st.integers(0, 1 << 40)) if version > 1 else None
        groups.append(Group(name, draw(st.sampled_from([*ids, StreamId(0, 0)])), read, pending, consumers))
    if version == 1:
        return Stream(tuple(entries), last, None, None, None, tuple(groups))
    deleted = StreamId(0, 0)
    first = ids[0] if ids else StreamId(0, 0)
    return Stream(tuple(entries), last, first, deleted, draw(st.integers(len(ids), 1 << 40)), tuple(groups))


BY_CODE = {
    0: texts,
    1: lists,
    2: sets,
    3: sorted_sets,
    4: hashes,
    5: sorted_sets,
    9: hashes,
    10: lists,
    11: number_sets,
    12: sorted_sets,
    13: hashes,
    14: lists,
    15: streams(version=1),
    16: hashes,
    17: sorted_sets,
    18: lists,
    19: streams(),
}
"""Type byte → values of its kind."""
