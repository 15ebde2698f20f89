"""Translate using only networks, or draw samples from their predictions."""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, tee

from moses_integration.nbest_lines import format_hypothesis, format_value
from phrasescore.arguments import AtLeastOne, StrPath, flag
from phrasescore.devices import torch_threads
from phrasescore.engines import local_device
from phrasescore.errors import ArgumentError, DataError
from phrasescore.features.model import ENSEMBLE_NAME, network_name
from phrasescore.generation.beam_search import BeamSettings, beam_work
from phrasescore.generation.generator import Generated, GeneratorLoader, Source, check_kinds
from phrasescore.generation.sampling import SampleSettings, count_samples, sample_work
from phrasescore.io.corpora import TextLine, read_monolingual_text
from phrasescore.io.output import check_files, open_output
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import check
from phrasescore.settings.scoring import Generating
from phrasescore.systems.text_checks import UnknownWordCheck

_logger = logging.getLogger(__name__)

_USUAL_WIDTH = 10  # hypotheses in the beam, as in Cho et al. (2014b)


@dataclass(slots=True)
class GenerateSummary:
    """Counts from one run of `generate`."""

    lines: int = 0
    words: int = 0
    unknown_words: int = 0  # number of words of the text that are unknown to at least one network
    predicted_unknown_words: int = 0  # number of ``<unk>`` in the translations
    unfinished: int = 0  # translations truncated, or samples omitted, because they did not end


