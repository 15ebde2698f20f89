"""Score text with KenLM's own library: its binary files, and ARPA files without numba.

numba takes longer to load than most models.
"""

import contextlib
import importlib.util
import math
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.text import is_stream, open_input, shorten

if TYPE_CHECKING:
    from phrasescore.language_models.ngram_scorer import NgramScorer

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

BINARY = b"mmap lm http://kheafield.com/code"  # the beginning of KenLM's binary files
LN_10 = math.log(10)  # Moses: 2.30258509299405f (moses/Util.h, TransformLMScore)

# kenlm has to be compiled, so an installation may lack it.
MISSING = (
    "kenlm is not installed, which reads KenLM's binary files: pip install kenlm (it needs a C++ "
    "compiler and Python's headers), or use the ARPA file"
)
# What kenlm returns for a word.
_SCORE = np.dtype([("log_10", np.float64), ("length", np.int32), ("unknown", np.bool_)])
# Maximum length of the quoted part of kenlm's message, which contains text from the file.
_MAX_QUOTE = 500


def import_kenlm() -> Any:
    """Import the module kenlm."""
    try:
        import kenlm
    except ImportError as error:
        is_there = importlib.util.find_spec("kenlm") is not None
        problem = f"kenlm cannot be loaded: {error}" if is_there else MISSING
        raise PhrasescoreError(problem) from error
    return kenlm


class KenlmScorer:
    """A model of KenLM."""

    def __init__(self, path: str) -> None:
        kenlm = import_kenlm()
        self._path = path
        config = kenlm.Config()
        config.show_progress, config.arpa_complain = False, kenlm.ARPALoadComplain.NONE
        try:
            self._model = kenlm.Model(path, config)
        except (OSError, UnicodeDecodeError) as error:  # the latter if its message quotes the file
            quote = " ".join(str(error).split())[:_MAX_QUOTE]
            raise DataError(path, None, f"KenLM cannot load this binary file: {quote}") from error
        self.order = self._model.order

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and word in self._model

    def score_words(self, sentences: Sequence[Sequence[str]]) -> tuple[Floats, Flags]:
        """Return log p of each word and ``</s>`` of each sentence, and whether it is unknown."""
        scores = map(self._model.full_scores, map(" ".join, sentences))
        found = np.fromiter(chain.from_iterable(scores), _SCORE)
        return natural_logs(self._path, found["log_10"], sentences), found["unknown"]


def natural_logs(path: str, values: Floats, sentences: Sequence[Sequence[str]]) -> Floats:
    """Return natural logarithms for log10 p of each word and ``</s>``.

    :raises DataError: if one is infinite or no number, with the path of the model.
    """
    for index in np.flatnonzero(~np.isfinite(values))[:1].tolist():
        word = shorten([word for words in sentences for word in (*words, "</s>")][index])
        raise DataError(path, None, f"the log10 probability of {word} is {values[index]}")
    return values * LN_10


def is_binary(path: str) -> bool:
    """Return whether a file begins as KenLM's binary files do."""
    if is_stream(path):
        raise DataError(path, None, "expected a file, as it is read twice")
    with open_input(path) as file:
        return file.peek(len(BINARY)).startswith(BINARY)


def load_for_text(path: str) -> "NgramScorer":
    """Load a model that scores whole sentences, from an ARPA file or a binary file of KenLM.

    KenLM's library is used where it can read the file. It names no line of a damaged ARPA file.
    """
    if not is_binary(path):
        with contextlib.suppress(PhrasescoreError):
            return KenlmScorer(path)
    from phrasescore.language_models.ngram_scorer import load_ngrams  # imports numba

    return load_ngrams(path)
