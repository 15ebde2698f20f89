"""Translate with networks alone, or draw samples of what they predict."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, tee

import torch

from moses_integration.nbest import format_value
from moses_integration.nbest_lines import check_feature_names, format_hypothesis
from phrasescore.devices import choose_device, usable_threads
from phrasescore.errors import ArgumentError, DataError
from phrasescore.features.column_spec import ENSEMBLE_NAME, NETWORK_NAMES, NORMALIZED
from phrasescore.generation.beam_search import BeamSettings, check_copying
from phrasescore.generation.generator import Generated, Generator, Source, check_kinds
from phrasescore.generation.sampling import SampleSettings, count_samples
from phrasescore.generation.streams import best_targets, samples
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.io.output import check_files, open_output
from phrasescore.kernels.precision import PrecisionName
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.vocabulary import Vocabulary
from phrasescore.workflows.text_checks import UnknownWordCounter
from phrasescore.workflows.warnings import collecting_warnings

_logger = logging.getLogger(__name__)

# Hypotheses in the beam: as in Cho et al. (2014b).
USUAL_WIDTH = 10
# Line numbers that a message names at most.
_SHOWN_LINES = 5


@dataclass(frozen=True, slots=True)
class GenerateSummary:
    """The work of one `generate`."""

    # Of the text that was read; unknown words are those that at least one network does not know.
    lines: int
    words: int
    unknown_words: int
    # ``<unk>`` predicted in the translations, whether or not a word of the source stands for it.
    predicted_unknown_words: int
    # Translations that were cut, or samples that were left out, because they found no end.
    unfinished: int
    warnings: tuple[str, ...]


def generate(
    source: str | os.PathLike[str],
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    ensemble: Sequence[str | os.PathLike[str]] = (),
    beam: int | None = None,
    normalize: bool = False,
    no_unknown: bool = False,
    copy_unknown: bool = False,
    max_length: int | None = None,
    nbest: tuple[str, int] | None = None,
    name: str | None = None,
    sample: int | None = None,
    temperature: float = 1.0,
    top: int | None = None,
    seed: int = 1,
    precision: PrecisionName = "float32",
    device: str = "auto",
    threads: int | None = None,
    progress: ProgressCallback | None = None,
) -> GenerateSummary:
    """Write the best translation of each line of a text, or random ones.

    Best by log p(target ``</s>`` | source), a natural logarithm that is not divided by length. What
    a line gets depends on the line and the networks alone (and a sample on the line's number). An
    empty line stays one; with ``sample`` it gets nothing.

    :param source: tokenised sentences, one per line; ``-`` is stdin.
    :param model: a trained model's folder. One trained in reverse reads the target side.
    :param output: ``-`` is stdout; compressed where the name ends in ``.gz``.
    :param ensemble: more models, whose probabilities are averaged with the first one's.
    :param beam: hypotheses that are kept; None for 10, or for as many as ``nbest`` wants.
    :param normalize: sort complete translations by log p / (words + 1).
    :param no_unknown: never predict ``<unk>``.
    :param copy_unknown: for each ``<unk>`` write the source word it is aligned with most.
    :param max_length: words at most; None for twice those of the source and 10.
    :param nbest: a file for the n best of each line as Moses writes them, and n.
    :param name: of the feature in that file; None for one that says the kind of the network.
    :param sample: draw so many random translations of each line, and write the distinct ones by
        falling log p: ``source ||| target ||| log p ||| times``.
    :param temperature: words of samples are drawn in proportion to p^(1 / temperature).
    :param top: how many distinct samples of each line are written; None for all.
    :param seed: of the samples.
    :param precision: of the matrix products.
    :param threads: CPU threads; None for all cores. The number changes no result.
    :raises ArgumentError: if arguments do not go together.
    :raises DataError: if the text is not what it should be; no file is then written.
    :raises ModelError: if a model cannot be loaded, or models cannot generate together.
    """
    source, output = os.fspath(source), os.fspath(output)
    models = [os.fspath(path) for path in (model, *ensemble)]
    num_threads = usable_threads(threads)
    with collecting_warnings() as warnings:
        if sample is not None:
            for given, parameter in (
                (beam is not None, "beam"),
                (nbest is not None, "nbest"),
                (normalize, "normalize"),
                (copy_unknown, "copy_unknown"),
                (name is not None, "name"),
            ):
                if given:
                    raise ArgumentError(f"`{parameter}`: is not of `sample`")
            check_files((source,), (output,))
            drawing = SampleSettings(
                sample,
                temperature=temperature,
                seed=seed,
                max_length=max_length,
                unknown=not no_unknown,
            )
            text = _GeneratedText(source, models, device, precision, progress)
            _write_samples(text, output, drawing, top, num_threads)
        else:
            for given, parameter in (
                (temperature != 1.0, "temperature"),
                (top is not None, "top"),
                (seed != 1, "seed"),
            ):
                if given:
                    raise ArgumentError(f"`{parameter}`: is of `sample` alone")
            lists, num_best = nbest or (None, 1)
            width = max(USUAL_WIDTH, num_best) if beam is None else beam
            if copy_unknown and no_unknown:
                raise ArgumentError("`copy_unknown` has nothing to copy for with `no_unknown`")
            if num_best > width:
                raise ArgumentError("`beam`: at least as many as `nbest` wants of each sentence")
            if name is not None and lists is None:
                raise ArgumentError("`name` is of the feature in `nbest`")
            check_files((source,), (output, lists))
            search = BeamSettings(
                width,
                num_best,
                normalize=normalize,
                unknown=not no_unknown,
                max_length=max_length,
                copy_unknown=copy_unknown,
            )
            text = _GeneratedText(source, models, device, precision, progress)
            _write_translations(text, output, lists, name, search, num_threads)
    return text.summary(warnings)


def load_generator(
    models: Sequence[str], device: str, precision: PrecisionName
) -> tuple[Generator, list[Checkpoint]]:
    """Return networks, ready to generate, and their models.

    :raises ModelError: if a model is unusable, or they cannot generate together.
    """
    place = choose_device(device)
    torch.set_num_threads(1)  # batches have threads of their own
    checkpoints = [load_checkpoint(path) for path in models]
    check_kinds(checkpoints)
    if checkpoints[0].reverse:
        _logger.info("trained with --reverse: reads the target side, and writes the source side")
    generator = Generator(checkpoints, place, precision=precision)
    if generator.shortlists_differ:
        _logger.warning(
            "`ensemble`: the models predict words of different shortlists (of %s words): a word "
            "that one of them does not know has the probability of its <unk>, which is that of all "
            "such words together",
            ", ".join(f"{len(model.target_vocabulary):,}" for model in checkpoints),
        )
    return generator, checkpoints


class _GeneratedText:
    """A text that networks translate, with counts of what was read and written.

    :raises DataError: if the first sentence with words cannot be read.
    """

    def __init__(
        self,
        path: str,
        models: Sequence[str],
        device: str,
        precision: PrecisionName,
        progress: ProgressCallback | None,
    ) -> None:
        self.path = path
        self.progress = progress
        sentences = (line.words for line in read_monolingual_text(path))
        # Before the networks are loaded: a text that cannot be read is refused at once.
        self._sentences = chain([next(sentences)], sentences)
        self.generator, self.checkpoints = load_generator(models, device, precision)
        vocabularies = {
            model: checkpoint.source_vocabulary
            for model, checkpoint in zip(models, self.checkpoints, strict=True)
        }
        self._vocabularies = list(vocabularies.values())
        self._check = UnknownWordCounter(path, vocabularies)
        self._longest_trained = min(model.config.training.max_length for model in self.checkpoints)
        self._longest = self._too_long = 0
        self._lines = self._words = self._unknown_words = 0
        self._predicted_unknown_words = 0
        self._unfinished = 0
        self._lines_unfinished: list[int] = []

    def sources(self) -> Iterator[Source]:
        """Yield the sentences and count their words."""
        for source in self._sentences:
            self._check.count(source)
            self._words += len(source)
            self._unknown_words += max(
                vocabulary.ids(source).count(Vocabulary.UNKNOWN)
                for vocabulary in self._vocabularies
            )
            self._longest = max(self._longest, len(source))
            self._too_long += len(source) > self._longest_trained
            yield source
        self._check.warn()

    def count_written(self, targets: Sequence[Generated], *, left_out: int = 0) -> None:
        """Count what was written for the next line.

        :param left_out: samples that were not written, because they found no end.
        """
        self._lines += 1
        self._predicted_unknown_words += sum(target.unknown_words for target in targets)
        unfinished = left_out + sum(not target.finished for target in targets)
        self._unfinished += unfinished
        if unfinished:
            self._lines_unfinished.append(self._lines)

    def report(self, *, unfinished: str, copied: bool = False) -> None:
        """Log the counts, and warn of long sentences and unfinished translations.

        :param unfinished: what became of targets without an end.
        :param copied: whether a word of the source stands for each ``<unk>``.
        """
        if self._too_long:
            _logger.warning(
                "%s lines are longer than the %s words that were the most in training; the longest "
                "has %s: networks translate such lines badly",
                *(f"{self._too_long:,}", f"{self._longest_trained:,}", f"{self._longest:,}"),
            )
        if self._lines_unfinished:
            lines = ", ".join(map(str, self._lines_unfinished[:_SHOWN_LINES]))
            more = ", ..." if len(self._lines_unfinished) > _SHOWN_LINES else ""
            _logger.warning(
                "%s %s (`max_length`), of the lines %s%s",
                *(f"{self._unfinished:,}", unfinished, lines, more),
            )
        if self._predicted_unknown_words:
            level = logging.INFO if copied else logging.WARNING
            written = "a word of the source stands for each" if copied else "written as such"
            predicted = f"{self._predicted_unknown_words:,}"
            _logger.log(level, "%s <unk> predicted, %s", predicted, written)
        _logger.info(
            "%s lines read, with %s words, %s of them unknown to a network",
            *(f"{self._lines:,}", f"{self._words:,}", f"{self._unknown_words:,}"),
        )

    def summary(self, warnings: Sequence[str]) -> GenerateSummary:
        """Return the counts as values."""
        return GenerateSummary(
            self._lines,
            self._words,
            self._unknown_words,
            self._predicted_unknown_words,
            self._unfinished,
            tuple(warnings),
        )


def _write_translations(
    text: _GeneratedText,
    output: str,
    lists: str | None,
    name: str | None,
    settings: BeamSettings,
    threads: int,
) -> None:
    """Write the best translation of each line, and the n-best lists if they are wanted."""
    check_copying(text.generator, settings)
    names = _feature_names(name, text.checkpoints, settings.normalize)
    found = best_targets(text.generator, text.sources(), settings, threads=threads)
    with ExitStack() as stack:
        translations = stack.enter_context(open_output(output))
        nbest = None if lists is None else stack.enter_context(open_output(lists))
        meter = stack.enter_context(Meter("generate", "sentences", text.progress))
        for number, targets in enumerate(found):
            text.count_written(targets[:1])
            translations.write(f"{' '.join(targets[0].words)}\n".encode())
            if nbest is not None:
                for target in targets:
                    _check_fields(target.words, text.path, number + 1)
                    nbest.write(_nbest_line(number, target, names))
            meter.update()
    text.report(
        unfinished="translations found no end and are cut at their longest",
        copied=settings.copy_unknown,
    )


def _feature_names(
    name: str | None, checkpoints: Sequence[Checkpoint], normalize: bool
) -> list[str]:
    """Return the names of the features in an n-best list: log p, and what it is sorted by."""
    prefix = NETWORK_NAMES[checkpoints[0].config.kind]
    name = name or f"{ENSEMBLE_NAME if len(checkpoints) > 1 else prefix}0"
    names = [name, *([name + NORMALIZED] if normalize else [])]
    check_feature_names(names)
    return names


def _nbest_line(number: int, target: Generated, names: Sequence[str]) -> bytes:
    values = [target.log_prob, target.log_prob / (len(target.words) + 1)][: len(names)]
    features = [(name, [value]) for name, value in zip(names, values, strict=True)]
    return format_hypothesis(number, target.words, features, values[-1])


def _write_samples(
    text: _GeneratedText, output: str, settings: SampleSettings, top: int | None, threads: int
) -> None:
    """Write the distinct samples of each line, the best first."""
    sources, ahead = tee(text.sources())
    found = samples(text.generator, ahead, settings, threads=threads)
    with open_output(output) as stream, Meter("generate", "phrases", text.progress) as meter:
        for number, (source, targets) in enumerate(zip(sources, found, strict=True), start=1):
            _check_fields(source, text.path, number)
            finished = [target for target in targets if target.finished]
            text.count_written(finished, left_out=len(targets) - len(finished))
            for item in count_samples(finished)[:top]:
                fields = (" ".join(source), " ".join(item.target.words))
                value = format_value(item.target.log_prob)
                stream.write(
                    b"%b ||| %b ||| %d\n" % (" ||| ".join(fields).encode(), value, item.times)
                )
            meter.update()
    text.report(unfinished="samples found no end and are left out")


def _check_fields(words: Iterable[str], path: str, line: int) -> None:
    """Raise a DataError if a word copied from a line of the source would end a field."""
    if "|||" in words:
        problem = "the word '|||' separates fields in the output; escape it: &#124;&#124;&#124;"
        raise DataError(path, line, problem)
