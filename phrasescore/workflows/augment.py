"""Add generated phrase pairs to a sorted phrase table."""

import logging
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import torch

from moses_integration import phrase_table
from moses_integration.phrase_table import NewPair, SourceBlock, TableBlock
from phrasescore.arguments import StrPath
from phrasescore.devices import torch_threads
from phrasescore.engines import Pending, open_pool, read_ahead
from phrasescore.errors import ArgumentError, DataError, ModelError, shown_path
from phrasescore.generation.beam_search import BeamSettings, beam_work
from phrasescore.generation.generator import Generated, Source, TargetPool, TargetWork
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.io.journal import digest_text
from phrasescore.io.output import check_files, optional_path
from phrasescore.io.resumable import check_resume, open_resumable, work_files
from phrasescore.io.text import shorten
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.settings.generation import Augmenting
from phrasescore.version import __version__
from phrasescore.vocabulary import Vocabulary
from phrasescore.workflows.annotate import check_moses_ini, declare_scores
from phrasescore.workflows.generate import beam_width, load_generator
from phrasescore.workflows.scoring.new_pair_scores import NewTargets, PairScores, plan_columns
from phrasescore.workflows.text_checks import UnknownWordCheck, known_words, unknown_words_of

_logger = logging.getLogger(__name__)
# Minimum number of lines in a group of sources, whose targets are generated together. A run that is
# killed loses at most one group.
GROUP_LINES = 4096


@dataclass(slots=True)
class AugmentSummary:
    """Counts from one run of `augment`; after resuming, they exclude earlier runs."""

    sources: int = 0  # read
    asked: int = 0  # sources for which targets were generated
    unknown: int = 0  # number of sources skipped because a network does not know one of their words
    # Number of pairs added, and of generated pairs that the table already contains.
    new: int = 0
    known: int = 0

    def summary(self) -> str:
        """Return the counts as one line for the log."""
        return (
            f"targets generated for {self.asked:,} of {self.sources:,} sources; {self.unknown:,} "
            f"skipped because of unknown words; {self.new:,} new pairs; {self.known:,} generated "
            "pairs are already in the table"
        )


