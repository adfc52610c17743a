"""Commands of every family that writes, and random ones; and values in every form that Redis 7.0 writes."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.integration.redis_server import Client, Word

FAR = 9_999_999_999_999
SCRIPT = "redis.call('INCR', KEYS[1]); redis.call('RPUSH', KEYS[2], ARGV[1], redis.call('GET', KEYS[1])); return 1"
LIBRARY = """#!lua name=shop
redis.register_function('twice', function(keys, args)
  redis.call('SET', keys[1], args[1]); return redis.call('APPEND', keys[1], args[1]) end)
"""

FAMILIES: dict[str, list[tuple[Word, ...]]] = {
    "strings": [
        ("SET", "s", "v"), ("SET", "s:ex", "v", "EX", 5000), ("SETEX", "s:setex", 5000, "v"), ("SETNX", "s:nx", "v"),
        ("PSETEX", "s:psetex", 5_000_000, "v"), ("MSET", "m1", "1", "m2", "2"), ("MSETNX", "m3", "3", "m4", "4"),
        ("APPEND", "s", "more"), ("SETRANGE", "s", 3, "xyz"), ("INCR", "n"), ("INCRBY", "n", 41), ("DECR", "n"),
        ("DECRBY", "n", 7), ("INCRBYFLOAT", "f", "3.25"), ("INCRBYFLOAT", "f", "0.1"), ("GETSET", "s:nx", "w"),
        ("GETDEL", "m4"), ("GETEX", "m1", "EX", 4000), ("SETBIT", "bits", 100, 1), ("BITOP", "NOT", "flipped", "bits"),
        ("BITFIELD", "field", "SET", "u8", 0, 200, "INCRBY", "i16", 8, 5), ("PFADD", "hll", "a", "b", "c"),
        ("PFADD", "hll2", "c", "d"), ("PFMERGE", "hll3", "hll", "hll2"), ("SET", "s:keep", "v", "PXAT", FAR),
        ("SET", "s:keep", "w", "KEEPTTL"),
    ],
    "lists": [
        ("RPUSH", "l", *range(200)), ("LPUSH", "l", "a", "b"), ("LPUSHX", "l", "c"), ("RPUSHX", "l", "d"),
        ("LINSERT", "l", "BEFORE", "a", "z"), ("LSET", "l", 0, "first"), ("LREM", "l", 1, "5"), ("LTRIM", "l", 0, 150),
        ("LPOP", "l", 2), ("RPOP", "l"), ("RPOPLPUSH", "l", "l2"), ("LMOVE", "l", "l2", "LEFT", "RIGHT"),
        ("LMPOP", 1, "l", "LEFT", "COUNT", 3), ("BLPOP", "l", 1), ("BLMOVE", "l", "l2", "LEFT", "LEFT", 1),
    ],
    "sets": [
        ("SADD", "set", *range(600)), ("SADD", "set2", "a", "b", 1, 2), ("SREM", "set", 5), ("SPOP", "set"),
        ("SPOP", "set", 3), ("SMOVE", "set", "set2", 7), ("SINTERSTORE", "set3", "set", "set2"),
        ("SUNIONSTORE", "set4", "set2", "set3"), ("SDIFFSTORE", "set5", "set", "set2"), ("SPOP", "set3", 100),
    ],
    "hashes": [
        ("HSET", "h", "a", 1, "b", "x" * 100), ("HSETNX", "h", "c", "3"), ("HINCRBY", "h", "a", 4),
        ("HINCRBYFLOAT", "h", "d", "1.5"), ("HDEL", "h", "b"), ("HMSET", "h2", "q", "w"),
        *[("HSET", "big", f"f{n}", n) for n in range(140)],
    ],
    "sorted sets": [
        ("ZADD", "z", 1, "a", 2, "b", "3.5", "c", "inf", "top", "-inf", "low"), ("ZADD", "z", "GT", "CH", 9, "a"),
        ("ZADD", "z", "INCR", 2, "b"), ("ZINCRBY", "z", "0.1", "c"), ("ZREM", "z", "low"), ("ZPOPMIN", "z"),
        ("ZPOPMAX", "z"), ("ZADD", "z2", *[word for n in range(150) for word in (n / 3, f"m{n}")]),
        ("ZREMRANGEBYRANK", "z2", 0, 3), ("ZREMRANGEBYSCORE", "z2", 2, 3), ("ZRANGESTORE", "z3", "z2", 0, 20),
        ("ZUNIONSTORE", "z4", 2, "z2", "z3", "WEIGHTS", 2, 3), ("ZINTERSTORE", "z5", 2, "z2", "z3"),
        ("ZDIFFSTORE", "z6", 2, "z2", "z3"), ("ZMPOP", 1, "z3", "MIN"), ("BZPOPMIN", "z3", 1),
        ("ZADD", "lex", 0, "a", 0, "b", 0, "c"), ("ZREMRANGEBYLEX", "lex", "[a", "(b"),
        ("GEOADD", "geo", "13.36", "38.11", "Palermo", "15.08", "37.5", "Catania"),
        ("GEOSEARCHSTORE", "near", "geo", "FROMMEMBER", "Palermo", "BYRADIUS", 300, "km", "ASC"),
    ],
    "streams": [
        ("XADD", "x", "*", "a", "1", "b", "2"), ("XADD", "x", "*", "a", "3", "b", "4"), ("XADD", "x", "*", "c", "5"),
        *[("XADD", "long", "MAXLEN", "~", 200, "*", "n", n, "t", "x" * (n % 70)) for n in range(300)],
        ("XGROUP", "CREATE", "x", "g", "0"), ("XGROUP", "CREATE", "made", "g2", "$", "MKSTREAM"),
        ("XREADGROUP", "GROUP", "g", "c1", "COUNT", 2, "STREAMS", "x", ">"),
        ("XGROUP", "CREATECONSUMER", "x", "g", "c2"),
        ("XAUTOCLAIM", "x", "g", "c2", 0, "0", "COUNT", 1), ("XREADGROUP", "GROUP", "g", "c2", "STREAMS", "x", ">"),
        ("XTRIM", "long", "MAXLEN", 150), ("XSETID", "made", "9-9"), ("XGROUP", "SETID", "x", "g", "$"),
        ("XADD", "gone", "1-1", "a", "b"), ("XDEL", "gone", "1-1"), ("XADD", "x", "NOMKSTREAM", "*", "z", "z"),
    ],
    "keys": [
        ("SET", "k", "v"), ("EXPIRE", "k", 5000), ("PERSIST", "k"), ("PEXPIREAT", "k", FAR),
        ("RENAME", "k", "k2"), ("SET", "k3", 1), ("RENAMENX", "k3", "k4"),
        ("COPY", "k2", "k5"), ("COPY", "k2", "k6", "DB", 3),
        ("MOVE", "k5", 2), ("SET", "d1", 1), ("SET", "d2", 1), ("DEL", "d1", "none"), ("UNLINK", "d2"),
        ("RPUSH", "unsorted", 3, 1, 2), ("SORT", "unsorted", "STORE", "sorted"),
        ("SET", "short", 1), ("PEXPIRE", "short", 1),
    ],
    "scripts": [
        ("EVAL", SCRIPT, 2, "counter", "trail", "one"), ("EVAL", SCRIPT, 2, "counter", "trail", "two"),
        ("FUNCTION", "LOAD", "REPLACE", LIBRARY), ("FCALL", "twice", 1, "doubled", "ab"), ("SCRIPT", "FLUSH"),
        ("EVAL", "redis.call('SELECT', 4); return redis.call('SET', KEYS[1], 'v')", 1, "elsewhere"),
    ],
    "transactions": [
        ("MULTI",), ("SET", "t1", 1), ("SELECT", 5), ("SET", "t2", 2), ("HSET", "t3", "a", "b"), ("SELECT", 0),
        ("DEL", "t1"), ("EXEC",), ("MULTI",), ("EXEC",), ("MULTI",), ("SET", "never", 1), ("DISCARD",),
        ("PUBLISH", "channel", "heard"),
    ],
    "databases": [
        ("SET", "lost", 1), ("SELECT", 1), ("SET", "lost too", 1), ("FLUSHALL",), ("SELECT", 0), ("SET", "stays", 1),
        ("SELECT", 7), ("SET", "seven", 7), ("SELECT", 8), ("SET", "eight", 8), ("SWAPDB", 7, 8), ("SELECT", 9),
        ("SET", "nine", 9), ("FLUSHDB",), ("SELECT", 0),
    ],
}  # fmt: skip


def fill(client: Client) -> None:
    """Make values in every form that Redis 7.0 writes, with sizes around the limits between forms."""
    client("DEBUG", "QUICKLIST-PACKED-THRESHOLD", "300b")
    edges = [0, 127, 128, 32767, 32768, 2147483647, 2147483648, (1 << 63) - 1]
    commands: list[tuple[Word, ...]] = []
    for number in edges:
        for signed in (number, -number - 1):
            commands += [("SET", f"int:{signed}", signed), ("RPUSH", "ints", signed)]
            commands += [("ZADD", "scores", signed, signed)]
    for size in (0, 1, 19, 20, 21, 44, 45, 63, 64, 65, 253, 254, 16383, 16384, 70_000):
        commands += [("SET", f"same:{size}", "a" * size)]
        commands += [("SET", f"random:{size}", random.Random(size).randbytes(size))]
        commands += [("RPUSH", f"list:{size}", "x" * size, "y" * 10, "z" * size)]
        commands += [("HSET", f"hash:{size}", "f", "v" * size), ("SADD", f"set:{size}", "m" * size)]
        commands += [("ZADD", f"zset:{size}", "1.5", "m" * size)]
        commands += [("XADD", f"stream:{size}", f"5-{size + 1}", "f", "v" * size)]
    for count in (1, 127, 128, 129, 511, 512, 513, 3000):
        commands += [("RPUSH", f"items:{count}", *range(count)), ("SADD", f"intset:{count}", *range(count))]
        commands += [("SADD", f"members:{count}", *(f"m{n}" for n in range(count)))]
        commands += [("HSET", f"fields:{count}", *(word for n in range(count) for word in (f"f{n}", n)))]
        commands += [("ZADD", f"ranked:{count}", *(word for n in range(count) for word in (n / 7, f"m{n}")))]
        commands += [("XADD", f"log:{count}", "*", "n", n, f"f{n % 5}", "x") for n in range(count)]
    for exponent in (15, 31, 63):
        commands += [("SADD", f"wide:{exponent}", (1 << exponent) - 1, -(1 << exponent), 0)]
    commands += [("ZADD", "extremes", "inf", "a", "-inf", "b", "1e300", "c", "-0.1", "d", "1e17", "e")]
    commands += [("SET", "expires", 1, "PXAT", FAR), ("SELECT", 11), ("SET", b"\x00\xff\r\n", b"\xfe\x00")]
    commands += [("SELECT", 0), ("XDEL", "log:129", "0-1"), ("XGROUP", "CREATE", "log:128", "g", "0")]
    commands += [("XREADGROUP", "GROUP", "g", "c", "COUNT", 20, "STREAMS", "log:128", ">")]
    commands += [("XGROUP", "CREATE", "log:127", "old", "$", "ENTRIESREAD", 5), ("XTRIM", "log:513", "MAXLEN", 77)]
    commands += [("FUNCTION", "LOAD", "REPLACE", LIBRARY)]
    client.pipeline(commands)
    some = [entry[0] for entry in client("XRANGE", "log:512", "-", "+", "COUNT", 40)]
    client("XDEL", "log:512", *some[::3])


def random_commands(seed: int, count: int) -> Iterator[tuple[Word, ...]]:
    """Commands over few keys of three databases; some are refused for a key of another kind."""
    draw = random.Random(seed)
    for number in range(count):
        key, word = f"r{draw.randrange(12)}", f"w{draw.randrange(20)}"
        yield draw.choice(
            [
                ("SELECT", draw.randrange(3)), ("SET", f"s{key}", number), ("APPEND", f"s{key}", word),
                ("RPUSH", f"l{key}", word, number), ("LPOP", f"l{key}"),
                ("SADD", f"set{key}", word), ("SPOP", f"set{key}"),
                ("HSET", f"h{key}", word, number), ("HDEL", f"h{key}", word), ("ZADD", f"z{key}", number / 3, word),
                ("ZPOPMIN", f"z{key}"), ("XADD", f"x{key}", "MAXLEN", 50, "*", word, number),
                ("INCRBYFLOAT", "f", "0.25"),
                ("EVAL", SCRIPT, 2, f"n{key}", f"l{key}", word), ("PEXPIRE", f"s{key}", 10_000_000),
                # A name of its own: the copy expires it by its own clock, so what came later would find none.
                ("PSETEX", f"brief{key}", 1, word),
                ("COPY", f"h{key}", f"copy{key}", "REPLACE"), ("DEL", f"z{key}"),
            ]
        )  # fmt: skip
