"""Read and edit a moses.ini, leaving all other lines unchanged.

The grammar follows moses/Parameter.cpp (ReadConfigFile, CreateWeightsMap) and
moses/FF/FeatureFunction.cpp (ParseLine). ``#`` begins a comment anywhere in a line. A feature line
is a class followed by ``key=value`` words. Without ``name=``, a feature is named after its class
and its index among such features, as in ``PhraseDictionaryMemory0``. A weight line is
``Name= w1 w2``; the last line for a name is used. A weight in ``[weight]`` overrides the weight in
the file that ``[weight-file]`` names (moses/StaticData.cpp, LoadSparseWeightsFromConfig).
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np

from moses_integration.ini_text import IniFeature, IniLine, IniText, path_problem
from moses_integration.weight_lines import (
    format_weight,
    is_sparse,
    parse_weight,
    parse_weight_pair,
    read_sparse_weights,
)
from phrasescore.errors import ArgumentError, ConfigError, DataError, shown_path
from phrasescore.io.text import open_input, same_file, shorten, split_block
from phrasescore.records import WeightPair, Weights

# Weights as public functions accept them: a path, one set of weights, or two sets.
WeightsSource = str | os.PathLike[str] | Mapping[str, float | Sequence[float]] | WeightPair

# Classes that load a text table from path=.
TEXT_TABLES = ("PhraseDictionaryMemory", "PhraseDictionaryScope3")

# Phrase table classes whose names do not begin with PhraseDictionary (moses/FF/Factory.cpp).
_MORE_TABLES = ("ProbingPT", "Mmsapt")


class MosesIni(IniText):
    """A moses.ini whose phrase tables and weights can be read and edited."""

    def find_phrase_table(self, table_path: str | None = None) -> IniFeature:
        """Return the phrase table that reads a file, or the only phrase table if no file is given.

        A phrase table matches if its path= is the file. If none does, one with the same file name
        matches, ignoring ``.gz``.
        """
        tables = [each for each in self.features if is_phrase_table(each.kind)]
        if not tables:
            problem = "expected a phrase table such as PhraseDictionaryMemory, found none"
            raise ConfigError(shown_path(self.path), "[feature]", problem)
        matches = tables
        if len(tables) > 1 and table_path is not None:
            paths = [table.path or "" for table in tables]
            is_same = [bool(path) and same_file(self.resolve(path), table_path) for path in paths]
            has_name = [_file_name(path) == _file_name(table_path) for path in paths]
            matches = list(compress(tables, is_same if any(is_same) else has_name))
        if len(matches) == 1:
            return matches[0]
        choices = ", ".join(f"{table.name} (path={table.path})" for table in tables)
        problem = f"expected one phrase table for {table_path or 'the new scores'}"
        raise ConfigError(
            shown_path(self.path), "[feature]", f"{problem}, found {len(matches)} among {choices}"
        )

    def add_scores(
        self,
        how_many: int,
        table_path: str,
        *,
        old_table_path: str | None = None,
        num_scores: int | None = None,
    ) -> str:
        """Declare more scores for a phrase table, with weight 0; return the table's name.

        An existing tuneable-components= is extended so that tuners see the new scores. With weight
        0, Moses translates exactly as before, and MERT can start from the old n-best lists after
        the new scores are added to them. Any other weight, such as the 0.2 in train-model.perl,
        makes the first lists worse, because the other weights were not tuned with it.

        :param old_table_path: the annotated table, to find its declaration.
        :param num_scores: the number of scores in the annotated table, to check num-features=.
        :raises ConfigError: if the table, num-features= and the weights do not agree. The text
            then remains unchanged.
        """
        table = self.find_phrase_table(old_table_path)
        num_features = self.num_scores(table)
        if num_scores not in (None, num_features):
            problem = f"expected num-features={num_scores}, as the phrase table has"
            raise self.error(table.line, table.name, f"{problem}, found {num_features}")
        if table.kind not in TEXT_TABLES:  # Moses would not read it as text
            problem = f"expected class {TEXT_TABLES[0]} for a text table, found {table.kind}"
            cure = "change the class, and path= to that table"
            raise self.error(table.line, table.name, f"{problem}; {cure}")
        if fault := path_problem(table_path):
            raise self.error(table.line, table.name, fault)
        weights = self._table_weights(table.name, num_features)

        new_values = {"num-features": str(num_features + how_many), "path": table_path}
        tuneable = self._tuneable_components(table, num_features)
        if tuneable is not None:
            new_values["tuneable-components"] = tuneable + ",true" * how_many
        self._set_arguments(table, new_values)
        end = weights.words[-1].end()
        self._edit(weights, [(end, end, " 0" * how_many)])
        self.features = self.read_features()
        return table.name

    def num_scores(self, feature: IniFeature) -> int:
        """Return the scores per phrase pair of a table; without num-features= 1, as in Moses."""
        num_features = feature.arguments.get("num-features") or "1"
        if re.fullmatch("[1-9][0-9]{0,5}", num_features) is None:
            problem = f"expected a number in num-features=, found {shorten(num_features)}"
            raise self.error(feature.line, feature.name, problem)
        return int(num_features)

    def _table_weights(self, name: str, num_features: int) -> IniLine:
        weights = self.latest_weight_lines().get(name)
        if weights is None:
            problem = f"expected a line '{name}= w1 w2 ...' with {num_features} weights"
            where = f"[weight] {name}"
            raise ConfigError(shown_path(self.path), where, f"{problem}, found none")
        num_weights = len(weights.words) - 1
        if num_weights != num_features:
            problem = f"expected {num_features} weights, as in num-features="
            raise self.error(weights, name, f"{problem}, found {num_weights}")
        return weights

    def tuneable_weights(self) -> Weights:
        """Return the weights for scores that n-best lists show, by feature name, in file order.

        Moses omits features with tuneable=false, every UnknownWordPenalty, and the components that
        tuneable-components= switches off (moses/ScoreComponentCollection.cpp, OutputFeatureScores;
        moses/FF/UnknownWordPenaltyProducer.cpp). Sparse weights are included; the
        [weight-file]'s weights come last.
        """
        # The last line for a name overrides earlier ones.
        weights = dict(map(self.weights_in, self._weight_lines()))
        for name, numbers in weights.items():
            weights[name] = tuple(compress(numbers, self.shown_components(name, len(numbers))))
        shown = {name: numbers for name, numbers in weights.items() if numbers}
        if (named := self.weight_file()) is not None:
            path = self.resolve(named[1])
            if not os.path.exists(path):
                raise self.error(named[0], "", f"cannot open {path}: {self.no_file(named[1])}")
            filed = read_sparse_weights(path).items()
            shown |= {name: numbers for name, numbers in filed if name not in shown}
        return shown

    def weights_in(self, line: IniLine) -> tuple[str, tuple[float, ...]]:
        """Return the name and the values in a line of weights."""
        first, *values = (word.group() for word in line.words)
        name = first.removesuffix("=")
        if name == first or not values:
            raise self.error(line, first, "expected 'Name= value ...'")
        if re.search("[\ud800-\udfff]", name):  # bytes that are not UTF-8
            raise self.error(line, "", "expected the name of a feature in UTF-8")
        for value in values:
            if not math.isfinite(parse_weight(value)):
                problem = f"expected a number as weight, found {shorten(value)}"
                raise self.error(line, name, problem)
        return name, tuple(map(float, values))

    def set_weights(self, weights: Mapping[str, tuple[float, ...]]) -> list[str]:
        """Replace the weights for scores that n-best lists show; keep other weights and comments.

        A sparse feature without a weight is appended to the section.

        :return: names that do not belong to a feature in this file, or that it cannot hold because
            ``#`` begins a comment; their weights are ignored.
        """
        lines = self.latest_weight_lines()
        names = {feature.name for feature in self.features}
        ends = [line.row + 1 for line in self.content_lines() if line.section == "weight"]
        unknown, added = [], []
        for name, values in weights.items():
            line = lines.get(name)
            if line is not None:
                self._replace_weights(line, name, values)
            elif is_sparse(name) and name.partition("_")[0] in names and ends and "#" not in name:
                added.append(" ".join([f"{name}=", *map(format_weight, values)]))
            else:
                unknown.append(name)
        if ends:
            self.lines[ends[-1] : ends[-1]] = added
        self.features = self.read_features()
        return unknown

    def weight_overwrite(self, weights: Mapping[str, tuple[float, ...]]) -> str:
        """Return the argument for ``moses -weight-overwrite``, with ``x`` for hidden components.

        A component is hidden if n-best lists omit it.
        """
        lines = self.latest_weight_lines()
        parts = []
        for name, values in weights.items():
            texts = [format_weight(value) for value in values]
            if name in lines and self._feature(name) is not None:
                shown = self.shown_components(name, len(lines[name].words) - 1)
                remaining = iter(texts)
                texts = [next(remaining, "x") if is_shown else "x" for is_shown in shown]
            parts.append(" ".join([f"{name}=", *texts]))
        return " ".join(parts)

    def _replace_weights(self, line: IniLine, name: str, values: tuple[float, ...]) -> None:
        words = list(compress(line.words[1:], self.shown_components(name, len(line.words) - 1)))
        if not words and values == self.weights_in(line)[1]:
            return  # a weight that lists omit, and that stays as it is
        if len(words) != len(values):
            problem = f"expected {len(values)} weights, one per value in the lists"
            raise self.error(line, name, f"{problem}, found {len(words)}")
        texts = map(format_weight, values)
        self._edit(line, [(*word.span(), text) for word, text in zip(words, texts, strict=True)])


def _file_name(path: str) -> str:
    return os.path.basename(path).removesuffix(".gz")


def is_phrase_table(kind: str) -> bool:
    """Return whether a feature class is a phrase table."""
    return kind.startswith("PhraseDictionary") or kind in _MORE_TABLES


def load_weights(source: WeightsSource) -> WeightPair:
    """Load the weights for the search and for the lists; a file with one set is used for both.

    The format is detected from the content: a moses.ini, read with `MosesIni.tuneable_weights`, or
    a weight file as described in `weight_lines`. Features are in file order.
    """
    if isinstance(source, WeightPair):
        return WeightPair(*map(_vectors, source))
    if isinstance(source, Mapping):
        return WeightPair(_vectors(source), _vectors(source))
    path = os.fspath(source)
    with open_input(path) as stream:
        content = stream.read()
    pair = parse_weight_pair(path, split_block(content))
    if pair is None:
        weights = MosesIni(path, content).tuneable_weights()
        pair = WeightPair(weights, weights)
    if not all(pair):
        raise DataError(path, None, "expected weights such as 'LM0= 0.5', found none")
    return pair


def _vectors(weights: Mapping[str, float | Sequence[float]]) -> Weights:
    """Return weights from Python with a tuple for each feature; a number is its only weight."""
    vectors = {}
    for name, given in weights.items():
        try:
            vectors[name] = tuple(map(float, np.atleast_1d(given)))
        except (TypeError, ValueError) as error:
            problem = f"expected a number, or a sequence of numbers, got {given!r}"
            raise ArgumentError(f"weights: {name}: {problem}") from error
    return vectors


def weights_path(source: WeightsSource | None) -> str | None:
    """Return the path of a weight file, or None if the weights are not given as a file."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None
