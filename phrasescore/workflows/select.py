"""Select the training text that most resembles the text to be translated."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from phrasescore.arguments import StrPath, flag
from phrasescore.devices import usable_threads
from phrasescore.engines import LoadedWork, open_pool
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.io.corpora import read_monolingual_text, read_parallel_text
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.io.text import is_stream, same_file
from phrasescore.language_models.ngram_scorer import CrossEntropyDifference
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.settings.evaluation import Selecting
from phrasescore.systems.text_checks import UnknownWordCheck

_logger = logging.getLogger(__name__)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_LINES = 5_000  # number of lines that a process scores together

_Sides = tuple[tuple[str, ...], ...]  # the words of a line, on one side or both sides


@dataclass(frozen=True, slots=True)
class SelectSummary:
    """Counts of the selected lines."""

    kept: int
    lines: int
    highest_difference: float  # of a kept line, in nats per token


def select(
    text: StrPath,
    output: StrPath,
    *,
    in_domain: StrPath | None = None,
    general: StrPath | None = None,
    target: StrPath | None = None,
    target_output: StrPath | None = None,
    in_domain_target: StrPath | None = None,
    general_target: StrPath | None = None,
    settings: Selecting = Selecting(),
    progress: ProgressCallback | None = None,
) -> SelectSummary:
    """Select the lines of a text (tokenised sentences) that are most like an in-domain text.

    The criterion is the difference between the cross-entropies under two n-gram models (Moore and
    Lewis, 2010), in nats per token, including ``</s>``; lower is better. With ``target``, the other
    side of parallel text, pairs are kept together; if there are models for both sides, their
    differences are added (Axelrod et al., 2011). Lines are unchanged and stay in order.

    :param text: a file, not a stream: it is read twice, as is ``target``.
    :param output: the file for the lines selected from ``text``; ``target_output`` is for those
        from ``target``.
    :param in_domain: an n-gram model of in-domain text, ARPA (also .gz) or a KenLM binary;
        ``general`` is a model of text such as ``text``.
    """
    texts = [os.fspath(path) for path in (text, target) if path is not None]
    outputs = (os.fspath(output), optional_path(target_output))
    sides = (
        (optional_path(in_domain), optional_path(general)),
        (optional_path(in_domain_target), optional_path(general_target)),
    )
    threshold = settings.threshold
    if [settings.share, settings.lines, threshold].count(None) != 2:
        raise ArgumentError("expected exactly one of --share, --lines and --threshold")
    for suffix, (one, other) in zip(("", "_target"), sides, strict=True):
        names = f"{flag('in_domain' + suffix)} and {flag('general' + suffix)}"
        if (one is None) != (other is None):
            raise ArgumentError(f"{names} must be given together")
        if one is not None and other is not None and same_file(one, other):
            raise ArgumentError(f"{names} are the same file: expected two models")
    given = [one is not None for one, _ in sides]
    if not any(given):
        raise ArgumentError("expected --in-domain and --general")
    if (target is None) != (target_output is None):
        raise ArgumentError("a target text and --target-output must be given together")
    if target is None and given[1]:
        raise ArgumentError("--in-domain-target and --general-target require a target text")
    if any(map(is_stream, texts)):
        raise ArgumentError("a text is read twice and cannot be stdin or another stream")
    check_files((*texts, *sides[0], *sides[1]), outputs)
    if len(texts) > 1 and same_file(*texts):
        raise ArgumentError("text and target are the same file: expected a text and a translation")
    models = [
        None if one is None or other is None else CrossEntropyDifference(one, other)
        for one, other in sides
    ]
    values = _score(texts, models, progress)
    if threshold is None:
        share = settings.share or 0.0
        chosen = choose_best(values, settings.lines or max(1, round(share * len(values))))
    else:
        chosen = values < threshold
        if not chosen.any():
            problem = f"no line has a difference below {threshold:g}; the lowest is"
            raise PhrasescoreError(f"--threshold: {problem} {values.min():.4f}")
    _write(texts, outputs, chosen)
    return SelectSummary(int(chosen.sum()), len(chosen), float(values[chosen].max()))


def _read(texts: Sequence[str]) -> Iterator[tuple[list[bytes], _Sides]]:
    if len(texts) == 1:
        for line in read_monolingual_text(texts[0]):
            yield [line.raw], (line.words,)
        return
    for both in read_parallel_text(*texts):
        yield both.raw.split(b"\n"), both.pair


def _differences(
    models: Sequence[CrossEntropyDifference | None], lines: Sequence[_Sides]
) -> Floats:
    sides = zip(models, zip(*lines, strict=True), strict=False)
    values: Floats = np.sum(
        [model.differences(sentences) for model, sentences in sides if model is not None], axis=0
    )
    return values


def _score(
    texts: Sequence[str],
    models: Sequence[CrossEntropyDifference | None],
    progress: ProgressCallback | None,
) -> Floats:
    values = []
    workers = usable_threads(None)
    engine = Compute(engine="here" if workers == 1 else "processes", workers=workers)
    with (
        open_pool(engine, LoadedWork(partial(_differences, models))) as pool,
        Meter("select", "lines", progress, lines_of=texts[0]) as meter,
    ):
        for found in pool.map(_blocks(texts, models)):
            values.append(found)
            meter.update(len(found))
    return np.concatenate(values)


def _blocks(
    texts: Sequence[str], models: Sequence[CrossEntropyDifference | None]
) -> Iterator[list[_Sides]]:
    """Yield blocks of lines as words; warn about models that lack many of the words."""
    unknown_words = [
        UnknownWordCheck(text, {} if model is None else model.known_words)
        for text, model in zip(texts, models, strict=False)
    ]
    lines = (sides for _, sides in _read(texts))
    while block := list(islice(lines, _LINES)):
        for sides in block:
            for side, words in zip(unknown_words, sides, strict=True):
                side.count(words)
        yield block
    for side in unknown_words:
        side.warn()


def _write(texts: Sequence[str], outputs: Sequence[str | None], chosen: Flags) -> None:
    number = 0
    with ExitStack() as stack:
        streams = [stack.enter_context(open_output(name)) for name in outputs if name is not None]
        for number, (raws, _) in enumerate(_read(texts), start=1):
            if number <= len(chosen) and chosen[number - 1]:
                for stream, raw in zip(streams, raws, strict=True):
                    stream.write(raw + b"\n")
        if number != len(chosen):
            problem = f"has changed during the run: {len(chosen):,} lines, then {number:,}"
            raise PhrasescoreError(f"{texts[0]}: {problem}")


def choose_best(values: Floats, count: int) -> Flags:
    """Return flags that mark the ``count`` lowest values, preferring earlier values on ties.

    >>> choose_best(np.array([0.5, -1.0, 0.5, 0.0]), 3).tolist()
    [True, True, False, True]
    """
    chosen = np.zeros(len(values), dtype=bool)
    chosen[np.argsort(values, kind="stable")[:count]] = True
    return chosen
