"""The networks of ``phrasescore generate``: loaded, checked, and what is to be said of them."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from phrasescore.cli.source_words import is_foreign
from phrasescore.devices import choose_device
from phrasescore.generation.generator import Generated, Generator, Source, check_kinds
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.vocabulary import Vocabulary

if TYPE_CHECKING:
    from phrasescore.cli.generate_options import GenerateOptions

_logger = logging.getLogger(__name__)

# Line numbers that a message names at most.
SHOWN = 5


def load_generator(wanted: "GenerateOptions") -> tuple[Generator, list[Checkpoint]]:
    """Return the networks, ready to generate, on the device that is asked for.

    :raises ModelError: if a model is unusable, or they cannot generate together.
    """
    device = choose_device(wanted.device)
    torch.set_num_threads(1)  # batches have threads of their own
    checkpoints = [load_checkpoint(path) for path in wanted.models]
    check_kinds(checkpoints)
    if checkpoints[0].reverse:
        _logger.info("trained with --reverse: reads the target side, and writes the source side")
    generator = Generator(
        checkpoints,
        device,
        precision=wanted.precision,  # type: ignore[arg-type]
    )
    if generator.shortlists_differ:
        _logger.warning(
            "--ensemble: the models predict words of different shortlists (of %s words): a word "
            "that one of them does not know has the probability of its <unk>, which is that of all "
            "such words together",
            ", ".join(f"{len(model.target_vocabulary):,}" for model in checkpoints),
        )
    return generator, checkpoints


class Tally:
    """Counts what was read and generated, to be said at the end.

    :param checkpoints: of the networks.
    """

    def __init__(self, checkpoints: Sequence[Checkpoint]) -> None:
        self._vocabularies = [checkpoint.source_vocabulary for checkpoint in checkpoints]
        self._trained_on = min(model.config.training.max_length for model in checkpoints)
        self.lines = 0
        self._words = self._unknown_read = self._longest = self._too_long = 0
        self._unknown_words = 0
        self._without_end = 0
        self._lines_without_end: list[int] = []

    def reading(self, sources: Iterable[Source]) -> Iterator[Source]:
        """Yield the sources as they are, counted."""
        for source in sources:
            self._words += len(source)
            unknown = (ids.count(Vocabulary.UNKNOWN) for ids in self._ids(source))
            self._unknown_read += max(unknown)
            self._longest = max(self._longest, len(source))
            self._too_long += len(source) > self._trained_on
            yield source

    def _ids(self, source: Source) -> Iterator[list[int]]:
        return (vocabulary.ids(source) for vocabulary in self._vocabularies)

    def wrote(self, targets: Sequence[Generated], *, left_out: int = 0) -> None:
        """Count what was written for a line.

        :param left_out: those beside that found no end.
        """
        self.lines += 1
        self._unknown_words += sum(target.unknown_words for target in targets)
        without_end = left_out + sum(not target.finished for target in targets)
        self._without_end += without_end
        if without_end:
            self._lines_without_end.append(self.lines)

    def report(self, *, copied: bool = False, samples: bool = False) -> None:
        """Log the counts, and warnings of what a user should know.

        :param copied: whether a word of the source stands for each ``<unk>``.
        :param samples: whether what found no end was left out, and not cut.
        """
        if self._too_long:
            _logger.warning(
                "%s lines are longer than the %s words that were the most in training; the longest "
                "has %s: networks translate such ones badly",
                f"{self._too_long:,}",
                f"{self._trained_on:,}",
                f"{self._longest:,}",
            )
        if self._lines_without_end:
            lines = ", ".join(map(str, self._lines_without_end[:SHOWN]))
            more = ", ..." if len(self._lines_without_end) > SHOWN else ""
            what = (
                "samples found no end and are left out"
                if samples
                else ("translations found no end and are cut at their longest")
            )
            _logger.warning(
                "%s %s (--max-length), of the lines %s%s",
                f"{self._without_end:,}",
                what,
                lines,
                more,
            )
        if self._unknown_words:
            what = "a word of the source stands for each" if copied else "written as such"
            level = logging.INFO if copied else logging.WARNING
            _logger.log(level, "%s <unk> predicted, %s", f"{self._unknown_words:,}", what)
        read = f"{self.lines:,} lines read, with {self._words:,} words, "
        read += f"{self._unknown_read:,} of them unknown to a network"
        if is_foreign(self._unknown_read, self._words):
            problem = "is it the language that the network reads, split and cased as in training?"
            _logger.warning("%s: %s", read, problem)
        else:
            _logger.info("%s", read)
