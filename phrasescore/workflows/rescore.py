"""Add features to the hypotheses of n-best lists."""

import os
from collections.abc import Sequence
from itertools import chain, islice

from phrasescore.arguments import StrPath
from phrasescore.errors import shown_path
from phrasescore.features.columns import Column, as_columns, input_files
from phrasescore.features.given_scores import check_counts
from phrasescore.io.output import check_files, optional_path
from phrasescore.io.resumable import check_resume, open_resumable, work_files
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring
from phrasescore.systems.scoring import Scoring
from phrasescore.systems.sourced_lists import read_sourced_lists, rescored_lines
from phrasescore.workflows.score import ScoreSummary, check_cache

CHUNK_LISTS = 64  # the most lists that a killed run loses, and one member of a .gz file


def rescore(
    nbest: StrPath,
    source: StrPath,
    columns: Sequence[Column | StrPath],
    output: StrPath,
    *,
    settings: Rescoring = Rescoring(),
    resume: bool = False,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> ScoreSummary:
    """Add features to the hypotheses of n-best lists as Moses writes them.

    A model's value is log p(hypothesis ``</s>`` | source) or log p(source ``</s>`` | hypothesis), a
    natural logarithm that is not divided by length. Features are appended to field 3, in the order
    of the columns; all other bytes, and the order of the lines, are unchanged. A model of the kind
    joint requires lists with word alignments.

    :param source: the tokenised sentences that were translated, one per line.
    :param columns: one feature per column; a path is a model's folder. `GivenScores` has a file
        with a number per line of the lists, and the ``name`` of its feature.
    :param resume: continue a killed run with the same arguments, if it left anything. Only
        the engine, its workers and threads may differ.
    :param compute: the engine that computes the columns; this process reads and writes files.
    """
    nbest, source, output = os.fspath(nbest), os.fspath(source), os.fspath(output)
    cache = optional_path(settings.cache)
    wanted = as_columns(columns)
    check_cache(wanted, cache)
    check_resume(output, resume)
    check_files((nbest, source, *input_files(wanted)), (output, *work_files(output), cache))
    with Scoring.of(wanted, settings, compute) as scorer:
        read = read_sourced_lists(
            nbest,
            source,
            scorer.names,
            allow_missing=settings.allow_missing,
            aligned=scorer.request.aligned,
        )
        lists = check_counts(read, nbest, scorer.given)
        # Reject many malformed files before the networks are laid out.
        head = list(islice(lists, 1))
        depends_on = scorer.depends_on() | {"lists of a chunk": str(CHUNK_LISTS)}
        num_lists = distinct = 0
        with (
            open_resumable(output, depends_on, resume=resume) as target,
            Meter("rescore", "hypotheses", progress, lines_of=nbest) as meter,
        ):
            remaining = target.remaining(chain(head, lists), nbest)
            for each, scores in scorer.score(
                remaining, source, f"{shown_path(nbest)} (hypotheses)"
            ):
                num_lists += 1
                distinct += len(each.block.places)
                if not meter.done:
                    meter.skipped = each.before
                target.write(
                    rescored_lines(scorer, each, scores),
                    each.raw,
                    each.num_lines,
                    ends_chunk=each.place % CHUNK_LISTS == CHUNK_LISTS - 1,
                )
                meter.update(each.num_lines)
            target.flush()
        return ScoreSummary(
            tuple(scorer.names), meter.done, scorer.networks, scorer.notes, num_lists, distinct
        )
