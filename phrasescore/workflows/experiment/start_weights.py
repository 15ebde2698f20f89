"""The weights that tuning a row starts from: another row's, and 0 for new features."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from moses_integration.moses_ini import MosesIni, load_weights
from phrasescore.features import network_name
from phrasescore.records import WeightPair, Weights
from phrasescore.workflows.experiment.systems import ModelPlan


class Layout(NamedTuple):
    """The features of a row that each weight belongs to."""

    # The phrase table that is annotated, and how many scores it has of its own.
    table: str
    num_scores: int
    # The scores after them, in order.
    columns: tuple[str, ...]
    # Features that moses.ini does not have: their name in n-best lists, by model.
    extra: dict[str, str]
    # Of these, the names of those that only lists have.
    of_lists: frozenset[str] = frozenset()


class TunedRow(NamedTuple):
    """A row that is tuned."""

    weights: str
    layout: Layout


def network_names(models: Mapping[str, ModelPlan]) -> dict[str, str]:
    """Return the names of networks' features in n-best lists, by model.

    :param models: in the order in which they are named to a command.

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
    """Return a weight for each feature of a row: of its search, and of its lists.

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
