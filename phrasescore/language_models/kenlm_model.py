"""Load KenLM's n-gram models, score text with them, back off to them, and compare them."""

import importlib.util
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.text import decode, is_stream, open_input, read_lines
from phrasescore.vocabulary import Vocabulary

if TYPE_CHECKING:
    import kenlm

LN_10 = math.log(10.0)
# Maximum number of cached masses; an entry takes about 100 bytes.
_MASSES = 1_000_000
# kenlm has to be compiled, so an installation may lack it.
MISSING = (
    "kenlm is not installed, which reads n-gram models: pip install kenlm (it needs a C++ compiler "
    "and Python's headers)"
)
# Maximum length of the quoted part of kenlm's message, which contains text from the file.
_MAX_QUOTE = 500
# The module kenlm splits a sentence at these. ARPA files have U+000B and U+000C within words.
_DIVIDERS = re.compile("[\0\t\n\v\f\r]")
# These end words in ARPA files, or, U+0000, in the module: no model knows a word with one of them.
_IN_NO_WORD = re.compile("[\0\t\n\r]")
_SYMBOLS = frozenset({"<s>", "</s>", "<unk>"})


def import_kenlm() -> Any:
    """Import the module kenlm, which only n-gram models need."""
    try:
        import kenlm
    except ImportError as error:
        is_there = importlib.util.find_spec("kenlm") is not None
        problem = f"kenlm cannot be loaded: {error}" if is_there else MISSING
        raise PhrasescoreError(problem) from error
    return kenlm


def load_kenlm(path: str) -> "kenlm.Model":
    """Load a model from an ARPA file, plain or ``.gz``, or from build_binary's binary file."""
    kenlm = import_kenlm()
    if is_stream(path):
        raise DataError(path, None, "expected a file: KenLM cannot read a stream")
    with open_input(path) as file:
        file.peek(1)  # raises our usual error for a missing or unreadable file
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        return kenlm.Model(path, config)
    except OSError as error:
        raise DataError(path, None, _problem(str(error))) from error
    except UnicodeDecodeError as error:
        # The text that failed to decode is kenlm's message, which quotes the file.
        message = error.object.decode(errors="backslashreplace")
        raise DataError(path, None, _problem(message)) from error


def plain_word(word: str) -> str:
    """Return the word for a query to KenLM; a literal symbol becomes ``<unk>``."""
    return "<unk>" if word in _SYMBOLS or _IN_NO_WORD.search(word) else word


def score_sentence(model: "kenlm.Model", words: Sequence[str]) -> float:
    """Return log10 p(words ``</s>`` | ``<s>``). Only U+0020 separates words."""
    text = " ".join(words)
    # kenlm's loop is three times as fast as a Python loop that shares the prefixes of hypotheses:
    # 0.4 s for the 97,000 hypotheses of a real development set.
    if _DIVIDERS.search(text) is None:
        score: float = model.score(text)
        return score
    return math.fsum(log_10 for log_10, _ in score_words(model, words))


def score_words(model: "kenlm.Model", words: Sequence[str]) -> list[tuple[float, bool]]:
    """Return (log10 p, whether it is unknown) for each word and for ``</s>``."""
    text = " ".join(words)
    if _DIVIDERS.search(text) is None:
        return [(log_10, is_unknown) for log_10, _, is_unknown in model.full_scores(text)]
    new_state = import_kenlm().State
    state, after = new_state(), new_state()
    model.BeginSentenceWrite(state)
    scores = []
    for word in (*words, "</s>"):
        known = "<unk>" if _IN_NO_WORD.search(word) else word
        score = model.BaseFullScore(state, known, after)
        scores.append((score.log_prob, score.oov))
        state, after = after, state
    return scores


def _problem(message: str) -> str:
    quote = " ".join(message.split())[:_MAX_QUOTE]
    return f"expected an ARPA file or a KenLM binary; kenlm says: {quote}"


