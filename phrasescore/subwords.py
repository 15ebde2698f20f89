"""Vocabularies of subwords, which can spell every word without a new character.

The pieces are sentencepiece's byte pair encoding (Sennrich et al., 2016) of single words: Moses'
words are tokens already, and no piece spans two of them. The first piece of a word begins with
``▁``, as in sentencepiece. The pieces are saved like any vocabulary, with sentencepiece's model
beside it: ``source.spm`` beside ``source.vocab``.
"""

import io
import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import sentencepiece

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.folders import MAX_SUBWORDS, read_plain
from phrasescore.io.output import open_output
from phrasescore.vocabulary import Vocabulary

# Begins the first piece of a word.
BEGIN = "▁"
# Replaces ".vocab" in the name of a vocabulary to name sentencepiece's model.
SUFFIX = ".spm"
# Maximum number of words whose pieces are remembered.
_KEPT_WORDS = 1 << 20


class SubwordVocabulary(Vocabulary):
    """Pieces and their ids: a word consists of pieces, and a new character is ``<unk>``.

    :raises ValueError: if it is malformed.
    """

    is_subwords = True

    def __init__(self, model: bytes) -> None:
        self._model = model
        try:
            # With no bytes sentencepiece would make a processor that fails later.
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model or b"\0")
            # The first piece is <unk>.
            super().__init__(map(self._processor.id_to_piece, range(1, len(self._processor))))
        except (RuntimeError, ValueError) as error:
            raise ValueError("expected a model of sentencepiece") from error
        self._kept: dict[str, tuple[str, ...]] = {}

    @classmethod
    def from_counts(cls, counts: Mapping[str, float], size: int) -> "SubwordVocabulary":
        """Train at most ``size`` pieces, all characters included; equal counts give equal ones."""
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
                model_type="bpe",
                vocab_size=size + 1,  # <unk> is counted
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
                f"{characters:,} different characters, each of which is a piece: ask for more"
            ) from error
        return cls(model.getvalue())

    def split(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the pieces of each word, at least one; new characters are pieces, too."""
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
        """Return the ids of the pieces of all words, one after another."""
        return self.ids_of_pieces(list(chain.from_iterable(self.split(words))))

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.UNKNOWN not in self.ids([word])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubwordVocabulary) and self._model == other._model

    __hash__ = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pieces and sentencepiece's model, each whole or not at all."""
        super().save(path)
        with open_output(str(model_path(path))) as output:
            output.write(self._model)


def model_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of sentencepiece's model that belongs to a vocabulary of pieces."""
    return Path(path).with_suffix(SUFFIX)


def load_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    """Read a vocabulary of words, or of pieces if sentencepiece's model is beside it."""
    words, beside = Vocabulary.load(path), model_path(path)
    if not beside.exists():
        return words
    try:
        subwords = SubwordVocabulary(read_plain(beside, MAX_SUBWORDS))
    except ValueError as error:
        raise DataError(str(beside), None, str(error)) from error
    if not words.has_words_of(subwords):
        problem = f"expected the model of the pieces in {os.path.basename(path)}, found another"
        raise DataError(str(beside), None, problem)
    return subwords
