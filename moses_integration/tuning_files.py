"""Read what Moses' extractor makes for its tuners: feature values and statistics.

A file is a row of blocks, one a sentence::

    FEATURES_TXT_BEGIN_0 0 2 3 LM0_0 TranslationModel0_0 TranslationModel0_1
    -50.6981 -3.21417 -5.746
    -50.6981 -3.33274 -5.746
    FEATURES_TXT_END_0

The header has the number of the sentence, of its hypotheses, of values in a line, and a name with a
place for each value; of scores (``SCORES_TXT_BEGIN_0``) the name of the metric instead. Sparse
features follow the others in a line as ``Name=value``. The layout is that of mert/FeatureArray.cpp,
FeatureStats.cpp and ScoreArray.cpp, which read ``nan`` and ``inf``, and lines with too few numbers,
without a word; all of them are refused here. Moses keeps the values as float32.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest import LARGEST_VALUE, parse_number
from phrasescore.errors import DataError
from phrasescore.io.text import decode, read_blocks, shorten, split_block
from phrasescore.records import FeatureLabel

Values = NDArray[np.float64]
Integers = NDArray[np.int64]

# mert/BleuScorer.cpp: matches and n-grams of each order in turn, then the reference length. Here in
# the order of tuning.bleu: all matches, all n-grams, the reference length.
BLEU_ORDER = (0, 2, 4, 6, 1, 3, 5, 7, 8)

_FEATURES = "FEATURES"
_SCORES = "SCORES"
_NUMBERS = b"0123456789.+-eE \n"


class FeatureLists(NamedTuple):
    """The feature values of all hypotheses."""

    path: str
    # One a column; sparse features last, in order of appearance.
    labels: tuple[FeatureLabel, ...]
    # (hypotheses, labels); 0 for a sparse feature that a hypothesis lacks.
    values: Values
    # The numbers of the sentences, and the line of each one's header, from 1 on.
    ids: tuple[int, ...]
    lines: tuple[int, ...]
    # (sentences + 1,): the hypotheses of a sentence are rows starts[s]:starts[s + 1].
    starts: Integers


class ScoreLists(NamedTuple):
    """The statistics of all hypotheses."""

    path: str
    # The metric, such as BLEU.
    metric: str
    # (hypotheses, numbers), in the order of the file.
    values: Values
    ids: tuple[int, ...]
    lines: tuple[int, ...]
    starts: Integers

    def bleu_statistics(self) -> Values:
        """Return the statistics in the order of `tuning.bleu`.

        :raises DataError: if they are those of another metric.
        """
        if self.metric != "BLEU" or self.values.shape[1] != len(BLEU_ORDER):
            found = f"{self.values.shape[1]} of {self.metric}"
            problem = f"expected 9 statistics of BLEU (extractor --sctype BLEU), found {found}"
            raise DataError(self.path, self.lines[0], problem)
        return self.values[:, BLEU_ORDER]


class _Block(NamedTuple):
    """A sentence's part of a file."""

    # 1-based.
    line: int
    id: int
    size: int
    width: int
    # What follows in the header.
    rest: str
    body: bytes


def read_features(path: str) -> FeatureLists:
    """Return the feature values of a file as Moses' extractor writes it.

    :param path: text or gzip; ``-`` is stdin.
    :raises DataError: naming file and line, if a header, a number or a name is not what it should
        be, or a block is cut off.
    """
    blocks = []
    sparse: dict[str, int] = {}
    parts: list[Values] = []
    entries: list[tuple[int, int, float]] = []  # row, sparse feature, value
    first = None
    rows = 0
    for block in _blocks(path, _FEATURES):
        first = first or block
        if (block.width, block.rest) != (first.width, first.rest):
            problem = f"expected the features of the first sentence, {shorten(first.rest)}"
            raise DataError(path, block.line, f"{problem}, found {shorten(block.rest)}")
        values = _plain_values(block)
        if values is None:
            values, found = _any_values(path, block)
            for row, name, value in found:
                entries.append((rows + row, sparse.setdefault(name, len(sparse)), value))
        parts.append(values)
        rows += block.size
        blocks.append(block._replace(body=b""))
    assert first is not None
    labels = _parse_labels(path, first)
    dense = np.concatenate(parts)
    if sparse:
        dense = np.concatenate([dense, np.zeros((rows, len(sparse)))], axis=1)
        for row, column, value in entries:
            dense[row, first.width + column] = value
    labels += tuple(FeatureLabel(name, 0) for name in sparse)
    return FeatureLists(path, labels, dense, *_places(path, blocks))


def read_scores(path: str) -> ScoreLists:
    """Return the statistics of a file as Moses' extractor writes it.

    :raises DataError: as `read_features`.
    """
    blocks = []
    parts = []
    first = None
    for block in _blocks(path, _SCORES):
        first = first or block
        if (block.width, block.rest) != (first.width, first.rest):
            problem = f"expected {first.width} numbers of {first.rest} as before"
            raise DataError(path, block.line, f"{problem}, found {block.width} of {block.rest}")
        values = _plain_values(block)
        if values is None:
            values, found = _any_values(path, block)
            if found:
                line = block.line + 1 + found[0][0]
                raise DataError(path, line, f"expected numbers, found {shorten(found[0][1])}")
        parts.append(values)
        blocks.append(block._replace(body=b""))
    assert first is not None
    return ScoreLists(path, first.rest, np.concatenate(parts), *_places(path, blocks))


