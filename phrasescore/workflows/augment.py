"""Put generated phrase pairs into a sorted phrase table."""

import logging
import math
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple

import torch

from moses_integration.augment import (
    NewPair,
    SourceBlock,
    end_lines,
    is_writable,
    read_sources,
    with_missing,
    write_block,
)
from moses_integration.phrase_table import TableBlock, read_table_blocks
from phrasescore.arguments import StrPath
from phrasescore.devices import torch_threads, usable_threads
from phrasescore.engines import Pending
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
from phrasescore.workflows.generate import USUAL_WIDTH, load_generator
from phrasescore.workflows.scoring.new_pair_scores import NewTargets, PairScores, plan_columns
from phrasescore.workflows.text_checks import UnknownWordCheck, known_words, unknown_words_of

_logger = logging.getLogger(__name__)
# Minimum number of lines in a group of sources, whose targets are generated together. A run that is
# killed loses at most one group.
GROUP_LINES = 4096


@dataclass(frozen=True, slots=True)
class AugmentSummary:
    """Counts from one run of `augment`; a resumed run excludes the work of earlier runs."""

    # Number of sources that were read, and of sources that targets were generated for.
    sources: int
    asked: int
    # Number of sources left out because a network does not know one of their words.
    unknown: int
    # Number of pairs added, and of generated pairs that the table has already.
    new: int
    known: int

    def summary(self) -> str:
        """Return the counts as one line for the log."""
        return (
            f"{self.asked:,} of {self.sources:,} sources asked, {self.unknown:,} not for their "
            f"unknown words; {self.new:,} new pairs; {self.known:,} of the generated ones are in "
            "the table"
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
    """Generate targets for the sources of a phrase table, and add the pairs that it lacks.

    The table stays sorted. Each old line gets one more score, 1, and each new line e, of which
    Moses takes the logarithms 0 and 1. Sources with a word that a network does not know get
    nothing: the target would translate the rest of them.

    :param table: sorted as ``LC_ALL=C sort`` does.
    :param moses_ini: the moses.ini that uses the table; with the new score, at weight 0, it goes to
        ``moses_ini_out``.
    :param resume: continue a run of the same arguments that was killed, if it left anything.
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
        raise ArgumentError("--no-indicator: without it moses.ini stays as it is, except the path")
    num_targets = settings.num_targets
    width = max(USUAL_WIDTH, num_targets) if settings.beam is None else settings.beam
    if width < num_targets:
        raise ArgumentError("--beam: at least as many as --targets")
    check_resume(output, resume)
    read = (table, only_path, ini_path, given["lexicon"], given["reverse-lexicon"])
    check_files(read, (output, *work_files(output), new_ini_path))
    only = None if only_path is None else _read_sources(only_path)
    blocks = read_table_blocks(table)
    first = next(blocks)
    columns = plan_columns(settings.score_columns, given, first.num_scores)
    ini = declare_scores(ini_path, new_ini_path, table, output, 1, first.num_scores)
    generator, checkpoints = load_generator(models, compute)
    if checkpoints[0].reverse:
        raise ModelError(
            f"{models[0]}: expected a model that predicts the target, found one trained with "
            "--reverse; it may be the --reverse-model"
        )
    num_threads = usable_threads(compute.workers) if compute.engine == "here" else 1
    scores = PairScores(
        columns, given, device=compute.device, precision=compute.precision, threads=num_threads
    )
    search = BeamSettings(width, num_targets, unknown=False, max_length=settings.max_phrase_length)
    augmenter = Augmenter(
        beam_work(generator, search),
        [checkpoint.source_vocabulary for checkpoint in checkpoints],
        unknown_words_of(
            f"{shown_path(table)} (source side)",
            f"{shown_path(table)} (target side)",
            list(map(known_words, models, checkpoints)),
        ),
        scores,
        only,
        settings,
    )
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
        augmenter.work.open_pool(compute) as pool,
        open_resumable(output, depends_on, resume=resume) as target,
    ):
        blocks = target.remaining(chain([first], blocks), table)
        after = None
        after = None
        if isinstance(target.last_skipped, TableBlock):
            *_, (after, _) = target.last_skipped.pairs()
        following = next(blocks, None)
        # If no line is left, the last group, with the sources that sort behind the table, is done.
        if following is not None:
            skipped = following.before
            lines = (line for block in chain([following], blocks) for line in block.table_lines())
            sources = read_sources(table, lines, after=after)
            groups = group_sources(with_missing(sources, only or (), after=after))
            with Meter("generate", "lines", progress, lines_of=table) as meter:
                for group in augmenter.submit(groups, pool):
                    data = b"".join(end_lines(augmenter.lines(group)))
                    old = [line.raw + line.end for block in group.blocks for line in block.lines]
                    target.write(data, b"".join(old), len(old))
                    meter.skipped = skipped
                    meter.update(len(old))
            augmenter.warn()
        # If this fails, the table has not appeared yet, and a resumed run has nothing else to do.
        target.flush()
        if ini is not None and new_ini_path is not None:
            ini.write(new_ini_path)
    for note in pool.notes:
        _logger.warning("%s", note)
    return AugmentSummary(**augmenter.counts)


def _read_sources(path: str) -> frozenset[Source]:
    """Return the source phrases in a file, and check that Moses can read them."""
    sources = set()
    for number, line in enumerate(read_monolingual_text(path), start=1):
        if line.words and not is_writable(line.words):
            problem = "expected a source phrase, words without '|' and tabs"
            raise DataError(path, number, f"{problem}, found {shorten(' '.join(line.words))}")
        sources.add(line.words)
    return frozenset(sources - {()})


class SourceGroup(NamedTuple):
    """Sources with their lines, and the targets that are generated for some of them."""

    blocks: list[SourceBlock]
    asked: list[SourceBlock]
    targets: list[Pending[list[list[Generated]]]]


@dataclass(slots=True)
class Augmenter:
    """Makes the lines of a group of sources, old and new, and counts them."""

    work: TargetWork
    vocabularies: Sequence[Vocabulary]
    # One check per side of the lines whose sources may be asked.
    unknown_words: tuple[UnknownWordCheck, UnknownWordCheck]
    scores: PairScores
    # The sources that get new targets; None if all do.
    only: frozenset[Source] | None
    settings: Augmenting
    # The fields of AugmentSummary.
    counts: dict[str, Any] = field(
        default_factory=lambda: dict.fromkeys(("sources", "asked", "unknown", "new", "known"), 0)
    )

    def submit(
        self, groups: Iterable[list[SourceBlock]], pool: TargetPool
    ) -> Iterator[SourceGroup]:
        """Yield the groups in order, while workers compute the groups that follow."""
        waiting: deque[SourceGroup] = deque()
        for blocks in groups:
            asked = [block for block in blocks if self._is_asked(block)]
            self.counts["sources"] += len(blocks)
            self.counts["asked"] += len(asked)
            windows = self.work.windows(block.source for block in asked)
            waiting.append(SourceGroup(blocks, asked, list(map(pool.submit, windows))))
            while waiting and (not waiting[0].targets or _ahead(waiting) >= 2 * pool.workers):
                yield waiting.popleft()
        yield from waiting

    def lines(self, group: SourceGroup) -> Iterator[bytes]:
        """Yield the lines of a group with its new pairs."""
        blocks, asked, targets = group
        generated = chain.from_iterable(pending.result() for pending in targets)
        found = [
            self._new_targets(
                block, ((target.words, target.log_prob) for target in targets if target.finished)
            )
            for block, targets in zip(asked, generated, strict=True)
        ]
        new = {
            item.source: list(map(NewPair, item.targets, rows))
            for item, rows in zip(found, self.scores.rows(found), strict=True)
        }
        self.counts["new"] += sum(map(len, new.values()))
        for block in blocks:
            yield from write_block(
                block, new.get(block.source, ()), indicator=self.settings.indicator
            )

    def warn(self) -> None:
        """Warn if the networks lack many of the table's words; call it at the end of the table."""
        for unknown_words in self.unknown_words:
            unknown_words.warn()

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
            self.counts["unknown"] += 1
            return False
        return True

    def _new_targets(
        self, block: SourceBlock, targets: Iterable[tuple[Source, float]]
    ) -> NewTargets:
        """Return the targets that the table lacks and that are probable enough."""
        new = NewTargets(block.source, [], [])
        for words, log_prob in targets:
            if not is_writable(words) or math.exp(log_prob) < self.settings.min_probability:
                continue
            if block.lacks(words):
                new.targets.append(words)
                new.log_probs.append(log_prob)
            else:
                self.counts["known"] += 1
        return new


def _ahead(groups: Iterable[SourceGroup]) -> int:
    """Return the number of submitted windows that belong to later groups than the first."""
    return sum(max(1, len(group.targets)) for group in islice(groups, 1, None))


def group_sources(blocks: Iterable[SourceBlock]) -> Iterator[list[SourceBlock]]:
    """Yield the sources in groups; each but the last ends with the last line of a source.

    Sources that sort behind the table's last one belong to the last group: a resumed run knows by
    the lines of the table which groups are done.
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
