"""KenLM's n-gram models: how they are loaded, how words are spelled for them, how to back off."""

import importlib.util
import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.text import decode, is_stream, open_input, read_lines
from phrasescore.vocabulary import Vocabulary

if TYPE_CHECKING:
    import kenlm

LN_10 = math.log(10.0)
# Contexts whose masses are kept, at most: some 100 bytes each.
_MASSES = 1_000_000

# It has to be compiled, so that an installation may lack it.
MISSING = (
    "kenlm is not installed, which reads n-gram models: pip install kenlm (it needs a C++ compiler "
    "and Python's headers)"
)

# Characters of kenlm's text in a message; it quotes the file.
_SAID = 500

# What the module kenlm divides a sentence at; an ARPA file has U+000B and U+000C within words.
_DIVIDERS = re.compile("[\0\t\n\v\f\r]")
# A word of a text that holds one of these is in no model: they end words in ARPA files, too, and
# the module cannot be asked for a word with U+0000.
_IN_NO_WORD = re.compile("[\0\t\n\r]")
_SYMBOLS = frozenset({"<s>", "</s>", "<unk>"})


def import_kenlm() -> Any:
    """Return the module kenlm, which nothing but n-gram models needs.

    :raises PhrasescoreError: if it is not installed, or cannot be loaded.
    """
    try:
        import kenlm
    except ImportError as error:
        is_there = importlib.util.find_spec("kenlm") is not None
        problem = f"kenlm cannot be loaded: {error}" if is_there else MISSING
        raise PhrasescoreError(problem) from error
    return kenlm


def load_kenlm(path: str) -> "kenlm.Model":
    """Return the model of an ARPA file, plain or ``.gz``, or of a binary that build_binary made.

    :raises DataError: if the file is no model, or of a higher order than kenlm was built for.
    :raises PhrasescoreError: if kenlm is not installed.
    """
    kenlm = import_kenlm()
    if is_stream(path):
        raise DataError(path, None, "expected a file: KenLM cannot read a stream")
    with open_input(path) as file:
        file.peek(1)  # a file that is missing or cannot be read is named as everywhere else
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        return kenlm.Model(path, config)
    except OSError as error:
        raise DataError(path, None, _problem(str(error))) from error
    except UnicodeDecodeError as error:
        # What could not be decoded is kenlm's message, which quotes the file.
        message = error.object.decode(errors="backslashreplace")
        raise DataError(path, None, _problem(message)) from error


def plain_word(word: str) -> str:
    """Return a word of a text as KenLM has to be asked for it; a literal symbol is ``<unk>``."""
    return "<unk>" if word in _SYMBOLS or _IN_NO_WORD.search(word) else word


def score_sentence(model: "kenlm.Model", words: Sequence[str]) -> float:
    """Return log10 p(words ``</s>`` | ``<s>``); words are separated by U+0020 and nothing else."""
    text = " ".join(words)
    # kenlm's own loop over the words is three times as fast as one here that shares the beginnings
    # of hypotheses: 0.4 s for the 97,000 of a real development set.
    if _DIVIDERS.search(text) is None:
        score: float = model.score(text)
        return score
    return math.fsum(log_10 for log_10, _ in score_words(model, words))


def score_words(model: "kenlm.Model", words: Sequence[str]) -> list[tuple[float, bool]]:
    """Return log10 p of each word and ``</s>`` after ``<s>``, and whether it is unknown."""
    text = " ".join(words)
    if _DIVIDERS.search(text) is None:
        return [(log_10, is_unknown) for log_10, _, is_unknown in model.full_scores(text)]
    new_state = import_kenlm().State
    state, after = new_state(), new_state()
    model.BeginSentenceWrite(state)
    scores = []
    for word in (*words, "</s>"):
        asked = "<unk>" if _IN_NO_WORD.search(word) else word
        found = model.BaseFullScore(state, asked, after)
        scores.append((found.log_prob, found.oov))
        state, after = after, state
    return scores


def _problem(message: str) -> str:
    """Return kenlm's message about a file as one line."""
    said = " ".join(message.split())[:_SAID]
    return f"expected an ARPA file or a KenLM binary; kenlm says: {said}"


