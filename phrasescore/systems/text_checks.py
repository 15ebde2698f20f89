"""Warn if texts and models do not match: unknown words, lengths, shortlists."""

import html
import logging
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from phrasescore.errors import shown_path, some_names
from phrasescore.evaluation.sentences import Sentences
from phrasescore.io.text import shorten
from phrasescore.records import PhraseBlock

if TYPE_CHECKING:
    from phrasescore.models.checkpoint import Checkpoint

_logger = logging.getLogger(__name__)

# Models are checked when this many words have been counted, early in a long run; and again after
# the maximum number of words, or at the end.
_EARLY_WORDS, _MOST_WORDS = 10_000, 1_000_000
_MOST_PAIRS = 256  # approximate maximum number of pairs per block whose words are counted
# Forms of words that do not occur in Moses' text, and the messages about them.
_FORMS = {
    re.compile(pattern): f"these are {cause}"
    for pattern, cause in (
        (r"\|\d+-\d+(,.*)?\|", "phrase marks: omit -report-segmentation, or remove them"),
        (r"[^|]+(\|[^|]+)+", "words with factors (word|POS): keep only the words"),
        (r".+@@", "pieces of words (BPE): join them"),
        (r"▁.*", "pieces of words (sentencepiece): join them"),
    )
}
_MANY_OF_FORM = 0.1  # warn if a larger share of the words is unknown and has such a form
# Marks that tokenisers separate from the word before them. So is the full stop that ends a line;
# others may belong to abbreviations.
_MARKS = frozenset(",;:!?…।॥،؛؟۔።፣፤፥፧։·၊။。、，；：！？｡､")
_CLOSING = "\"'”’»)]」』）"
# On real texts, 99 % of the marks are attached before tokenisation, and 0.1 % after it.
_MANY_ATTACHED = 0.2
_FEW_MARKS = 0.01  # attached marks per word; lists of words may have some abbreviations
_MOST_LINES = 10_000


def known_words(checkpoint: "Checkpoint") -> tuple[Container[str] | None, Container[str]]:
    """Return the words that a network knows on each side; None if it does not read the source."""
    reads = checkpoint.config.network.reads_source
    source = checkpoint.table_source_vocabulary if reads else None
    return source, checkpoint.table_target_vocabulary


