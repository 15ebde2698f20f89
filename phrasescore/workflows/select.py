"""Keep the training text that is most like the text to be translated."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.devices import usable_threads
from phrasescore.engines.ordered_work import OrderedProcesses
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.io.corpora import read_monolingual_text, read_parallel_text
from phrasescore.io.output import check_files, check_output, open_output
from phrasescore.io.text import is_stream, same_file
from phrasescore.language_models.selection import (
    CrossEntropyDifference,
    Differences,
    choose_best,
    draw,
)
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.workflows.warnings import collecting_warnings

_logger = logging.getLogger(__name__)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Lines that a process gets at once.
_LINES = 5_000
# The share of tokens known to one model alone that is worth a warning.
_MANY_DIFFER = 0.01

# The words of a line: of one side, or of two.
_Sides = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SelectSummary:
    """How much of a text was kept."""

    kept: int
    lines: int
    # The largest difference of a kept line, in nats per token; None for lines drawn at random.
    highest_difference: float | None
    warnings: tuple[str, ...]


def select(
    text: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    in_domain: str | os.PathLike[str] | None = None,
    general: str | os.PathLike[str] | None = None,
    target: str | os.PathLike[str] | None = None,
    target_output: str | os.PathLike[str] | None = None,
    in_domain_target: str | os.PathLike[str] | None = None,
    general_target: str | os.PathLike[str] | None = None,
    share: float | None = None,
    lines: int | None = None,
    threshold: float | None = None,
    at_random: bool = False,
    seed: int = 1,
    scores: str | os.PathLike[str] | None = None,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
) -> SelectSummary:
    """Keep the lines of a text, tokenised sentences, that are most like an in-domain text.

    The difference of the cross-entropies under two n-gram models decides (Moore and Lewis, 2010):
    in nats per token, ``</s>`` included; the lower, the better. With ``target``, the other side of
    parallel text, pairs stay together, and the differences of both sides add up where models of
    both are given (Axelrod et al., 2011). Lines keep their bytes and their order. One of ``share``,
    ``lines`` and ``threshold`` is needed.

    :param output: where the kept lines of ``text`` go; ``-`` is stdout.
    :param in_domain: an n-gram model of text as it is wanted, ARPA (.gz, too) or a KenLM binary.
    :param general: one of text such as ``text``.
    :param target_output: where the kept lines of ``target`` go.
    :param share: how much to keep, above 0 and at most 1: the best lines.
    :param lines: how many lines to keep, the best ones.
    :param threshold: keep lines with a difference below this.
    :param at_random: keep as many lines drawn at random by ``seed``; needs no models.
    :param scores: where each line's difference goes, one per line.
    :param processes: that score at the same time; None for all cores.
    :raises ArgumentError: if arguments do not go together.
    :raises DataError: if a file is not what it should be.
    :raises PhrasescoreError: if no line is below the threshold, or the text changes meanwhile.
    """
    texts = [os.fspath(path) for path in (text, target) if path is not None]
    output = os.fspath(output)
    target_output, scores, *models = (
        None if path is None else os.fspath(path)
        for path in (
            *(target_output, scores),
            *(in_domain, general, in_domain_target, general_target),
        )
    )
    limit = _Limit(share, lines, threshold)
    sides = [_SideModels("", *models[:2]), _SideModels("_target", *models[2:])]
    _check_arguments(limit, sides, at_random, (target is not None, target_output), scores)
    if any(map(is_stream, texts)):
        raise ArgumentError("a text is read twice and cannot be stdin or another stream")
    outputs = (output, target_output, scores)
    check_files((*texts, *models), outputs)
    with collecting_warnings() as warnings:
        _check_models(sides)
        if len(texts) > 1 and same_file(*texts):
            raise ArgumentError(
                "`text` and `target` are one file: expected a text and a translation"
            )
        for name in outputs:
            if name is not None:
                check_output(name)
        values = None
        if at_random:
            total = sum(1 for _ in _read(texts))
            chosen = draw(total, limit.count(total), seed)
        else:
            values = _score(texts, sides, usable_threads(processes), progress)
            chosen = limit.choose(values)
        with ExitStack() as stack:
            _write(stack, texts, (output, target_output), chosen)
            if scores is not None and values is not None:
                stream = stack.enter_context(open_output(scores))
                stream.writelines(f"{value:.7g}\n".encode() for value in values.tolist())
    highest = None if values is None else float(values[chosen].max())
    return SelectSummary(int(chosen.sum()), len(chosen), highest, tuple(warnings))


class _Limit(NamedTuple):
    """How much is kept: one of them."""

    share: float | None
    lines: int | None
    threshold: float | None

    def count(self, total: int) -> int:
        """Return how many lines are kept: at least one, and at most all of them."""
        if self.lines is not None:
            return min(self.lines, total)
        assert self.share is not None
        return max(1, round(self.share * total))

    def choose(self, values: Floats) -> Flags:
        """Return which lines are kept.

        :raises PhrasescoreError: if there is none.
        """
        if self.threshold is None:
            return choose_best(values, self.count(len(values)))
        chosen: Flags = values < self.threshold
        if not chosen.any():
            problem = f"no line has a difference below {self.threshold:g}; the lowest is"
            raise PhrasescoreError(f"`threshold`: {problem} {values.min():.4f}")
        return chosen


class _SideModels(NamedTuple):
    """The two n-gram models of a side; None where they are not given."""

    # How the names of the parameters end.
    suffix: str
    in_domain: str | None
    general: str | None

    def load(self) -> CrossEntropyDifference | None:
        """Return what scores sentences with the models."""
        if self.in_domain is None or self.general is None:
            return None
        return CrossEntropyDifference(self.in_domain, self.general)


def _check_arguments(
    limit: _Limit,
    sides: Sequence[_SideModels],
    at_random: bool,
    target: tuple[bool, str | None],
    scores: str | None,
) -> None:
    """Check that there are neither too few nor too many arguments.

    :param target: whether there is another side of parallel text, and where it goes.
    """
    if sum(value is not None for value in limit) != 1:
        raise ArgumentError("expected one of `share`, `lines` and `threshold`")
    for side in sides:
        if (side.in_domain is None) != (side.general is None):
            problem = f"`in_domain{side.suffix}` and `general{side.suffix}` go together"
            raise ArgumentError(problem)
    given = [side.in_domain is not None for side in sides]
    if at_random and (any(given) or scores is not None or limit.threshold is not None):
        raise ArgumentError("`at_random` takes no models, `scores` or `threshold`")
    if not at_random and not any(given):
        raise ArgumentError("expected `in_domain` and `general`, or `at_random`")
    if target[0] != (target[1] is not None):
        raise ArgumentError("`target` and `target_output` go together")
    if not target[0] and given[1]:
        raise ArgumentError("`in_domain_target` is a model of `target`, which is not there")


def _check_models(sides: Sequence[_SideModels]) -> None:
    """Refuse two models of a side that are one file: all differences would be 0.

    Two sides with one model are warned of.
    """
    for suffix, one, other in sides:
        if one is not None and other is not None and same_file(one, other):
            names = f"`in_domain{suffix}` and `general{suffix}`"
            raise ArgumentError(f"{names} are one file: expected two models")
    for kind, one, other in zip(("in-domain", "general"), sides[0][1:], sides[1][1:], strict=True):
        if one is not None and other is not None and same_file(one, other):
            _logger.warning("the %s models of both sides are one file, for two languages", kind)


class _TextPair(NamedTuple):
    """A line: its bytes on each side, and its words."""

    raw: tuple[bytes, ...]
    sides: _Sides


def _read(texts: Sequence[str]) -> Iterator[_TextPair]:
    """Yield the lines of a text, or of parallel text.

    :raises DataError: on reading.
    """
    if len(texts) == 1:
        for line in read_monolingual_text(texts[0]):
            yield _TextPair((line.raw,), (line.words,))
        return
    for both in read_parallel_text(*texts):
        yield _TextPair(tuple(both.raw.split(b"\n")), (both.pair.source, both.pair.target))


class _LineScorer:
    """Scores some lines, by the models of each side that has some."""

    def __init__(self, models: Sequence[CrossEntropyDifference | None]) -> None:
        self._models = models

    def __call__(self, lines: Sequence[_Sides]) -> list[Differences]:
        found = []
        for model, sentences in zip(self._models, zip(*lines, strict=True), strict=False):
            if model is not None:
                found.append(model.differences(sentences))
        return found


def _score(
    texts: Sequence[str],
    sides: Sequence[_SideModels],
    processes: int,
    progress: ProgressCallback | None,
) -> Floats:
    """Return the difference of each line, the sum over its sides."""
    scorer = _LineScorer([side.load() for side in sides])
    values, tokens, differing = [], 0, 0
    pool = OrderedProcesses(scorer, processes)
    with pool, Meter("select", "lines", progress) as meter:
        for found in pool.map(_blocks(texts)):
            values.append(np.sum([each.values for each in found], axis=0))
            tokens += sum(each.tokens for each in found)
            differing += sum(each.known_to_one for each in found)
            meter.update(len(values[-1]))
    if differing > _MANY_DIFFER * tokens:
        _logger.warning(
            "%.1f%% of the words are known to one of two models only, whose <unk> then stands "
            "against a word: make both with one vocabulary (lmplz --limit_vocab_file)",
            100 * differing / tokens,
        )
    return np.concatenate(values)


def _blocks(texts: Sequence[str]) -> Iterator[list[_Sides]]:
    lines = _read(texts)
    while block := [line.sides for line in islice(lines, _LINES)]:
        yield block


def _write(
    stack: ExitStack, texts: Sequence[str], outputs: Sequence[str | None], chosen: Flags
) -> None:
    """Write the chosen lines as they are.

    :raises PhrasescoreError: if the text has become another one.
    """
    streams = [stack.enter_context(open_output(name)) for name in outputs if name is not None]
    number = 0
    for number, line in enumerate(_read(texts), start=1):
        if number <= len(chosen) and chosen[number - 1]:
            for stream, raw in zip(streams, line.raw, strict=True):
                stream.write(raw + b"\n")
    if number != len(chosen):
        problem = f"has changed while it was read: {len(chosen):,} lines, then {number:,}"
        raise PhrasescoreError(f"{texts[0]}: {problem}")