def check_pair(features: FeatureLists, scores: ScoreLists) -> None:
    """Check that two files are about the same hypotheses.

    :raises DataError: naming the first sentence where they differ.
    """
    sizes = np.diff(features.starts).tolist(), np.diff(scores.starts).tolist()
    for place, (one, other) in enumerate(
        zip(
            zip(features.ids, sizes[0], strict=True), zip(scores.ids, sizes[1], strict=True),
            strict=False,
        )
    ):  # fmt: skip
        if one != other:
            where = f"{features.path}:{features.lines[place]}"
            problem = f"expected sentence {one[0]} with {one[1]} hypotheses, as {where} has"
            found = f"sentence {other[0]} with {other[1]}"
            raise DataError(scores.path, scores.lines[place], f"{problem}, found {found}")
    if len(features.ids) != len(scores.ids):
        problem = f"expected {len(features.ids):,} sentences, as {features.path} has"
        raise DataError(scores.path, None, f"{problem}, found {len(scores.ids):,}")


def _blocks(path: str, kind: str) -> Iterator[_Block]:
    """Yield the blocks of a file; there is at least one."""
    end = f"{kind}_TXT_END_0".encode()
    pieces: list[bytes] = []
    number = 1  # of the line that the pieces begin with
    found_any = False
    for text in read_blocks(path):
        start = 0
        while (place := text.find(end, start)) >= 0:
            pieces.append(text[start:place])
            content = b"".join(pieces)
            yield _parse_block(path, kind, number, content)
            found_any = True
            number += content.count(b"\n") + 1
            start = text.find(b"\n", place) + 1 or len(text)
            pieces = []
        pieces.append(text[start:])
    rest = b"".join(pieces)
    if rest.strip():
        header = rest.partition(b"\n")[0]
        _parse_header(path, kind, number, header)
        problem = f"the block that begins here has no {end.decode()}: the file is cut off"
        raise DataError(path, number, problem)
    if not found_any:
        raise DataError(path, None, f"expected blocks of {kind}_TXT_BEGIN_0, found nothing")


def _parse_block(path: str, kind: str, number: int, content: bytes) -> _Block:
    header, _, body = content.partition(b"\n")
    block = _parse_header(path, kind, number, header)._replace(body=body)
    lines = body.count(b"\n")
    if lines != block.size:
        problem = f"expected {block.size} lines after this header, found {lines}"
        raise DataError(path, number, problem)
    return block


def _parse_header(path: str, kind: str, number: int, raw: bytes) -> _Block:
    line = decode(path, number, raw)
    words = line.split()
    name = f"{kind}_TXT_BEGIN_0"
    if words[:1] == [f"{kind}_BIN_BEGIN_0"]:
        problem = "this is a binary file; let the extractor write text (without --binary)"
        raise DataError(path, number, problem)
    if words[:1] != [name] or len(words) < 4 or not all(word.isdigit() for word in words[1:4]):
        problem = f"expected '{name} sentence hypotheses values ...', found {shorten(line)}"
        raise DataError(path, number, problem)
    identity, size, width = map(int, words[1:4])
    if size < 1:
        raise DataError(path, number, f"sentence {identity} has no hypotheses")
    return _Block(number, identity, size, width, " ".join(words[4:]), b"")


def _parse_labels(path: str, block: _Block) -> tuple[FeatureLabel, ...]:
    """Return the labels that a header of features names."""
    names = block.rest.split()
    if len(names) != block.width:
        problem = f"expected the names of {block.width} values in the header, found {len(names)}"
        raise DataError(path, block.line, problem)
    labels: list[FeatureLabel] = []
    for text in names:
        name, separator, place = text.rpartition("_")
        expected = 1 + max((at for other, at in labels if other == name), default=-1)
        if not separator or not name or "=" in name or place != str(expected):
            problem = f"expected a name and the place of a value, as in 'LM0_0', found {text!r}"
            raise DataError(path, block.line, problem)
        labels.append(FeatureLabel(name, expected))
    return tuple(labels)


def _plain_values(block: _Block) -> Values | None:
    """Return (hypotheses, values) of a block of numbers; None where a line needs a closer look."""
    if block.body.translate(None, _NUMBERS):
        return None
    rows = [line.split() for line in split_block(block.body)]
    if any(len(row) != block.width for row in rows):
        return None
    try:
        values = np.fromiter(map(float, chain.from_iterable(rows)), np.float64)
    except ValueError:
        return None
    if not np.abs(values).max(initial=0.0) <= LARGEST_VALUE:
        return None
    return values.reshape(block.size, block.width)


def _any_values(path: str, block: _Block) -> tuple[Values, list[tuple[int, str, float]]]:
    """Return the numbers of a block, and its sparse features as row, name and value."""
    values = np.empty((block.size, block.width))
    sparse = []
    for row, line in enumerate(split_block(block.body)):
        number = block.line + 1 + row
        dense = []
        names = set()
        for token in line.split(b" "):
            name, separator, value = token.rpartition(b"=")
            if separator:
                text = decode(path, number, name)
                if not text or text in names:
                    problem = f"expected a new name before '=', found {shorten(token)}"
                    raise DataError(path, number, problem)
                names.add(text)
                sparse.append((row, text, parse_number(value, path, number)))
            elif token:
                dense.append(parse_number(token, path, number))
        if len(dense) != block.width:
            problem = f"expected {block.width} numbers, as the header says, found {len(dense)}"
            raise DataError(path, number, problem)
        values[row] = dense
    return values, sparse


def _places(
    path: str, blocks: Sequence[_Block]
) -> tuple[tuple[int, ...], tuple[int, ...], Integers]:
    """Return ids, lines and starts, as the lists have them."""
    known: dict[int, int] = {}
    for block in blocks:
        if block.id in known:
            problem = f"sentence {block.id} again, which began in line {known[block.id]}"
            raise DataError(path, block.line, problem)
        known[block.id] = block.line
    sizes = [block.size for block in blocks]
    return tuple(known), tuple(known.values()), np.cumsum([0, *sizes], dtype=np.int64)
