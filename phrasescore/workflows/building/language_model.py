"""Estimate an n-gram model of texts."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from phrasescore.arguments import StrPath, check_sequences
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.io.output import check_files, open_output
from phrasescore.language_models.estimation import estimate
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.building import Estimating


@dataclass(frozen=True, slots=True)
class BuildLmSummary:
    """The result of `build_lm`."""

    lines: int
    # Number of n-grams of each order, from 1.
    ngrams: tuple[int, ...]


def build_lm(
    texts: Sequence[StrPath],
    output: StrPath,
    *,
    settings: Estimating = Estimating(),
    progress: ProgressCallback | None = None,
) -> BuildLmSummary:
    """Estimate an n-gram model with modified Kneser-Ney smoothing, as KenLM's lmplz does.

    Texts larger than memory are sorted on the disk, in anonymous files in Python's folder for
    temporary files.

    :param texts: files with one tokenised sentence per line; an empty line is a sentence, too.
    :param output: the ARPA file.
    """
    check_sequences(texts=texts)
    paths = [os.fspath(path) for path in texts]
    check_files(paths, [os.fspath(output)])
    with (
        open_output(os.fspath(output)) as stream,
        Meter(
            "build-lm", "lines", progress, lines_of=paths[0] if len(paths) == 1 else None
        ) as meter,
    ):
        ngrams = estimate(
            meter.track(sentence for path in paths for sentence in read_sentences(path)),
            stream,
            order=settings.order,
            prune=settings.prune,
            discount_fallback=settings.discount_fallback,
            report=lambda step: meter.update(0, step),
        )
    return BuildLmSummary(meter.done, tuple(ngrams))


def read_sentences(path: str) -> Iterator[tuple[str, ...]]:
    """Return the sentences of a text; a text without words, and the models' symbols, are errors."""
    return (line.words for line in read_monolingual_text(path, refuse_unknown=True))