@torch_threads(1)  # batches have their own threads
def generate(
    source: StrPath,
    model: StrPath,
    output: StrPath,
    *,
    settings: Generating = Generating(),
    nbest: tuple[StrPath, int] | None = None,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> GenerateSummary:
    """Write the best translation of each line of a text, or random samples.

    The best translation has the highest log p(target ``</s>`` | source), a natural logarithm that
    is not divided by length. The output for a line depends only on the line and the networks (a
    sample also on the line's number). An empty line stays empty; with ``sample`` it is skipped.

    :param source: tokenised sentences, one per line.
    :param model: a model trained in reverse reads the target side.
    :param nbest: a file for the n best translations of each line in Moses' format, and n.
    """
    source, output = os.fspath(source), os.fspath(output)
    models = [os.fspath(path) for path in (model, *settings.ensemble)]
    lists, num_best = (None, 1) if nbest is None else (os.fspath(nbest[0]), nbest[1])
    check(AtLeastOne, nbest=num_best)
    compute = compute.on_workers()
    searching = beam_settings(settings, num_best, "--nbest")
    _check_exclusive(settings, lists)
    check_files((source,), (output, lists))
    # Reject an unreadable text before the networks are loaded.
    lines = read_monolingual_text(source)
    lines = chain([next(lines)], lines)
    device = local_device(compute)
    checkpoints = [load_checkpoint(path) for path in models]
    check_kinds(checkpoints)
    first = checkpoints[0]
    if first.reverse:
        _logger.info("trained with --reverse: reads the target side, and writes the source side")
    generator = GeneratorLoader(tuple(checkpoints), device, compute.precision)
    text = _CountedText(source, lines, dict(zip(models, checkpoints, strict=True)))
    if settings.sample is not None:
        drawing = SampleSettings(
            settings.sample,
            seed=settings.seed,
            max_length=settings.max_length,
            unknown=settings.unknown,
        )
        sources, ahead = tee(text.sources())
        drawn = sample_work(generator, drawing).targets(ahead, compute)
        _write_samples(zip(sources, drawn, strict=True), text, output, progress)
        return text.finish(unfinished="samples did not end and are omitted")
    prefix = ENSEMBLE_NAME
    if len(checkpoints) == 1:
        prefix = network_name(
            first.config.kind, reverse=first.reverse, right_to_left=first.right_to_left
        )
    names = [f"{prefix}0", f"{prefix}0Norm"] if settings.normalize else [f"{prefix}0"]
    found = beam_work(generator, searching).targets(text.sources(), compute)
    _write_translations(found, text, output, lists, names, progress)
    end = "translations did not end and are truncated at the maximum length"
    return text.finish(unfinished=end)


def beam_settings(settings: Generating, num_best: int, option: str) -> BeamSettings:
    """Return the settings of the search for the ``num_best`` that ``option`` needs."""
    width = max(_USUAL_WIDTH, num_best) if settings.beam is None else settings.beam
    if width < num_best:
        raise ArgumentError(f"--beam: expected at least {num_best}, for {option}, got {width}")
    return BeamSettings(
        width,
        num_best,
        normalize=settings.normalize,
        unknown=settings.unknown,
        max_length=settings.max_length,
    )


def _check_exclusive(settings: Generating, lists: str | None) -> None:
    """Reject settings that cannot be combined, such as samples with n-best lists."""
    others = {"normalize", "beam"}
    problem = "has no effect with --sample"
    if settings.sample is None:
        others, problem = {"seed"}, "has an effect only with --sample"
    elif lists is not None:
        raise ArgumentError(f"--nbest: {problem}")
    for name in settings.changed():
        if name in others:
            raise ArgumentError(f"{flag(name)}: {problem}")


class _CountedText:
    """Reads the lines of a text, and counts the words read and written by the models."""

    def __init__(
        self, path: str, lines: Iterable[TextLine], checkpoints: Mapping[str, Checkpoint]
    ) -> None:
        self.path = path
        self._sentences = lines
        self._vocabularies = {path: each.source_vocabulary for path, each in checkpoints.items()}
        self._longest_trained = min(c.config.training.max_length for c in checkpoints.values())
        self._longest = self._too_long = 0
        self._counts = GenerateSummary()
        self._first_unfinished = 0  # the number of a line

    def sources(self) -> Iterator[Source]:
        check = UnknownWordCheck(self.path, self._vocabularies)
        vocabularies = self._vocabularies.values()
        for line in self._sentences:
            source = line.words
            check.count(source)
            self._counts.words += len(source)
            self._counts.unknown_words += max(
                sum(word not in vocabulary for word in source) for vocabulary in vocabularies
            )
            length = max(len(vocabulary.ids(source)) for vocabulary in vocabularies)
            self._longest = max(self._longest, length)
            self._too_long += length > self._longest_trained
            yield source
        check.warn()

    def count_written(self, targets: Sequence[Generated], *, left_out: int = 0) -> None:
        self._counts.lines += 1
        self._counts.predicted_unknown_words += sum(target.unknown_words for target in targets)
        unfinished = left_out + sum(not target.finished for target in targets)
        if unfinished:
            self._first_unfinished = self._first_unfinished or self._counts.lines
            self._counts.unfinished += unfinished

    def finish(self, *, unfinished: str) -> GenerateSummary:
        """Return and log the counts; warn about long sentences and unfinished translations."""
        done = self._counts
        if self._too_long:
            has_pieces = any(each.is_subwords for each in self._vocabularies.values())
            trained = f"{self._longest_trained:,} {'pieces' if has_pieces else 'words'}"
            _logger.warning(
                f"{self._too_long:,} lines are longer than the longest in training ({trained}); "
                f"the longest has {self._longest:,}: networks translate such lines badly"
            )
        if done.unfinished:
            first = f"the first in line {self._first_unfinished:,}"
            _logger.warning(f"{done.unfinished:,} {unfinished} (--max-length), {first}")
        if done.predicted_unknown_words:
            _logger.warning(f"{done.predicted_unknown_words:,} <unk> predicted, written as such")
        _logger.info(
            f"{done.unknown_words:,} of {done.words:,} source words, in {done.lines:,} lines, are "
            "unknown to a network"
        )
        return done


def _write_translations(
    found: Iterable[Sequence[Generated]],
    text: _CountedText,
    output: str,
    lists: str | None,
    names: Sequence[str],
    progress: ProgressCallback | None,
) -> None:
    with ExitStack() as stack:
        best = stack.enter_context(open_output(output))
        nbest = None if lists is None else stack.enter_context(open_output(lists))
        meter = stack.enter_context(Meter("generate", "sentences", progress, lines_of=text.path))
        for number, targets in enumerate(found):
            text.count_written(targets[:1])
            best.write(f"{' '.join(targets[0].words)}\n".encode())
            if nbest is not None:
                for target in targets:
                    _check_fields(target.words, text.path, number + 1)
                    values = [target.log_prob, target.log_prob / (target.length + 1)]
                    features = [(name, [value]) for name, value in zip(names, values, strict=False)]
                    total = values[len(names) - 1]
                    nbest.write(format_hypothesis(number, target.words, features, total))
            meter.update()


def _write_samples(
    drawn: Iterable[tuple[Source, Sequence[Generated]]],
    text: _CountedText,
    output: str,
    progress: ProgressCallback | None,
) -> None:
    with (
        open_output(output) as stream,
        Meter("generate", "phrases", progress, lines_of=text.path) as meter,
    ):
        for number, (source, targets) in enumerate(drawn, start=1):
            _check_fields(source, text.path, number)
            finished = [target for target in targets if target.finished]
            text.count_written(finished, left_out=len(targets) - len(finished))
            for item in count_samples(finished):
                fields = (" ".join(source), " ".join(item.target.words))
                value = format_value(item.target.log_prob)
                stream.write(
                    b"%b ||| %b ||| %d\n" % (" ||| ".join(fields).encode(), value, item.times)
                )
            meter.update()


def _check_fields(words: Iterable[str], path: str, line: int) -> None:
    if "|||" in words:
        problem = "the word '|||' separates fields in the output; escape it: &#124;&#124;&#124;"
        raise DataError(path, line, problem)