@torch_threads(1)  # searches and scores have their own threads
def augment(
    table: StrPath,
    model: StrPath,
    output: StrPath,
    *,
    settings: Augmenting = Augmenting(),
    moses_ini: StrPath | None = None,
    moses_ini_out: StrPath | None = None,
    resume: bool = False,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> AugmentSummary:
    """Generate targets for the sources in a phrase table, and add the pairs that it lacks.

    The table stays sorted. Each old line gets one more score, 1, and each new line e; Moses uses
    their logarithms, 0 and 1. Sources with a word that a network does not know are skipped: a
    target would translate only their other words.

    :param table: sorted as ``LC_ALL=C sort`` does.
    :param moses_ini: the moses.ini that uses the table.
    :param moses_ini_out: the moses.ini to write, in which the new score has weight 0.
    :param resume: continue a killed run with the same arguments, if it left anything.
    :param compute: the engine that generates targets; a run may be resumed on another engine.
    """
    table, output = os.fspath(table), os.fspath(output)
    models = [os.fspath(path) for path in (model, *settings.ensemble)]
    only_path = optional_path(settings.only_sources)
    ini_path, new_ini_path = optional_path(moses_ini), optional_path(moses_ini_out)
    given = {
        "reverse": optional_path(settings.reverse_model),
        "lexicon": optional_path(settings.lexicon),
        "reverse-lexicon": optional_path(settings.reverse_lexicon),
    }
    compute = compute.on_workers()
    check_moses_ini(ini_path, new_ini_path)
    if not settings.indicator and ini_path is not None:
        raise ArgumentError(
            "--no-indicator: --moses-ini is not needed; change only the table's path in moses.ini"
        )
    num_targets = settings.num_targets
    width = beam_width(settings.beam, num_targets, "--targets")
    check_resume(output, resume)
    read = (table, only_path, ini_path, given["lexicon"], given["reverse-lexicon"])
    check_files(read, (output, *work_files(output), new_ini_path))
    only = None if only_path is None else _read_sources(only_path)
    blocks = phrase_table.read_table_blocks(table)
    first = next(blocks)
    columns = plan_columns(settings.score_columns, given, first.num_scores)
    ini = declare_scores(ini_path, new_ini_path, table, output, 1, first.num_scores)
    generator, checkpoints = load_generator(models, compute)
    if checkpoints[0].reverse:
        problem = f"{models[0]}: expected a model that predicts the target, found one trained with"
        raise ModelError(f"{problem} --reverse; it may be the --reverse-model")
    scores = PairScores(columns, given, compute)
    search = BeamSettings(width, num_targets, unknown=False, max_length=settings.max_phrase_length)
    vocabularies = [checkpoint.source_vocabulary for checkpoint in checkpoints]
    one, other = (f"{shown_path(table)} ({side} side)" for side in ("source", "target"))
    unknown_words = unknown_words_of(one, other, map(known_words, models, checkpoints))
    work = beam_work(generator, search)
    augmenter = Augmenter(work, vocabularies, unknown_words, scores, only, settings)
    # Everything that the new lines depend on, except the table.
    depends_on = {
        "version": f"phrasescore {__version__}, torch {torch.__version__}",
        "precision": compute.precision,
        "beam": str(width),
        "columns": str(columns),
        "num targets": str(num_targets),
        "min probability": str(settings.min_probability),
        "min count": str(settings.min_count),
        "max phrase length": str(settings.max_phrase_length),
        "no indicator": str(not settings.indicator),
        **{f"model {n}": each.fingerprint for n, each in enumerate(checkpoints, start=1)},
        **scores.fingerprints,
        "only sources": (
            "all" if only is None else digest_text("\n".join(sorted(map(" ".join, only))))
        ),
    }
    # Fork the workers before the output's lock and its threads exist.
    with (
        open_pool(compute, augmenter.work) as pool,
        open_resumable(output, depends_on, resume=resume) as target,
    ):
        blocks = target.remaining(chain([first], blocks), table)
        after = None
        if isinstance(target.last_skipped, TableBlock):
            *_, (after, _) = target.last_skipped.pairs()
        following = next(blocks, None)
        # If no line is left, the last group is done, with the sources that sort after the table.
        if following is not None:
            skipped = following.before
            lines = (line for block in chain([following], blocks) for line in block.table_lines())
            sources = phrase_table.read_sources(table, lines, after=after)
            groups = group_sources(phrase_table.with_missing(sources, only or (), after=after))
            with Meter("generate", "lines", progress, lines_of=table) as meter:
                for group, pending in augmenter.submit(groups, pool):
                    data = b"".join(phrase_table.end_lines(augmenter.lines(group, pending)))
                    old = [line.raw + line.end for block in group.blocks for line in block.lines]
                    target.write(data, b"".join(old), len(old))
                    meter.skipped = skipped
                    meter.update(len(old))
            for side in unknown_words:
                side.warn()
        # Write moses.ini before the table appears: if that fails, the run can be resumed.
        target.flush()
        if ini is not None and new_ini_path is not None:
            ini.write(new_ini_path)
    for note in pool.notes:
        _logger.warning("%s", note)
    return augmenter.counts


def _read_sources(path: str) -> frozenset[Source]:
    sources = set()
    for number, line in enumerate(read_monolingual_text(path), start=1):
        if line.words and not phrase_table.is_writable(line.words):
            problem = "expected a source phrase, words without '|' and tabs"
            raise DataError(path, number, f"{problem}, found {shorten(' '.join(line.words))}")
        sources.add(line.words)
    return frozenset(sources - {()})


class SourceGroup(NamedTuple):
    """Sources with their lines, and the sources for which targets are generated."""

    blocks: list[SourceBlock]
    asked: list[SourceBlock]


_PendingTargets = Sequence[Pending[list[list[Generated]]]]


@dataclass(slots=True)
class Augmenter:
    """Merges the old and new lines of source groups, and counts them."""

    work: TargetWork
    vocabularies: Sequence[Vocabulary]
    # One check per side, for lines whose sources may get new targets.
    unknown_words: tuple[UnknownWordCheck, UnknownWordCheck]
    scores: PairScores
    only: frozenset[Source] | None  # the sources for which targets are generated; None for all
    settings: Augmenting
    counts: AugmentSummary = field(default_factory=AugmentSummary)

    def submit(
        self, groups: Iterable[list[SourceBlock]], pool: TargetPool
    ) -> Iterator[tuple[SourceGroup, _PendingTargets]]:
        """Yield the groups in order, while workers compute the groups that follow."""
        return read_ahead((self._begin(group, pool) for group in groups), lambda: 2 * pool.workers)

    def _begin(
        self, blocks: list[SourceBlock], pool: TargetPool
    ) -> tuple[SourceGroup, _PendingTargets]:
        asked = [block for block in blocks if self._is_asked(block)]
        self.counts.sources += len(blocks)
        self.counts.asked += len(asked)
        windows = self.work.windows(block.source for block in asked)
        return SourceGroup(blocks, asked), list(map(pool.submit, windows))

    def lines(self, group: SourceGroup, pending: _PendingTargets) -> Iterator[bytes]:
        """Yield the lines of a group, including its new pairs."""
        generated = chain.from_iterable(each.result() for each in pending)
        found = list(map(self._new_targets, group.asked, generated))
        new = {
            item.source: list(map(NewPair, item.targets, rows))
            for item, rows in zip(found, self.scores.rows(found), strict=True)
        }
        self.counts.new += sum(map(len, new.values()))
        for block in group.blocks:
            yield from phrase_table.write_block(
                block, new.get(block.source, ()), indicator=self.settings.indicator
            )

    def _is_asked(self, block: SourceBlock) -> bool:
        if self.only is not None and block.source not in self.only:
            return False
        least = self.settings.min_count
        if least is not None and block.lines and block.times_extracted < least:
            return False
        sources, targets = self.unknown_words
        sources.count(block.source)
        for line in block.lines:
            targets.count(line.pair.target)
        if any(Vocabulary.UNKNOWN in known.ids(block.source) for known in self.vocabularies):
            self.counts.unknown += 1
            return False
        return True

    def _new_targets(self, block: SourceBlock, targets: Iterable[Generated]) -> NewTargets:
        new = NewTargets(block.source, [], [])
        for target in targets:
            is_likely = math.exp(target.log_prob) >= self.settings.min_probability
            if not (target.finished and is_likely and phrase_table.is_writable(target.words)):
                continue
            if block.lacks(target.words):
                new.targets.append(target.words)
                new.log_probs.append(target.log_prob)
            else:
                self.counts.known += 1
        return new


def group_sources(blocks: Iterable[SourceBlock]) -> Iterator[list[SourceBlock]]:
    """Yield the sources in groups of at least `GROUP_LINES` lines, or all that remain.

    Sources without lines that sort after the table's last source belong to the last group, because
    a resumed run uses the table's lines to tell which groups are done.
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