class BackoffModel:
    """An n-gram model for the words outside a network's shortlist, for one thread at a time.

    Schwenk (2007), section 3.1: with S the shortlist and h the words before,

        p(w | h) = p_network(w | h) * P_S(h)   where w is in S,
        p(w | h) = p_ngram(w | h)              elsewhere,
        P_S(h)   = sum over v in S of p_ngram(v | h).

    The network's probabilities are divided among the words of S alone, so that the whole sums to
    one over the n-gram model's vocabulary with ``</s>`` and ``<unk>``. A word of the shortlist that
    the n-gram model does not know is not in S: it is ``<unk>`` to both.

    :param path: an ARPA file, plain or ``.gz``, or KenLM's binary of one.
    :param vocabulary: the network's.
    :param order: the network's; the n-gram model's must not be higher.
    :raises DataError: if the file is no such model, or of a higher order.
    :raises PhrasescoreError: if it has no word of the shortlist.
    """

    def __init__(self, path: str, vocabulary: Vocabulary, order: int) -> None:
        self._model = load_kenlm(path)
        self._new_state = import_kenlm().State
        if self._model.order > order:
            raise DataError(
                path,
                None,
                f"expected a model of at most the network's order {order}, found order "
                f"{self._model.order}",
            )
        self._path = path
        words = [vocabulary.word(number) for number in range(len(vocabulary))]
        # Ids of the vocabulary that make up S, rising; </s> is the first.
        self.shortlist: NDArray[np.int32] = np.array(
            [Vocabulary.END]
            + [number for number in range(2, len(words)) if self.knows(words[number])],
            np.int32,
        )
        if len(self.shortlist) == 1:
            raise PhrasescoreError(f"{path}: the n-gram model knows no word of the shortlist")
        self._inside = [words[number] for number in self.shortlist]
        outside = _outside(path, set(self._inside))
        # The smaller set of words is summed, where both are known.
        self._complement = outside is not None and len(outside) < len(self._inside)
        self._summed = outside if outside is not None and self._complement else self._inside
        self._masses: dict[kenlm.State, float] = {}

    @property
    def width(self) -> int:
        """The number of words before that a probability depends on."""
        order: int = self._model.order
        return order - 1

    def knows(self, word: str) -> bool:
        """Return whether a word is in the n-gram model's vocabulary."""
        plain = plain_word(word)
        return plain != "<unk>" and plain in self._model

    def state(self, context: Sequence[str], *, begins: bool) -> "kenlm.State":
        """Return the model's state after a context.

        :param context: words, the oldest first.
        :param begins: whether a sentence begins with the first of them.
        """
        state, after = self._new_state(), self._new_state()
        if begins:
            self._model.BeginSentenceWrite(state)
        else:
            self._model.NullContextWrite(state)
        for word in context:
            self._model.BaseScore(state, plain_word(word), after)
            state, after = after, state
        return state

    def log_prob(self, state: "kenlm.State", word: str) -> float:
        """Return log p of a word after a context, a natural logarithm."""
        log_10: float = self._model.BaseScore(state, plain_word(word), self._new_state())
        return log_10 * LN_10

    def log_mass(self, state: "kenlm.State") -> float:
        """Return log P_S(h), a natural logarithm.

        :raises PhrasescoreError: if S has no mass: the model's probabilities do not sum to one.
        """
        mass = self._masses.get(state)
        if mass is None:
            if len(self._masses) >= _MASSES:
                self._masses.clear()
            after, score = self._new_state(), self._model.BaseScore
            try:
                total = math.fsum(10.0 ** score(state, word, after) for word in self._summed)
            except OverflowError:
                total = math.inf
            mass = 1.0 - total if self._complement else total
            if not 0.0 < mass < 1.001:
                raise PhrasescoreError(
                    f"{self._path}: expected probabilities that sum to one, found a shortlist "
                    f"with {mass:g} of them"
                )
            self._masses[state] = mass
        return min(math.log(mass), 0.0)


def _outside(path: str, inside: set[str]) -> list[str] | None:
    """Return the words of an ARPA file outside the shortlist, ``<unk>`` among them; None of others.

    ``<s>`` is never predicted.
    """
    with open_input(path) as file:
        if b"\\data\\" not in file.peek(1 << 12)[: 1 << 12]:
            return None
    words = {"<unk>" if word == "<UNK>" else word: None for word in _unigrams(path)}
    return [word for word in words if word not in inside and word != "<s>"]


def _unigrams(path: str) -> Iterator[str]:
    reading = False
    for number, raw in enumerate(read_lines(path), start=1):
        if raw.rstrip() == b"\\1-grams:":
            reading = True
        elif reading and raw.startswith(b"\\"):
            return
        elif reading and raw.strip():
            fields = [field for field in re.split(rb"[ \t\r]", raw) if field]
            yield decode(path, number, fields[1])
