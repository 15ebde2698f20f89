"""Runs, which are rows of the table with their own weights, and the weights they start from."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from moses_integration.moses_ini import MosesIni, load_weights
from phrasescore.features import network_name
from phrasescore.records import WeightPair, Weights
from phrasescore.report.tuning import TuneReport
from phrasescore.workflows.experiment.config import TextSet
from phrasescore.workflows.experiment.systems import ModelPlan, System

# The share of a feature, 0 to 1, below which it moves no model score.
_NOTHING = 1e-3


@dataclass(frozen=True)
class Run:
    """A row of the table with its own weights, tuned from one seed."""

    system: System
    seed: int
    folder: Path
    ini: Path
    # The files that the search reads, except moses.ini and the models.
    model_files: tuple[Path, ...]
    # Runs of earlier rows with the same seed, whose features this row includes.
    parts: tuple["Run", ...] = ()
    # The added features' names, by their labels in the tuning report.
    added: dict[str, str] = field(default_factory=dict)

    @property
    def weights(self) -> Path:
        """The file of the weights that tuning finds."""
        return self.folder / "weights"

    @property
    def report(self) -> Path:
        """The file of the tuning report, as JSON."""
        return self.folder / "report.json"

    def output(self, text: TextSet) -> Path:
        """Return the path for the translation of a text."""
        return self.folder / f"{text.name}.out"

    def remarks(self, report: TuneReport) -> Iterator[str]:
        """Yield remarks for the table's reader, from the run's tuning report."""
        idle = [
            self.added[row.name]
            for row in report.features
            if row.name in self.added and row.share is not None and row.share < _NOTHING
        ]
        if idle:
            yield f"tuning found no use for {', '.join(idle)} (weight 0, or nearly)"
        yield from report.warnings


class Layout(NamedTuple):
    """The features of a row that each weight belongs to."""

    # The phrase table that is annotated, and its original number of scores.
    table: str
    num_scores: int
    # The added scores, in order.
    columns: tuple[str, ...]
    # Features that moses.ini lacks: their names in n-best lists, by model.
    extra: dict[str, str]
    # The names among them that only n-best lists have.
    of_lists: frozenset[str] = frozenset()


class TunedRow(NamedTuple):
    """A row that is tuned."""

    weights: str
    layout: Layout


def network_names(models: Mapping[str, ModelPlan]) -> dict[str, str]:
    """Return the names of networks' features in n-best lists, by model.

    :param models: the models, in the order of the command's options.

    >>> network_names({name: ModelPlan(name, "lstm") for name in ("first", "second")})
    {'first': 'LSTM0', 'second': 'LSTM1'}
    """
    counts: Counter[str] = Counter()
    found = {}
    for name, model in models.items():
        prefix = network_name(model.kind, reverse=model.reverse, right_to_left=model.right_to_left)
        found[name] = f"{prefix}{counts[prefix]}"
        counts[prefix] += 1
    return found


def start_weights(ini: MosesIni, layout: Layout, before: TunedRow | None) -> WeightPair:
    """Return a row's start weights: one per feature of its search and of its lists.

    :param before: a row whose features it has; None starts from moses.ini.
    """
    earlier = WeightPair({}, {}) if before is None else load_weights(before.weights)
    search, lists = (_start_weights(ini, layout, before, part) for part in earlier)
    known = {name: values for name, values in search.items() if name not in layout.of_lists}
    return WeightPair(known, lists)


def _start_weights(
    ini: MosesIni, layout: Layout, before: TunedRow | None, earlier: Weights
) -> Weights:
    weights = dict(ini.tuneable_weights())
    weights |= dict.fromkeys(layout.extra.values(), (0.0,))
    if before is not None:
        old, new = before.layout, layout
        renamed = {name: new.extra[model] for model, name in old.extra.items()}
        for name, values in earlier.items():
            if name == old.table:
                columns = dict(zip(old.columns, values[old.num_scores :], strict=True))
                added = (columns.get(column, 0.0) for column in new.columns)
                weights[name] = (*values[: old.num_scores], *added)
            else:
                weights[renamed.get(name, name)] = values
    return weights
