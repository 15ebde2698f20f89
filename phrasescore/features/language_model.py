"""The score of a translation under an n-gram language model, computed by KenLM."""

import importlib.metadata
import math
import re
from collections.abc import Iterable, Iterator

import kenlm

from phrasescore.errors import DataError, ModelError
from phrasescore.records import PhrasePair
from phrasescore.text import open_input, shorten

# How kenlm is built for models of a higher order: read in setup.py of the release that
# constraints.txt pins, and tried. Its wheels and plain builds take models up to order 6.
REBUILD = (
    "MAX_ORDER={order} pip install --force-reinstall --no-deps --no-cache-dir --no-binary kenlm "
    "kenlm=={version}"
)

_LOG_10 = math.log(10.0)
# What kenlm takes for the end of a word and the rest of this project does not: a word that holds
# one is unknown to every model, and so is U+FFFD.
_WHITE_SPACE = str.maketrans(dict.fromkeys("\0\t\n\v\f\r", "\ufffd"))


class LanguageModelScore:
    """log p(target ``</s>`` | ``<s>``): natural logarithms, not divided by length.

    A word that the model does not know has the probability of its ``<unk>``, or 10^-100 where it
    has none, as in Moses. The source does not count.

    :param path: an ARPA file, plain or ``.gz``, or what KenLM's build_binary made of one.
    :raises DataError: if it is none, or of a higher order than kenlm was built for.
    """

    def __init__(self, path: str) -> None:
        if path == "-":
            raise DataError(path, None, "expected a file: KenLM cannot read a stream")
        with open_input(path):
            pass  # a file that is missing or cannot be read is named as everywhere else
        config = kenlm.Config()
        config.show_progress = False
        config.arpa_complain = kenlm.ARPALoadComplain.NONE
        try:
            self._model = kenlm.Model(path, config)
        except OSError as error:
            raise DataError(path, None, _problem(str(error))) from error
        self._path = path
        self._scored = 0

    def values(self, pairs: Iterable[PhrasePair]) -> Iterator[float]:
        """Yield the log-probability of each pair's target.

        :raises ModelError: on reaching one that is not finite.
        """
        score = self._model.score
        for pair in pairs:
            # kenlm's own loop over the words is three times as fast as one here that shares the
            # beginnings of hypotheses: 0.4 s for the 97,000 of a real development set.
            value = score(" ".join(pair.target).translate(_WHITE_SPACE)) * _LOG_10
            if not math.isfinite(value):
                text = shorten(" ".join(pair.target))
                raise ModelError(f"{self._path}: the log-probability of {text} is {value}")
            self._scored += 1
            yield value

    def summary(self) -> str:
        """Return how much was scored, and the order of the model."""
        return f"{self._scored:,} scored by a {self._model.order}-gram model"


def _problem(message: str) -> str:
    """Return what kenlm says of a file, as one line about it."""
    order = re.search(
        r"model has order (\d+) but KenLM was compiled to support up to (\d+)", message
    )
    if order is not None:
        command = REBUILD.format(order=order[1], version=importlib.metadata.version("kenlm"))
        return (
            f"expected a model of order {order[2]} at most, found order {order[1]}; kenlm has to "
            f"be built again for it: {command}"
        )
    if "support was not compiled in" in message:
        return "this kenlm was built without zlib and cannot read .gz: unpack the file"
    # "Cannot read model 'x' (lm/file.cc:1 in void f() threw X because `condition'. What it is.)"
    said = re.search(r" threw [\w:]+(?: because `.*?')?\.(.+)\)$", message)
    said = said or re.search(r"^Cannot read model '.*?' \((.+)\)$", message)
    reason = " ".join((said[1] if said else message).split())
    return f"expected an ARPA file or a KenLM binary; kenlm says: {reason}"
