"""Score parallel text."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moses_integration.nbest_lines import format_value
from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError
from phrasescore.features.columns import Column, as_columns, input_files
from phrasescore.features.given_scores import GivenScores
from phrasescore.io.corpora import read_parallel_text
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import group_pairs
from phrasescore.settings.compute import Compute
from phrasescore.settings.scoring import Rescoring, TextScoring
from phrasescore.systems.scoring import Scoring

if TYPE_CHECKING:
    from phrasescore.features.networks import SentenceWork


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Counts from one run of `rescore` or `score`; after resuming, they exclude earlier runs."""

    features: tuple[str, ...]  # the columns' names in n-best lists, the ensemble's last
    pairs: int  # number of sentence pairs, or of hypotheses in lists
    networks: "SentenceWork | None"  # the networks' counts; None without networks
    # For each feature that is not a network's: its name, and a summary of its values.
    notes: tuple[tuple[str, str], ...]
    # The numbers of lists and of distinct hypotheses in them; None for parallel text.
    lists: int | None = None
    distinct: int | None = None

    def summary(self) -> list[str]:
        """Return log lines: one for all networks, then one for each other feature."""
        networks = [] if self.networks is None else [str(self.networks)]
        if networks and self.lists is not None:
            others = dict(self.notes)
            added = ", ".join(name for name in self.features if name not in others)
            read = f"{self.distinct:,} different hypotheses in {self.lists:,} lists"
            networks = [f"{read}; {self.networks}; added {added}"]
        return networks + [f"{name}: {note}" for name, note in self.notes]


def score(
    source: StrPath,
    target: StrPath,
    columns: Sequence[Column | StrPath],
    output: StrPath,
    *,
    settings: TextScoring = TextScoring(),
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> ScoreSummary:
    """Write the scores of each sentence with its translation, one line per pair.

    Scores are computed as in `phrasescore.rescore`, with 7 digits. A model's score is
    log p(translation ``</s>`` | sentence), or log p(sentence ``</s>`` | translation), a natural
    logarithm that is not divided by length. Columns are separated by tabs.

    :param source: tokenised sentences, one per line, which may be empty.
    :param target: the translations, one per source sentence.
    :param columns: at least one, and no `GivenScores`; a path is a model's folder.
    """
    source, target, output = os.fspath(source), os.fspath(target), os.fspath(output)
    cache = optional_path(settings.cache)
    wanted = as_columns(columns)
    if any(isinstance(column, GivenScores) for column in wanted):
        raise ArgumentError("columns of the kind scores are only for tables and n-best lists")
    check_cache(wanted, cache)
    check_files((source, target, *input_files(wanted)), (output, cache))
    with (
        Scoring.of(wanted, Rescoring(**vars(settings)), compute) as scorer,
        open_output(output) as target_file,
        Meter("score", "sentence pairs", progress, lines_of=source) as meter,
    ):
        pairs = (line.pair for line in read_parallel_text(source, target, allow_empty=True))
        for each, scores in scorer.score(group_pairs(pairs), source, target):
            for values in scores.T.tolist():
                target_file.write(b"\t".join(map(format_value, values)) + b"\n")
            meter.update(each.num_lines)
    return ScoreSummary(tuple(scorer.names), meter.done, scorer.networks, scorer.notes)


def check_cache(columns: Sequence[Column], cache: str | None) -> None:
    """Reject a cache without a network, and a cache named ``-``."""
    kinds = {column.kind() for column in columns}
    if cache is not None and not kinds & {"model", "ctranslate2", "command"}:
        raise ArgumentError("--cache requires a network: add a --model")
    if cache == "-":
        raise ArgumentError("--cache requires a file: a stream cannot be a cache")
