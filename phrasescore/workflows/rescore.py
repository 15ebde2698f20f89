"""Add features to the hypotheses of n-best lists."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING

import numpy as np

from moses_integration.nbest import Ids
from moses_integration.nbest_lines import format_rows
from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError, shown_path
from phrasescore.features import ColumnSpec, column_files, column_specs
from phrasescore.io.output import StreamOutput, check_files, open_output, optional_path
from phrasescore.io.resumable import check_resume, open_resumable, work_files
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring
from phrasescore.workflows.scoring.columns import AddedColumn
from phrasescore.workflows.scoring.given_scores import check_counts
from phrasescore.workflows.scoring.list_scorer import ListScorer, check_of_networks
from phrasescore.workflows.scoring.scorer import Floats
from phrasescore.workflows.scoring.sourced_lists import SourcedList, read_sourced_lists

if TYPE_CHECKING:
    from phrasescore.features.networks import SentenceWork

# Number of lists in a chunk: the most that a killed run loses, and one member of a .gz file.
CHUNK_LISTS = 64


@dataclass(frozen=True, slots=True)
class RescoreSummary:
    """Counts from rescoring one file of n-best lists."""

    # Names of the new features, in the order of the columns.
    features: tuple[str, ...]
    # Lines and lists in this run, and the distinct hypotheses of the lists; an earlier run that was
    # resumed had written the others.
    hypotheses: int
    lists: int
    distinct: int
    # The networks' counts; None without networks.
    networks: "SentenceWork | None"
    # For each feature that is not a network's: its name, and a few words about its values.
    notes: tuple[tuple[str, str], ...]

    def summary(self) -> list[str]:
        """Return lines to print: one for all networks, then one for each other feature."""
        others = dict(self.notes)
        networks = []
        if self.networks is not None:
            added = ", ".join(name for name in self.features if name not in others)
            read = f"{self.distinct:,} different hypotheses in {self.lists:,} lists"
            networks = [f"{read}; {self.networks}; added {added}"]
        return networks + [f"{name}: {note}" for name, note in self.notes]


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
    :param columns: one feature per column; a string is a model's folder. A column of kind
        ``scores`` has a file with a number per line of the lists, and the ``name`` of its feature.
    :param word_scores: a file for the log-probability of each predicted word.
    :param resume: continue a run of the same arguments that was killed, if it left anything. Only
        the engine, its workers and threads may differ. Not with ``word_scores``.
    :param compute: the engine that computes the columns; this process reads and writes files.
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
    with ListScorer(specs, settings, compute, words=words is not None) as scorer:
        return rescore_file(
            scorer,
            nbest,
            source,
            output,
            word_scores=words,
            resume=None if words is not None else resume,
            progress=progress,
        )


def rescore_file(
    scorer: ListScorer,
    nbest: str,
    source: str,
    output: str,
    *,
    word_scores: str | None = None,
    resume: bool | None = None,
    progress: ProgressCallback | None = None,
) -> RescoreSummary:
    """Write the lists of a file with the columns of a scorer at the end of field 3.

    :param resume: whether to resume the unfinished output of another run; None keeps no unfinished
        output at all.
    :raises DataError: if the lists are malformed, or have such features already.
    """
    replace, allow_missing = scorer.settings.replace, scorer.settings.allow_missing
    known = () if replace else scorer.names
    read = read_sourced_lists(
        nbest, source, known, allow_missing=allow_missing, aligned=scorer.aligned
    )
    lists = check_counts(read, nbest, scorer.given)
    # Mistakes in the files often show here, before the networks are laid out.
    head = list(islice(lists, 1))
    settings = scorer.depends_on() | {"lists of a chunk": str(CHUNK_LISTS)}
    settings |= {"replace": "yes"} if replace else {}
    num_lists = distinct = 0
    with (
        StreamOutput(output)
        if resume is None
        else open_resumable(output, settings, resume=resume) as target,
        nullcontext() if word_scores is None else open_output(word_scores) as words,
        Meter("rescore", "hypotheses", progress, lines_of=nbest) as meter,
    ):
        remaining = target.remaining(chain(head, lists), nbest)
        for each, scores in scorer.score(remaining, source, f"{shown_path(nbest)} (hypotheses)"):
            num_lists += 1
            distinct += len(each.block.places)
            if not meter.done:
                meter.skipped = each.before
            kept = each.nbest.without_features(scorer.names) if replace else each.nbest
            target.write(
                kept.with_features(*_feature_texts(scorer.added, each, scores.values)),
                each.raw,
                each.num_lines,
                ends_chunk=each.place % CHUNK_LISTS == CHUNK_LISTS - 1,
            )
            if words is not None:
                lines = scorer.word_lines(each.block, scores, repeat(each.nbest.id))
                words.writelines(lines[pair] for pair in each.numbering[1])
            meter.update(each.num_lines)
        target.flush()
    return RescoreSummary(
        tuple(scorer.names), meter.done, num_lists, distinct, scorer.networks, scorer.notes
    )


def _feature_texts(
    columns: Sequence[AddedColumn], found: SourcedList, values: Floats
) -> tuple[list[bytes], Ids]:
    """Return the texts that are added to the lines of a list, and the number of each line's text.

    :param values: the values of all columns except given scores, (columns, pairs).
    """
    pairs = found.numbering[1]
    rows = list(values)
    if any(column.given is not None for column in columns):  # they may differ from line to line
        of_pairs = iter(values)
        rows = [
            next(of_pairs)[pairs] if column.given is None else column.given.of(found)
            for column in columns
        ]
        pairs = np.arange(found.num_lines)
    names, style = [column.name for column in columns], found.nbest.style
    return format_rows(names, np.stack(rows, axis=1), style), pairs
