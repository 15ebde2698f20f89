"""Words or subwords and their ids: the shortlist of one side.

The file is UTF-8 text: a header line, then one word per line in descending order of frequency. The
1-based line number of a word is its id; ids 0 and 1 are ``</s>`` and ``<unk>``. A subword
vocabulary has its sentencepiece model beside it: ``source.spm`` beside ``source.vocab``.
"""

import heapq
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import sentencepiece

from phrasescore.arguments import StrPath
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.output import open_output
from phrasescore.io.plain_file import MAX_SUBWORDS, MAX_WORDS, read_plain
from phrasescore.io.text import decode, read_lines

BEGIN = "▁"  # begins the first piece of a word
CHARACTERS = 1  # the number of subwords that stands for characters: no BPE has so few
_MAX_CHARACTERS = 1 << 20
_KEPT_WORDS = 1 << 20  # maximum number of words whose pieces are cached
HEADER = "# phrasescore vocabulary 1; id 0 is </s>, id 1 is <unk>, other ids are line numbers"


class Vocabulary:
    """Word <-> id over a shortlist; every other word is ``<unk>``.

    A literal ``</s>`` or ``<unk>`` in the data is an unknown word, so data cannot end a phrase.

    >>> vocabulary = Vocabulary.from_counts({"la": 5.0, "maison": 2.0, "rue": 1.0}, size=2)
    >>> vocabulary.ids(("la", "rue", "</s>")), vocabulary.word(3), len(vocabulary)
    ([2, 1, 1], 'maison', 4)
    """

    END = 0
    UNKNOWN = 1
    SYMBOLS = ("</s>", "<unk>")
    # Whether a word may consist of several pieces.
    is_subwords = False

    def __init__(self, words: Iterable[str]) -> None:
        """Assign ids to ``words``, which must be distinct, in order, starting from 2."""
        self._words = [*self.SYMBOLS, *words]
        self._ids = {word: number for number, word in enumerate(self._words)}
        if len(self._ids) != len(self._words):
            raise ValueError("a word occurs twice, or is one of the symbols </s> and <unk>")
        for symbol in self.SYMBOLS:
            del self._ids[symbol]
        if any(not word or "\n" in word for word in self._ids):
            raise ValueError("a word is empty or contains a line end")

    @classmethod
    def from_counts(cls, counts: Mapping[str, float], size: int) -> "Vocabulary":
        """Return a vocabulary of the ``size`` most frequent words; ties are sorted by bytes."""
        # Code points have the same order as UTF-8's bytes.
        ranked = ((-count, word) for word, count in counts.items() if word not in cls.SYMBOLS)
        return cls(word for _, word in heapq.nsmallest(size, ranked))

    def ids(self, words: Sequence[str]) -> list[int]:
        """Return the id of each word; 1 (``<unk>``) outside the shortlist."""
        return self.ids_of_pieces(words)

    def ids_of_pieces(self, pieces: Sequence[str]) -> list[int]:
        """Return the id of each piece from `split`."""
        get = self._ids.get
        return [get(piece, 1) for piece in pieces]

    def split(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the pieces of each word; here, the word itself."""
        return [(word,) for word in words]

    def join(self, pieces: Sequence[str]) -> tuple[str, ...]:
        """Return the words that pieces form."""
        return tuple(pieces)

    def word(self, number: int) -> str:
        """Return the word for an id from 0 to ``len(self) - 1``."""
        if not 0 <= number < len(self._words):
            raise IndexError(f"expected an id from 0 to {len(self._words) - 1}, got {number}")
        return self._words[number]

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: object) -> bool:
        """Return whether a word is in the shortlist, which excludes the two symbols."""
        return word in self._ids

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.has_words_of(other)

    __hash__ = None  # type: ignore[assignment]

    def has_words_of(self, other: "Vocabulary") -> bool:
        """Return whether each word, or piece, has the same id in both vocabularies."""
        return self._words == other._words

    def coverage(self, counts: Mapping[str, float]) -> float:
        """Return the share of running words inside the shortlist, from 0 to 1; 1 for no words."""
        total = sum(counts.values())
        inside = sum(count for word, count in counts.items() if word in self)
        return inside / total if total > 0 else 1.0

    def save(self, path: StrPath) -> None:
        """Write the vocabulary; a file appears whole or not at all."""
        lines = [HEADER, *self._words[len(self.SYMBOLS) :]]
        with open_output(os.fspath(path)) as output:
            output.write("".join(f"{line}\n" for line in lines).encode())

    @classmethod
    def load(cls, path: StrPath) -> "Vocabulary":
        """Read a file that ``save`` wrote."""
        path = os.fspath(path)
        words: dict[str, int] = {}
        number = num_bytes = 0
        for number, raw in enumerate(read_lines(path), start=1):
            num_bytes += len(raw)
            if num_bytes > MAX_WORDS:  # a compressed file may be much smaller
                raise DataError(path, number, f"expected at most {MAX_WORDS:,} bytes, found more")
            word = decode(path, number, raw)
            if number == 1:
                if word != HEADER:
                    raise DataError(path, 1, f"expected the header {HEADER!r}, got {word[:60]!r}")
                continue
            if not word or word in cls.SYMBOLS:
                raise DataError(path, number, f"expected a word, got {word!r}")
            if word in words:
                raise DataError(path, number, f"{word[:60]!r} is on line {words[word]} already")
            words[word] = number
        if number == 0:
            raise DataError(path, None, "expected a vocabulary, got an empty file")
        return cls(words)


class SubwordVocabulary(Vocabulary):
    """Subwords and their ids; only a character that was never seen is ``<unk>``.

    The pieces are sentencepiece's byte pair encoding (Sennrich et al., 2016) of single words:
    Moses' words are tokens already, and no piece spans two of them. The first piece of a word
    begins with ``▁``.

    :raises ValueError: if the model is malformed.
    """

    is_subwords = True

    def __init__(self, model: bytes) -> None:
        self._model = model
        try:
            # Without bytes, sentencepiece would return a processor that fails later.
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model or b"\0")
            # The first piece is <unk>.
            super().__init__(map(self._processor.id_to_piece, range(1, len(self._processor))))
        except (RuntimeError, ValueError) as error:
            raise ValueError("expected a sentencepiece model") from error
        self._kept: dict[str, tuple[str, ...]] = {}

    @classmethod
    def from_counts(cls, counts: Mapping[str, float], size: int) -> "SubwordVocabulary":
        """Train up to ``size`` pieces, including all characters, on word counts in any order.

        With the size `CHARACTERS`, the pieces are the characters and ``▁``.
        """
        # sentencepiece would take these for its own symbols, or for the end of a word.
        marks = (*cls.SYMBOLS, BEGIN, "\t")
        rows = [
            f"{word}\t{max(1, round(count))}"
            for word, count in sorted(counts.items())
            if not any(mark in word for mark in marks)
        ]
        if not rows:
            raise PhrasescoreError("--subwords: there are no words to learn them from")
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(rows),
                model_writer=model,
                input_format="tsv",
                model_type="char" if size == CHARACTERS else "bpe",
                # <unk> is counted.
                vocab_size=(_MAX_CHARACTERS if size == CHARACTERS else size) + 1,
                hard_vocab_limit=False,
                character_coverage=1.0,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                unk_id=0,
                bos_id=-1,
                eos_id=-1,
                pad_id=-1,
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:
            characters = len(set(chain.from_iterable(counts))) + 1
            raise PhrasescoreError(
                f"--subwords: sentencepiece cannot make {size:,} pieces; the words have "
                f"{characters:,} different characters, each of which is a piece: increase it"
            ) from error
        return cls(model.getvalue())

    def split(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the pieces of each word, at least one; a new character is a separate piece."""
        kept = self._kept
        new = [word for word in dict.fromkeys(words) if word not in kept]
        if new:
            if len(kept) + len(new) > _KEPT_WORDS:
                kept = self._kept = {}
                new = list(dict.fromkeys(words))
            kept.update(zip(new, map(self._split, new), strict=True))
        return [kept[word] for word in words]

    def _split(self, word: str) -> tuple[str, ...]:
        if BEGIN in word:
            # sentencepiece takes the mark for a space. No trained piece begins with two of them.
            return (BEGIN, f"{BEGIN}{BEGIN}{word}")
        return tuple(self._processor.encode(word, out_type=str)) or (BEGIN,)

    def join(self, pieces: Sequence[str]) -> tuple[str, ...]:
        """Return the words that pieces form."""
        return tuple(word for word in "".join(pieces).split(BEGIN) if word)

    def ids(self, words: Sequence[str]) -> list[int]:
        """Return the piece ids of all words, concatenated."""
        return self.ids_of_pieces(list(chain.from_iterable(self.split(words))))

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.UNKNOWN not in self.ids([word])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubwordVocabulary) and self._model == other._model

    __hash__ = None

    def save(self, path: StrPath) -> None:
        """Write the pieces and sentencepiece's model; each file appears whole or not at all."""
        super().save(path)
        with open_output(str(model_path(path))) as output:
            output.write(self._model)


def model_path(path: StrPath) -> Path:
    """Return the path of the sentencepiece model that belongs to a subword vocabulary."""
    return Path(path).with_suffix(".spm")


def load_vocabulary(path: StrPath) -> Vocabulary:
    """Read a word vocabulary, or a subword vocabulary if a sentencepiece model is beside it."""
    words, beside = Vocabulary.load(path), model_path(path)
    if not beside.exists():
        return words
    try:
        subwords = SubwordVocabulary(read_plain(beside, MAX_SUBWORDS))
    except ValueError as error:
        raise DataError(str(beside), None, str(error)) from error
    if not words.has_words_of(subwords):
        name = os.path.basename(path)
        problem = f"expected the sentencepiece model for {name}, found another one"
        raise DataError(str(beside), None, problem)
    return subwords
