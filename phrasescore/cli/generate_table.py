"""A phrase table with generated pairs: ``phrasescore generate --augment``."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

import click

from moses_integration.augment import (
    NewPair,
    SourceBlock,
    end_lines,
    is_writable,
    read_sources,
    with_missing,
    write_block,
)
from moses_integration.moses_ini import MosesIni
from moses_integration.phrase_table import PhraseTableLine, read_phrase_table
from phrasescore import __version__
from phrasescore.cli.annotate import path_for_ini
from phrasescore.cli.generate_networks import load_generator
from phrasescore.cli.generate_scores import ForwardPairs, PairScores, plan_columns
from phrasescore.cli.progress import show_progress
from phrasescore.devices import usable_threads
from phrasescore.errors import DataError, ModelError
from phrasescore.generation.beam_search import BeamSettings
from phrasescore.generation.generator import Generator, Source
from phrasescore.generation.streams import best_targets
from phrasescore.io.digests import digest_text
from phrasescore.io.file_names import check_files
from phrasescore.io.monolingual_text import read_monolingual_text
from phrasescore.io.output import check_output, open_output
from phrasescore.io.resumable import ResumableOutput, is_resumable, work_files
from phrasescore.io.text import shorten
from phrasescore.progress import Meter
from phrasescore.vocabulary import Vocabulary

if TYPE_CHECKING:
    from phrasescore.cli.generate_options import AugmentOptions, GenerateOptions
    from phrasescore.models.checkpoint import Checkpoint

_logger = logging.getLogger(__name__)

# Lines of a group, or a source's more: what is generated for together, and lost at most when a run
# is killed.
GROUP_LINES = 4096


@dataclass
class _Counts:
    """What was done so far."""

    sources: int = 0
    asked: int = 0
    unknown: int = 0
    new: int = 0
    known: int = 0


def augment_table(wanted: "GenerateOptions", augment: "AugmentOptions") -> None:
    """Write the table with new pairs, and the moses.ini that goes with it."""
    resumable = _check_files(wanted, augment)
    only = _read_only(augment)
    lines = read_phrase_table(augment.augment)
    first = next(lines)
    columns = plan_columns(augment, first.num_scores)
    ini = _edited_ini(wanted, augment, first.num_scores)
    generator, checkpoints = load_generator(wanted)
    if generator.reverse:
        raise ModelError(
            f"{wanted.model}: expected a model that predicts the target, found one trained with "
            "--reverse; it may be the --reverse-model"
        )
    scores = PairScores(columns, wanted, augment)
    augmenter = _Augmenter(generator, checkpoints, scores, wanted, augment, only)
    settings = _settings(wanted, augment, checkpoints, scores, columns)
    settings["only sources"] = _digest(only)

    def write_ini() -> None:
        if ini is not None and augment.moses_ini_out is not None:
            ini.write(augment.moses_ini_out)

    lines = chain([first], lines)
    _write(lines, augmenter, wanted.output, settings, augment, write_ini, resumable=resumable)
    augmenter.report()


def _check_files(wanted: "GenerateOptions", augment: "AugmentOptions") -> bool:
    """Check that no file is in another's way; return whether a run can be resumed."""
    resumable = is_resumable(wanted.output)
    if augment.resume and not resumable:
        raise click.UsageError("--resume needs --output FILE: a stream cannot be resumed")
    read = (
        *(augment.augment, augment.only_sources, augment.moses_ini),
        *(augment.lexicon, augment.reverse_lexicon),
    )
    work = work_files(wanted.output) if resumable else ()
    check_files(read, (wanted.output, augment.moses_ini_out, *work))
    for name in (wanted.output, augment.moses_ini_out):
        if name is not None:
            check_output(name)
    return resumable


def _read_only(augment: "AugmentOptions") -> frozenset[Source] | None:
    """Return the sources that get new targets; None for all.

    :raises DataError: if Moses would take one for something else than words.
    """
    path = augment.only_sources
    if path is None:
        return None
    found = set()
    for number, line in enumerate(read_monolingual_text(path), start=1):
        if line.words and not is_writable(line.words):
            problem = "expected a source phrase, words without '|' and tabs"
            raise DataError(path, number, f"{problem}, found {shorten(' '.join(line.words))}")
        found.add(line.words)
    return frozenset(found - {()})


def _digest(sources: frozenset[Source] | None) -> str:
    if sources is None:
        return "all"
    return digest_text("\n".join(sorted(" ".join(source) for source in sources)))


def _edited_ini(
    wanted: "GenerateOptions", augment: "AugmentOptions", num_scores: int
) -> MosesIni | None:
    # Before the long work: what is wrong with it is said at once.
    if augment.moses_ini is None:
        return None
    ini = MosesIni.read(augment.moses_ini)
    path = path_for_ini(ini, augment.augment, wanted.output)
    ini.add_scores(None, 1, path, old_table_path=augment.augment, num_scores=num_scores)
    return ini


def _settings(
    wanted: "GenerateOptions",
    augment: "AugmentOptions",
    checkpoints: "list[Checkpoint]",
    scores: PairScores,
    columns: object,
) -> dict[str, str]:
    """Return everything that the new lines depend on, but for the table."""
    import torch

    names = ("num_targets", "min_probability", "min_count", "max_phrase_length", "no_indicator")
    return {
        "version": f"phrasescore {__version__}, torch {torch.__version__}",
        "precision": wanted.precision,
        "beam": str(wanted.beam),
        "columns": str(columns),
        **{name.replace("_", " "): str(getattr(augment, name)) for name in names},
        **{f"model {place}": model.fingerprint for place, model in enumerate(checkpoints, start=1)},
        **scores.fingerprints,
    }


