"""Add features to the hypotheses of n-best lists."""

import os
from collections.abc import Sequence

from phrasescore.arguments import PrecisionName, StrPath
from phrasescore.engines import EngineSettings
from phrasescore.errors import ArgumentError
from phrasescore.features import ColumnSpec, column_files, column_specs
from phrasescore.features.score_cache import DEFAULT_LIMIT
from phrasescore.io.output import check_files, optional_path
from phrasescore.io.resumable import check_resume, work_files
from phrasescore.progress import ProgressCallback
from phrasescore.workflows.list_rescorer import (
    ListRescorer,
    RescoreSummary,
    check_of_networks,
)


def rescore(
    nbest: StrPath,
    source: StrPath,
    columns: Sequence[ColumnSpec | str],
    output: StrPath,
    *,
    names: Sequence[str] = (),
    ensemble: bool = False,
    normalize: bool = False,
    word_scores: StrPath | None = None,
    replace: bool = False,
    allow_missing: bool = False,
    cache: StrPath | None = None,
    cache_size: int = DEFAULT_LIMIT,
    backoff_lm: StrPath | None = None,
    unnormalized: bool = False,
    resume: bool = False,
    precision: PrecisionName = "float32",
    device: str = "auto",
    threads: int | None = None,
    engine: EngineSettings | None = None,
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
    :param names: of the other new features: one per column, and the ensemble's last. Where there
        are none, they are named ``LSTM0``, ``ReverseRNN0``, ``KenLM0`` and so on.
    :param ensemble: add a column in which the models' probabilities are averaged at each word.
        Those of right-to-left models are averaged among themselves; of them and the others the
        column has the mean score, weighted by the numbers of models.
    :param normalize: add a column ``<name>Norm`` for each network: its score divided by the number
        of predicted words and ``</s>``.
    :param word_scores: where the log-probability of each predicted word goes.
    :param replace: remove features that have the name of a new one.
    :param allow_missing: let source sentences have no list.
    :param cache: a file that keeps the networks' scores from run to run.
    :param cache_size: scores that the cache keeps; beyond, the oldest go.
    :param backoff_lm: an n-gram model for the words outside the shortlist of a model of the kind
        cslm; without it they are ``<unk>``.
    :param unnormalized: leave log Z out of the scores of models of the kinds cslm and joint.
    :param resume: go on with a run of the same arguments that was killed; it may have left nothing.
        The engine, its workers and threads may be others. Not with ``word_scores``.
    :param engine: where the networks' scores are computed, None for here; files are read and
        written by this process, which computes the other features, too. The bytes are the same.
    """
    nbest, source, output = os.fspath(nbest), os.fspath(source), os.fspath(output)
    words, cache = optional_path(word_scores), optional_path(cache)
    specs = column_specs(columns)
    check_of_networks(specs, normalize=normalize, word_scores=words, cache=cache)
    if resume and words is not None:
        raise ArgumentError("--resume is for one output, and not for --word-scores")
    check_resume(output, resume)
    check_files(
        (nbest, source, *column_files(specs), optional_path(backoff_lm)),
        (output, *work_files(output), words, cache),
    )
    with ListRescorer(
        specs,
        names=names,
        ensemble=ensemble,
        normalize=normalize,
        words=words is not None,
        cache=cache,
        cache_size=cache_size,
        backoff_lm=backoff_lm,
        unnormalized=unnormalized,
        precision=precision,
        device=device,
        threads=threads,
        engine=engine,
    ) as rescorer:
        return rescorer.rescore(
            nbest,
            source,
            output,
            word_scores=words,
            replace=replace,
            allow_missing=allow_missing,
            resume=None if words is not None else resume,
            progress=progress,
        )
