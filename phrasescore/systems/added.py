"""The columns that a request adds to the lines of tables, lists and texts, and their summary."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from moses_integration.table_line import HIGHEST_LOG
from phrasescore.errors import ArgumentError
from phrasescore.features.columns import Column, number_names
from phrasescore.features.given_scores import GivenScores, ScoreLines
from phrasescore.features.model import ENSEMBLE_NAME, Network, network_name
from phrasescore.features.request import LoadedFeature, ScoringRequest
from phrasescore.io.text import LARGEST_VALUE
from phrasescore.systems.text_checks import KnownWords, known_words

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


class AddedColumn(NamedTuple):
    """A column that is added to lines."""

    name: str
    # The index of its feature, and of its row in the values of all features; None for scores given
    # in a file.
    feature: int | None = None
    row: int | None = None
    is_network: bool = False
    given: ScoreLines | None = None


def added_columns(request: ScoringRequest, loaded: Sequence[LoadedFeature]) -> list[AddedColumn]:
    """Return the columns to add, as requested, and the ensemble last."""
    places: dict[int, tuple[int, int]] = {}  # the feature and the row of a column, by its identity
    row, ensemble = 0, AddedColumn("")
    for index, (feature, columns) in enumerate(loaded):
        places.update({id(each): (index, row + at) for at, each in enumerate(columns)})
        if len(feature.rows) > len(columns):
            ensemble = AddedColumn("", index, row + len(columns), is_network=True)
        row += len(feature.rows)
    networks = iter(request.networks)
    added, labels = [], []
    for column in request.columns:
        label = column.label
        if isinstance(column, GivenScores):
            highest = HIGHEST_LOG if request.of_phrases else LARGEST_VALUE
            new = AddedColumn(column.name or "", given=ScoreLines(column.scores, highest))
        else:
            is_network = isinstance(column, Network)
            new = AddedColumn(column.name or "", *places[id(column)], is_network=is_network)
        if isinstance(column, Network):
            _, model = next(networks)
            label = network_name(
                model.config.kind, reverse=model.reverse, right_to_left=model.right_to_left
            )
        added.append(new)
        labels.append(label)
    if request.ensemble:
        added.append(ensemble)
        labels.append(ENSEMBLE_NAME)
    unnamed = [not each.name and each.given is None for each in added]
    numbered = iter(number_names(compress(labels, unnamed)))
    return [
        each._replace(name=next(numbered)) if is_unnamed else each
        for each, is_unnamed in zip(added, unnamed, strict=True)
    ]


def words_of_columns(request: ScoringRequest, loaded: Sequence[LoadedFeature]) -> list[KnownWords]:
    """Return the words that each model, and each other feature of lists, knows."""
    known = [known_words(column.model, checkpoint) for column, checkpoint in request.networks]
    for feature, (column, *_) in loaded:
        # `annotate` checks a lexicon by the share of words without a translation.
        if feature.known_words != (None, None) and not request.of_phrases:
            known.append(KnownWords(column.argument, *feature.known_words))
    return known


def check_cache(columns: Sequence[Column], cache: str | None) -> None:
    """Reject a cache without a network, and a cache named ``-``."""
    kinds = {column.kind() for column in columns}
    if cache is not None and not kinds & {"model", "ctranslate2", "command"}:
        raise ArgumentError("--cache requires a network: add a --model")
    if cache == "-":
        raise ArgumentError("--cache requires a file: a stream cannot be a cache")
