"""Add features to the hypotheses of n-best lists."""

import os
from collections.abc import Sequence

from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError
from phrasescore.features import ColumnSpec, column_files, column_specs
from phrasescore.io.output import check_files, optional_path
from phrasescore.io.resumable import check_resume, work_files
from phrasescore.progress import ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring
from phrasescore.workflows.columns import check_of_networks
from phrasescore.workflows.list_rescorer import ListRescorer, RescoreSummary


def rescore(
    nbest: StrPath,
    source: StrPath,
    columns: Sequence[ColumnSpec | StrPath],
    output: StrPath,
    *,
    settings: Rescoring = Rescoring(),
    word_scores: StrPath | None = None,
    resume: bool = False,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> RescoreSummary:
    """Add features to the hypotheses of an n-best list as Moses writes it.

    A model's value is log p(hypothesis ``</s>`` | source), or of the reverse, a natural logarithm
    that is not divided by length. Features go to the end of field 3, in the order of the columns;
    every other byte of a line stays, and so does the order of the lines.

    A model of the kind joint needs lists with word alignments.

    :param source: the sentences that were translated, tokenised, one per line.
    :param columns: one feature per column; a string is a model's folder. Those of the kind
        ``scores`` have a file of a number per line of the lists, and the ``name`` of their feature.
    :param word_scores: where the log-probability of each predicted word goes.
    :param resume: continue a run of the same arguments that was killed, if it left anything. Only
        the engine, its workers and threads may differ. Not with ``word_scores``.
    :param compute: where the networks compute; this process reads and writes files, and computes
        the other features.
    """
    nbest, source, output = os.fspath(nbest), os.fspath(source), os.fspath(output)
    words, cache = optional_path(word_scores), optional_path(settings.cache)
    specs = column_specs(columns)
    check_of_networks(specs, normalize=settings.normalize, word_scores=words, cache=cache)
    if resume and words is not None:
        raise ArgumentError("--resume is for one output, and not for --word-scores")
    check_resume(output, resume)
    check_files(
        (nbest, source, *column_files(specs), optional_path(settings.backoff_lm)),
        (output, *work_files(output), words, cache),
    )
    with ListRescorer(specs, settings, compute, words=words is not None) as rescorer:
        return rescorer.rescore(
            nbest,
            source,
            output,
            word_scores=words,
            resume=None if words is not None else resume,
            progress=progress,
        )