class _Augmenter:
    """Makes the lines of a group of sources, old and new.

    A source with a word that a network does not know is not asked: what it would get translates the
    rest of it.
    """

    def __init__(
        self,
        generator: Generator,
        checkpoints: "list[Checkpoint]",
        scores: PairScores,
        wanted: "GenerateOptions",
        augment: "AugmentOptions",
        only: frozenset[Source] | None,
    ) -> None:
        self._generator = generator
        self._reads = [checkpoint.source_vocabulary for checkpoint in checkpoints]
        self._scores = scores
        self._threads = usable_threads(wanted.threads)
        self._options = augment
        self.only = only
        self._search = BeamSettings(
            wanted.beam,
            augment.num_targets,
            unknown=False,
            max_length=augment.max_phrase_length,
        )
        self._counts = _Counts()

    def lines(self, blocks: list[SourceBlock]) -> Iterator[bytes]:
        """Yield the lines of some sources with their new pairs."""
        asked = [block for block in blocks if self._is_asked(block)]
        self._counts.sources += len(blocks)
        self._counts.asked += len(asked)
        sources = [block.source for block in asked]
        targets = best_targets(self._generator, sources, self._search, threads=self._threads)
        found = [
            self._new_targets(
                block, [(target.words, target.log_prob) for target in of_block if target.finished]
            )
            for block, of_block in zip(asked, targets, strict=True)
        ]
        new = {
            item.source: list(map(NewPair, item.targets, rows))
            for item, rows in zip(found, self._scores.rows(found), strict=True)
        }
        self._counts.new += sum(map(len, new.values()))
        for block in blocks:
            yield from write_block(
                block, new.get(block.source, ()), indicator=not self._options.no_indicator
            )

    def _is_asked(self, block: SourceBlock) -> bool:
        if self.only is not None and block.source not in self.only:
            return False
        least = self._options.min_count
        if least is not None and block.lines and block.times_extracted < least:
            return False
        if any(Vocabulary.UNKNOWN in vocabulary.ids(block.source) for vocabulary in self._reads):
            self._counts.unknown += 1
            return False
        return True

    def _new_targets(
        self, block: SourceBlock, targets: Iterable[tuple[Source, float]]
    ) -> ForwardPairs:
        """Return those that the table lacks, and that are good enough."""
        least = self._options.min_probability
        item = ForwardPairs(block.source, [], [])
        for words, log_prob in targets:
            if not is_writable(words) or math.exp(log_prob) < least:
                continue
            if block.lacks(words):
                item.targets.append(words)
                item.log_probs.append(log_prob)
            else:
                self._counts.known += 1
        return item

    def report(self) -> None:
        """Log what was done."""
        counts = self._counts
        _logger.info(
            "%s of %s sources asked, %s not for their unknown words; %s new pairs; %s of the "
            "generated ones are in the table",
            *(
                f"{number:,}"
                for number in (
                    *(counts.asked, counts.sources, counts.unknown),
                    *(counts.new, counts.known),
                )
            ),
        )


def _groups(blocks: Iterable[SourceBlock]) -> Iterator[list[SourceBlock]]:
    """Yield the sources in groups; each but the last ends with the last line of a source.

    What the table lacks behind its last source belongs to the last group: a resumed run knows by
    the lines of the table what is done.
    """
    group: list[SourceBlock] = []
    between: list[SourceBlock] = []
    lines = 0
    for block in blocks:
        if not block.lines:
            between.append(block)
            continue
        if lines >= GROUP_LINES:
            yield group
            group, lines = [], 0
        group += [*between, block]
        between = []
        lines += len(block.lines)
    yield [*group, *between]


def _write(
    lines: Iterator[PhraseTableLine],
    augmenter: _Augmenter,
    output: str,
    settings: dict[str, str],
    augment: "AugmentOptions",
    write_ini: Callable[[], None],
    *,
    resumable: bool,
) -> None:
    """Write the table into ``output``, with progress."""
    only = augmenter.only or frozenset()
    if not resumable:
        with open_output(output) as stream, Meter("generate", "lines", show_progress) as progress:
            groups = _groups(with_missing(read_sources(augment.augment, lines), only))
            for data, group in _augmented(groups, augmenter):
                stream.write(data)
                progress.update(sum(len(block.lines) for block in group))
        write_ini()
        return
    with ResumableOutput(output, settings, resume=augment.resume) as target:
        last = None
        for line in islice(lines, target.done.lines):
            target.skip(line.raw + line.end)
            last = line.pair.source
        target.check_skipped(augment.augment)
        following = next(lines, None)
        if target.finished:
            target.check_end(following, augment.augment)
        elif following is not None:  # else the last group has what comes behind the table, too
            lines = chain([following], lines)
            blocks = read_sources(augment.augment, lines, after=last)
            blocks = with_missing(blocks, only, after=last)
            with Meter("generate", "lines", show_progress) as progress:
                for data, group in _augmented(_groups(blocks), augmenter):
                    read = [line.raw + line.end for block in group for line in block.lines]
                    target.write(data, b"".join(read))
                    target.end_chunk(len(read))
                    progress.update(len(read))
        # Before the table appears: if this fails, --resume has nothing else left to do.
        target.settle()
        write_ini()


def _augmented(
    groups: Iterable[list[SourceBlock]], augmenter: _Augmenter
) -> Iterator[tuple[bytes, list[SourceBlock]]]:
    """Yield each group and what is written for it."""
    for group in groups:
        yield b"".join(end_lines(augmenter.lines(group))), group
