"""Ways to damage a file, each chosen by a seed: bytes, words, numbers, lines, what gzip holds."""

import gzip
import random
from collections.abc import Callable, Sequence
from functools import partial

# Words that some reader may take for a number, a mark, an end, an escape, or a place to stop.
NASTY = [
    *b"nan inf -inf 1e309 -1e309 1e-400 1e5 100000 1.5 -0 0 -1 0x10 1_0 2147483648".split(),
    *b"-9223372036854775809 99999999999999999999 /dev/null .. . - true null".split(),
    *b"||| || | = Name= - 0-0= 3- <s> </s> <unk> <null> &#124; &apos;".split(),
    *b"[ ] [[ { } \" ' \\ #".split(),
    *(b"9" * 5000, b"1." + b"3" * 400, b"a" * 3000, b"\xc3\xa9" * 500),
    *(b"", b"\t", b"  ", b"= ", b" ||| ||| ", b"\r", b"\n", b"\r\n", b"\x0b", b"\x0c"),
    *(b"\x00", b"\x07", b"\x1b[31m", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"\xe2\x80\xa8", b"\xc2\x85"),
]

# What hangs a reader that takes more than linear time, or goes deeper with each bracket.
LONG = [b"9" * 60_000 + b"x", b"a" * 300_000, b"[" * 100_000, b'{"a":' * 100_000]
_COPIES = 20_000
_LONG_SHARE = 1 / 200  # they take most of the time

_Mutation = Callable[[bytes, random.Random], bytes]


def mutate(data: bytes, numbers: random.Random, *, is_gzip: bool = False) -> bytes:
    """Return a file that was damaged in one to three ways.

    :param is_gzip: mostly what it holds is damaged, sometimes the compressed bytes.
    """
    if is_gzip and numbers.random() < 0.7:
        return gzip.compress(mutate(gzip.decompress(data), numbers), 1, mtime=0)
    if numbers.random() < _LONG_SHARE:
        return numbers.choice(_LONG_MUTATIONS)(data, numbers)
    for _ in range(numbers.choice([1, 1, 1, 2, 3])):
        data = numbers.choice(_MUTATIONS)(data, numbers)
    return data


def _place(data: bytes, numbers: random.Random) -> int:
    return numbers.randrange(len(data) + 1)


def _flip(data: bytes, numbers: random.Random) -> bytes:
    if not data:
        return b"\x00"
    place = numbers.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << numbers.randrange(8)]) + data[place + 1 :]


def _cut(data: bytes, numbers: random.Random) -> bytes:
    return data[: _place(data, numbers)]


def _remove(data: bytes, numbers: random.Random) -> bytes:
    start = _place(data, numbers)
    return data[:start] + data[start + numbers.choice([1, 2, 5, 50]) :]


def _insert(data: bytes, numbers: random.Random, chosen: Sequence[bytes] = NASTY) -> bytes:
    place = _place(data, numbers)
    return data[:place] + numbers.choice(chosen) + data[place:]


def _empty(_data: bytes, _numbers: random.Random) -> bytes:
    return b""


def _lines(change: Callable[[list[bytes], int, random.Random], None]) -> _Mutation:
    def changed(data: bytes, numbers: random.Random) -> bytes:
        lines = data.split(b"\n")
        change(lines, numbers.randrange(len(lines)), numbers)
        return b"\n".join(lines)

    return changed


def _words(separators: bytes, chosen: Sequence[bytes] = NASTY) -> _Mutation:
    def change(lines: list[bytes], place: int, numbers: random.Random) -> None:
        separator = bytes([numbers.choice(separators)])
        words = lines[place].split(separator)
        words[numbers.randrange(len(words))] = numbers.choice(chosen)
        lines[place] = separator.join(words)

    return _lines(change)


def _repeat(lines: list[bytes], place: int, numbers: random.Random) -> None:
    words = lines[place].split(b" ")
    at = numbers.randrange(len(words))
    lines[place] = b" ".join([*words[:at], *[words[at]] * _COPIES, *words[at:]])


def _swap(lines: list[bytes], place: int, numbers: random.Random) -> None:
    other = numbers.randrange(len(lines))
    lines[place], lines[other] = lines[other], lines[place]


_MUTATIONS: list[_Mutation] = [
    *(_flip, _flip, _cut, _remove, _insert, _insert, _empty),
    *[_words(b" "), _words(b' \t=:,-"')] * 3,
    _lines(lambda lines, place, _: lines.remove(lines[place])),
    _lines(lambda lines, place, _: lines.insert(place, lines[place])),
    _lines(lambda lines, place, _: lines.insert(place, b"")),
    _lines(lambda lines, place, numbers: lines.extend(lines[place:] * numbers.choice([1, 20]))),
    _lines(_swap),
]
_LONG_MUTATIONS: list[_Mutation] = [
    partial(_insert, chosen=LONG),
    *(_words(b" ", LONG), _words(b' \t=:,-"', LONG)),
    _lines(_repeat),
]
