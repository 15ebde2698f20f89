"""The monolingual text of an experiment: its n-gram model, which all rows have, and its checks."""

import logging
from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path

from moses_integration.decoder.configuration import LANGUAGE_MODEL
from moses_integration.moses_ini import MosesIni
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.io.text import shorten
from phrasescore.language_models.ngram_scorer import read_ngram_order
from phrasescore.settings.building import Estimating
from phrasescore.systems.text_checks import in_other_casing, likely_cause, warn_of_form
from phrasescore.workflows.building.language_model import read_sentences
from phrasescore.workflows.experiment.steps import Step

_logger = logging.getLogger(__name__)

STEP = "build-lm monolingual"
_MODEL = "models/monolingual.arpa.gz"  # in the experiment's folder
_LINES = 2_000  # of each text, whose words are looked up
# A text is warned of if a larger share of its words is unknown, or unknown but known in another
# casing. With 1,000 sentence pairs of news, English with Luganda or Hausa, these were at most 28 %
# and 1.5 % of the words of other news, 70 % and more of another language's words, and 7 to 16 % in
# Luganda and its English if either the text or the training text was in lower case.
_MANY_UNKNOWN, _MANY_CASED = 0.5, 0.05


def ngram_order(ini: MosesIni) -> int:
    """Return the order of the first n-gram model in a moses.ini, or the usual one without any."""
    for feature in ini.features:
        arguments = dict(feature.arguments)
        order, path = arguments.get("order") or "", arguments.get("path")
        if feature.kind == LANGUAGE_MODEL and path:
            return int(order) if order.isdecimal() else read_ngram_order(ini.resolve(path))
    return Estimating().order


def add_ngram_model(ini: MosesIni, texts: tuple[Path, ...], order: int, folder: Path) -> Step:
    """Add the n-gram model of texts to the moses.ini of an experiment; return its step.

    As in `build`, its weight is 0.5, and a small text has fixed discounts.
    """
    arguments = {"factor": "0", "path": _MODEL, "order": str(order)}
    ini.set_weights({ini.add_feature(LANGUAGE_MODEL, "LM", arguments): (0.5,)})
    settings = Estimating(order=order, discount_fallback=True)
    return Step(
        STEP,
        "build_lm",
        {"texts": texts, "output": folder / _MODEL, "settings": settings},
        texts,
        (folder / _MODEL,),
        description=f"{order}-grams of {', '.join(path.name for path in texts)}",
    )


def check_words(texts: Sequence[Path], target: Path) -> None:
    """Warn about texts in another language, casing or tokenisation than the target side."""
    known = {word for line in read_monolingual_text(str(target)) for word in line.words}
    for path in texts:
        sentences = list(islice(read_sentences(str(path)), _LINES))
        words = Counter(chain.from_iterable(sentences))
        unknown = Counter({word: times for word, times in words.items() if word not in known})
        cased = in_other_casing(unknown, known)
        is_other = unknown.total() > _MANY_UNKNOWN * words.total()
        if is_other or cased.total() > _MANY_CASED * words.total():
            found = unknown if is_other else cased
            _logger.warning(
                "%s: %.0f%% of its first %s words are not in %s, such as %s: %s",
                path,
                100 * found.total() / words.total(),
                f"{words.total():,}",
                target,
                ", ".join(shorten(word) for word, _ in found.most_common(3)),
                likely_cause(found, known),
            )
        warn_of_form(
            str(path), sentences, tokenizes=False, cures=("", "tokenise it as in training")
        )