class UnknownWordCheck:
    """Counts up to a million words, and warns once about each model that lacks many of them.

    It warns if a model knows fewer than half of the words, or if more than a tenth of the words
    are unknown to it and have a form that does not occur in Moses' text, such as ``word|POS``.
    """

    def __init__(self, text: str, models: Mapping[str, Container[str]]) -> None:
        self._text = shown_path(text)
        self._models = dict(models)
        self._counts: Counter[str] = Counter()
        self._words = 0
        self._limit = _EARLY_WORDS

    def count(self, words: Sequence[str]) -> None:
        """Count the words in a sentence; check the models if there are enough words."""
        if not self._models:
            return
        self._counts.update(words)
        self._words += len(words)
        if self._words >= self._limit:
            self.warn()
            if self._limit == _MOST_WORDS:
                self._models.clear()
            self._limit = _MOST_WORDS

    def count_side(self, block: PhraseBlock, side: int) -> None:
        """Count words of pairs spread over a block: a table's first pairs are not typical."""
        if self._models:
            step = max(1, len(block.places) // _MOST_PAIRS)
            places = block.places[::step]
            if side == 0:  # the pairs of an n-best list share their source
                places = places[np.diff(places[:, 0], prepend=-1) != 0]
            for pair in block._replace(places=places).pairs():
                self.count(pair[side])

    def counted(self, sentences: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
        """Yield each sentence and count its words; warn at the end."""
        for words in sentences:
            self.count(words)
            yield words
        self.warn()

    def warn(self) -> None:
        """Warn about models that lack many of the counted words; called at the end of a text."""
        for model, known in list(self._models.items()):
            # A model of subwords may know all pieces of such a form.
            forms = _FORMS if getattr(known, "is_subwords", False) else ()
            unknown = Counter(
                {
                    word: times
                    for word, times in self._counts.items()
                    if word not in known or any(form.fullmatch(word) for form in forms)
                }
            )
            shown, cause = self._of_form(unknown) or (unknown, likely_cause(unknown, known))
            if shown is unknown and 2 * unknown.total() <= self._words:
                continue
            del self._models[model]
            examples = ", ".join(shorten(word) for word, _ in shown.most_common(3))
            _logger.warning(
                f"{self._text}: {unknown.total():,} of {self._words:,} counted words are unknown "
                f"to {model}, such as {examples}: {cause}"
            )

    def _of_form(self, unknown: Counter[str]) -> tuple[Counter[str], str] | None:
        """Return the unknown words with an unusual form, if there are many, and the cause."""
        for form, cause in _FORMS.items():
            found = Counter({word: n for word, n in unknown.items() if form.fullmatch(word)})
            if found.total() > _MANY_OF_FORM * self._words:
                return found, cause
        return None


def in_other_casing(unknown: Counter[str], known: Container[str]) -> Counter[str]:
    """Return the unknown words that are known in another casing."""
    return Counter(
        {
            word: times
            for word, times in unknown.items()
            if any(other in known for other in (word.lower(), word.capitalize(), word.upper()))
        }
    )


def likely_cause(unknown: Counter[str], known: Container[str]) -> str:
    """Return the likely cause of many unknown words, for a message."""
    if 2 * in_other_casing(unknown, known).total() > unknown.total():
        return "the model knows most of these in another casing: case the text as in training"
    return "is it in the model's language, tokenised and cased as in training?"


def unknown_words_of(
    source: str, target: str, networks: Iterable[tuple[str, "Checkpoint"]]
) -> tuple[UnknownWordCheck, UnknownWordCheck]:
    """Return a check for a source and one for its translations, with their names in messages."""
    known = {name: known_words(checkpoint) for name, checkpoint in networks}
    return (
        UnknownWordCheck(
            source, {name: words for name, (words, _) in known.items() if words is not None}
        ),
        UnknownWordCheck(target, {name: words for name, (_, words) in known.items()}),
    )


def warn_of_alignments(path: str) -> None:
    """Warn about n-best lists in which no word of any hypothesis is aligned."""
    _logger.warning(
        f"{shown_path(path)}: no hypothesis has a link in its word alignment: has the decoder's "
        "phrase table alignments?"
    )


def warn_of_lengths(path: str, words: int, reference_words: int) -> None:
    """Warn about translations less than half or more than twice as long as a set of references."""
    if reference_words > 2 * words or words > 2 * reference_words:
        _logger.warning(
            f"{shown_path(path)} has {words:,} words, the references {reference_words:,}: are they "
            "for the same text, in the same language, with the same tokenisation?"
        )


def warn_of_texts(systems: Sequence[Sentences], references: Sequence[Sentences]) -> None:
    """Warn about empty translations, missing references, and very different lengths."""
    for system in systems:
        if system.num_empty:
            _logger.warning(f"{shown_path(system.path)} has {system.num_empty:,} empty lines")
    words = [sentences.words for sentences in references]
    missing = sum(not any(sentence) for sentence in zip(*words, strict=True))
    if missing:
        paths = ", ".join(shown_path(sentences.path) for sentences in references)
        _logger.warning("%s: %s sentences have no reference", paths, f"{missing:,}")
    for system in systems:
        warn_of_lengths(system.path, system.num_words, references[0].num_words)


def _attached_marks(sentences: Iterable[Sequence[str]]) -> tuple[Counter[str], int, int]:
    """Return the words with attached marks, if they are many; the separate marks, and the words."""
    attached: Counter[str] = Counter()
    separate = num_words = 0
    for words in islice(sentences, _MOST_LINES):
        num_words += len(words)
        for place, word in enumerate(words, start=1):
            plain = (html.unescape(word) if "&" in word else word).rstrip(_CLOSING)
            stem, mark = plain[:-1], plain[-1:]
            if mark not in _MARKS and (mark != "." or place < len(words) or "." in stem):
                continue
            if any(map(str.isalnum, stem)):
                attached[word] += 1
            else:
                separate += 1
    total = attached.total()
    if total <= max(_MANY_ATTACHED * (total + separate), _FEW_MARKS * num_words):
        attached.clear()
    return attached, separate, num_words


def warn_of_tokenization(
    texts: Iterable[Sentences], *, tokenized: str | None = None, is_bleu_split: bool, is_split: bool
) -> None:
    """Warn once if texts look untokenised whose words are compared, or tokenised differently.

    :param texts: translations and references.
    :param tokenized: the name of n-best lists, which consist of words.
    :param is_bleu_split: whether ``bleu`` takes words to be separated by spaces.
    :param is_split: whether other figures do, whatever ``--tokenize`` says.
    """
    raw: list[str] = []
    with_words = [] if tokenized is None else [shown_path(tokenized)]
    examples: Counter[str] = Counter()
    for path, sentences in {text.path: text.words for text in texts}.items():
        attached, separate, _ = _attached_marks(sentences)
        if attached:
            raw.append(shown_path(path))
            examples += attached
        elif separate:
            with_words.append(shown_path(path))
    if not raw or not (with_words or is_split or is_bleu_split):
        return
    ((example, _),) = examples.most_common(1)
    mark = example.rstrip(_CLOSING)[-1:]
    is_latin = mark.isascii() or mark == "…"
    option = "--tokenize 13a" if is_latin else "--tokenize intl (zh for Chinese)"
    looks = f"{raw[0]} looks untokenised" + f", like {some_names(raw[1:])}" * bool(raw[1:])
    if with_words:
        looks += f", unlike {some_names(with_words)}"
        cure = f"compare tokenised texts with each other, or untokenised ones with {option}"
    elif is_split:
        cure = "tokenise the text, as multi-bleu and the figures for groups ignore --tokenize"
    else:
        cure = f"use {option}"
    found = f"punctuation is attached to words, such as {shorten(example)}"
    _logger.warning(f"{looks}: {found}: {cure}")


def warn_of_form(
    path: str,
    sentences: Iterable[Sequence[str]],
    *,
    tokenizes: bool,
    cures: tuple[str, str] = (
        "give it as raw text, or all texts as the system's words with --tokenized",
        "tokenise it as in training, or leave out --tokenized if the system has rules for text",
    ),
) -> None:
    """Warn if a text looks tokenised and is tokenised again, or the other way round.

    :param sentences: the words between blanks in its lines.
    :param tokenizes: whether rules tokenise the text.
    :param cures: what to do with a tokenised text, and with a raw one.
    """
    attached, separate, num_words = _attached_marks(sentences)
    if tokenizes and not attached and separate > _FEW_MARKS * num_words:
        _logger.warning(
            f"{shown_path(path)} looks tokenised, and it is tokenised again: {cures[0]}"
        )
    elif attached and not tokenizes:
        ((example, _),) = attached.most_common(1)
        _logger.warning(
            f"{shown_path(path)} looks untokenised: punctuation is attached to words, such as "
            f"{shorten(example)}, and it is taken as words: {cures[1]}"
        )


def warn_of_shortlists(checkpoints: "Sequence[Checkpoint]") -> None:
    """Warn if the models in an ensemble predict different words."""
    vocabularies = [checkpoint.target_vocabulary for checkpoint in checkpoints]
    if all(vocabulary.is_subwords for vocabulary in vocabularies):
        return
    if any(vocabulary != vocabularies[0] for vocabulary in vocabularies):
        sizes = ", ".join(f"{len(vocabulary):,}" for vocabulary in vocabularies)
        _logger.warning(
            f"the ensemble's models have different shortlists ({sizes} words): with a smaller one, "
            "<unk> gets more probability than a rare word gets with the others"
        )