class BackoffModel:
    """An n-gram model for the words outside a network's shortlist, for one thread at a time.

    Schwenk (2007), section 3.1. With S the shortlist and h the words before,

        p(w | h) = p_network(w | h) * P_S(h)   if w is in S,
        p(w | h) = p_ngram(w | h)              otherwise,
        P_S(h)   = sum over v in S of p_ngram(v | h).

    The network's probabilities are renormalized over S, so that the combination sums to one over
    the n-gram model's vocabulary with ``</s>`` and ``<unk>``. A word of the shortlist that the
    n-gram model does not know is not in S: both treat it as ``<unk>``.
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
        # The ids of S, ascending; </s> is the first.
        self.shortlist: NDArray[np.int32] = np.array(
            [Vocabulary.END]
            + [number for number in range(2, len(words)) if self.knows(words[number])],
            np.int32,
        )
        if len(self.shortlist) == 1:
            raise PhrasescoreError(f"{path}: the n-gram model knows no word of the shortlist")
        self._inside = [words[number] for number in self.shortlist]
        outside = _outside(path, set(self._inside))
        # Sum over the smaller of the two sets, if both are known.
        self._complement = outside is not None and len(outside) < len(self._inside)
        self._summed = outside if outside is not None and self._complement else self._inside
        self._masses: dict[kenlm.State, float] = {}

    @property
    def width(self) -> int:
        """The number of previous words on which a probability depends."""
        order: int = self._model.order
        return order - 1

    def knows(self, word: str) -> bool:
        """Return whether a word is in the n-gram model's vocabulary."""
        plain = plain_word(word)
        return plain != "<unk>" and plain in self._model

    def state(self, context: Sequence[str], *, begins: bool) -> "kenlm.State":
        """Return the model's state after a context.

        :param begins: whether the first word of the context begins a sentence.
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
        """Return log P_S(h), a natural logarithm."""
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
                    f"{self._path}: expected probabilities that sum to one, found {mass:g} for the "
                    "shortlist"
                )
            self._masses[state] = mass
        return min(math.log(mass), 0.0)


def _outside(path: str, inside: set[str]) -> list[str] | None:
    """Return an ARPA file's words outside the shortlist, or None for other formats.

    The words include ``<unk>``, but not ``<s>``, which is never predicted.
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


class Differences(NamedTuple):
    """Cross-entropies of sentences, in-domain minus general, in nats per token."""

    values: NDArray[np.float64]
    # Number of words and ends of sentences.
    tokens: int
    # Number of words that only one of the two models knows.
    known_to_one: int


class CrossEntropyDifference:
    """H_in(s) - H_general(s) of monolingual sentences, by which training text is selected.

    Moore and Lewis (2010): an in-domain model predicts the best sentences well, compared to a model
    of general text. Axelrod et al. (2011) add the differences of both sides of parallel text. If
    the vocabularies differ, ``<unk>`` stands for different words: see ``known_to_one``.
    """

    def __init__(self, in_domain: str, general: str) -> None:
        self._in_domain, self._general = load_kenlm(in_domain), load_kenlm(general)
        # The words that each model knows, by its path.
        self.known_words = {in_domain: self._in_domain, general: self._general}
        # For each word so far, whether only one model knows it.
        self._differs: dict[str, bool] = {}

    def differences(self, sentences: Iterable[Sequence[str]]) -> Differences:
        """Return the difference of each sentence; an empty sentence is a single ``</s>``."""
        in_domain, general, differs = self._in_domain, self._general, self._differs
        values, tokens, known_to_one = [], 0, 0
        for sentence in sentences:
            words = [plain_word(word) for word in sentence]
            length = len(words) + 1
            difference = score_sentence(general, words) - score_sentence(in_domain, words)
            values.append(difference / length)
            tokens += length
            for word in words:
                differing = differs.get(word)
                if differing is None:
                    differing = differs[word] = (word in in_domain) != (word in general)
                known_to_one += differing
        return Differences(np.array(values) * LN_10, tokens, known_to_one)
