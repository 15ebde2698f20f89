"""Read and edit moses.ini; lines that are not understood stay as they are.

The grammar is the one of moses/Parameter.cpp (ReadConfigFile, CreateWeightsMap) and
moses/FF/FeatureFunction.cpp (ParseLine): ``#`` begins a comment anywhere in a line, blanks around
the rest are dropped, ``[section]`` heads the lines that follow. A feature is a class and
``key=value`` words, separated by spaces and tabs; without ``name=`` it is called after its class
and the number of nameless features of this class before it, ``PhraseDictionaryMemory0``. A
weight line is ``Name= w1 w2``; the last line for a name is the one that counts.
"""

import math
import os
import re
from collections.abc import Mapping
from itertools import compress
from typing import NamedTuple

from moses_integration.ini_text import (
    IniFeature,
    IniLine,
    IniText,
    path_problem,
    split_argument,
)
from phrasescore.errors import ConfigError, shown_path
from phrasescore.io.text import NUMBER, same_file, shorten

# Classes that load a text table from path=.
TEXT_TABLES = ("PhraseDictionaryMemory", "PhraseDictionaryScope3")

# Classes that load something else, and the tool of Moses that makes it from a text table.
_CONVERTERS = {
    "PhraseDictionaryCompact": "processPhraseTableMin",
    "PhraseDictionaryOnDisk": "CreateOnDiskPt",
    "ProbingPT": "CreateProbingPT",
}

# Phrase tables that are not called PhraseDictionary... (moses/FF/Factory.cpp).
_MORE_TABLES = ("ProbingPT", "Mmsapt")

_NUMBER = re.compile(NUMBER)
# Values that are true to Moses (moses/Util.cpp, Scan<bool>).
_TRUE = ("yes", "y", "true", "1")


class PhraseTableFeature(NamedTuple):
    """A phrase table as a ``[feature]`` line declares it."""

    # As in n-best lists and the [weight] section, without "=".
    name: str
    # The class, such as PhraseDictionaryMemory.
    kind: str
    # As written, relative to the folder Moses is started in; None where there is no path=.
    path: str | None
    # The number of scores per phrase pair; 1 where num-features= is missing, as in Moses.
    num_features: int
    # 1-based.
    line: int

    def reads(self, table_path: str) -> bool:
        """Return whether this is the feature of a file, or of one with the same name, .gz aside."""
        if self.path is None:
            return False
        names = [os.path.basename(path).removesuffix(".gz") for path in (self.path, table_path)]
        return same_file(self.path, table_path) or names[0] == names[1]


class MosesIni(IniText):
    """A moses.ini: its phrase tables and its weights, with edits that touch nothing else."""

    def phrase_tables(self) -> list[PhraseTableFeature]:
        """Return the phrase tables in the order of the file, whatever their class."""
        return [self._describe(feature) for feature in self.features if _is_table(feature.kind)]

    def find_phrase_table(
        self, name: str | None = None, table_path: str | None = None
    ) -> PhraseTableFeature:
        """Return the phrase table of this name, or else the one that reads this file.

        Without a name: the only phrase table there is; or the one whose path= leads to the file,
        from the working folder, as Moses takes it; or the one whose path= has the same last part,
        ``.gz`` aside.

        :raises ConfigError: if there is none, or more than one; the message names the choices.
        """
        tables = self.phrase_tables()
        if not tables:
            old = any(line.section == "ttable-file" for line in self.content_lines())
            cure = "; the old format with [ttable-file] is not supported" if old else ""
            problem = f"expected a phrase table such as PhraseDictionaryMemory, found none{cure}"
            raise ConfigError(shown_path(self.path), "[feature]", problem)
        if name is not None:
            found = [table for table in tables if table.name == name]
        else:
            found = tables if len(tables) == 1 else _tables_at(tables, table_path)
        if len(found) == 1:
            return found[0]
        choices = ", ".join(f"{table.name} (path={table.path})" for table in tables)
        wanted = f"called {name}" if name is not None else f"for {table_path or 'the new scores'}"
        problem = f"expected one phrase table {wanted}, found {len(found)}; there are {choices}"
        raise ConfigError(shown_path(self.path), "[feature]", problem)

    def add_scores(
        self,
        name: str | None,
        how_many: int,
        table_path: str | None = None,
        initial_weight: float = 0.0,
        *,
        old_table_path: str | None = None,
        num_scores: int | None = None,
    ) -> PhraseTableFeature:
        """Declare more scores for a phrase table: num-features=, path=, weights; nothing else.

        tuneable-components= is extended where it is there, so that tuners see the new scores.
        With the initial weight 0, Moses translates exactly as before, and MERT starts from the old
        n-best lists with the new scores in them; a zero is no obstacle to its line searches and
        random restarts (mert/Optimizer.cpp, mert/Point.cpp). Another weight, such as the 0.2 of
        train-model.perl, makes the first lists worse: no other weight is balanced against it yet.

        :param name: of the feature; None to find it by ``old_table_path``.
        :param how_many: number of new scores, at least 1.
        :param table_path: the new path=; None keeps the old one, as for a table that will be made
            binary under its old name.
        :param old_table_path: the table that was annotated.
        :param num_scores: the number of scores of that table; checked against num-features=.
        :return: the table as it is declared now.
        :raises ConfigError: if the table is missing or ambiguous, is of a class that reads no text
            and gets a new path; if num-features=, the weights and the table disagree; with
            file and line. The text is then unchanged.
        """
        # mert-moses.pl does not understand the 1e+06 of larger weights.
        if how_many < 1 or not abs(initial_weight) < 1e6:
            raise ValueError(f"expected 1 or more, and a weight, got {how_many}, {initial_weight}")
        table = self.find_phrase_table(name, old_table_path)
        feature = self._feature(table.name)
        assert feature is not None
        if num_scores is not None and num_scores != table.num_features:
            problem = f"expected num-features={num_scores}, as many as the phrase table has scores"
            raise self.error(feature.line, table.name, f"{problem}, found {table.num_features}")
        if table_path is not None:
            self._check_new_path(table, feature.line, table_path)
        weights = self._weight_line(table)

        new_values = {"num-features": str(table.num_features + how_many)}
        if table_path is not None:
            new_values["path"] = table_path
        tuneable = self._tuneable_components(feature, table.num_features)
        if tuneable is not None:
            new_values["tuneable-components"] = tuneable + ",true" * how_many
        self._set_arguments(feature.line, new_values)
        text = self.lines[weights.place]
        end = weights.words[-1].end()
        self.lines[weights.place] = text[:end] + f" {initial_weight:.7g}" * how_many + text[end:]
        self.features = self.read_features()
        return next(found for found in self.phrase_tables() if found.name == table.name)

    def tuneable_weights(self) -> dict[str, tuple[float, ...]]:
        """Return the weights of the scores that n-best lists show, by feature, in the file's order.

        Moses prints no feature with tuneable=false, nor any UnknownWordPenalty, and of a feature
        with tuneable-components= only those (moses/ScoreComponentCollection.cpp,
        OutputFeatureScores; moses/FF/UnknownWordPenaltyProducer.cpp). Sparse weights are kept.

        :raises ConfigError: with file and line, if a weight is no number, or if weights are
            overwritten elsewhere in the file.
        """
        weights: dict[str, tuple[float, ...]] = {}
        for line in self.content_lines():
            first = line.words[0].group()
            if line.section == "weight-overwrite":
                raise self.error(line, first, "expected no weights here; move them to [weight]")
            if line.section != "weight":
                continue
            name = first.removesuffix("=")
            values = [word.group() for word in line.words[1:]]
            if name == first or not values:
                raise self.error(line, first, "expected 'Name= value ...'")
            for value in values:
                if _NUMBER.fullmatch(value) is None or not math.isfinite(float(value)):
                    problem = f"expected a number as weight, found {shorten(value)}"
                    raise self.error(line, name, problem)
            weights[name] = tuple(map(float, values))  # the last line of a name counts
        for name, found in weights.items():
            weights[name] = tuple(compress(found, self.shown_components(name, len(found))))
        return {name: found for name, found in weights.items() if found}

    def set_weights(self, weights: Mapping[str, tuple[float, ...]]) -> list[str]:
        """Replace weights of scores that n-best lists show; all others, and comments, stay.

        Weights of a sparse feature that has none yet are added to the section, at its end.

        :param weights: as `tuneable_weights` returns them, of some features.
        :return: names that the file has no feature for; their weights are left out.
        :raises ConfigError: if a feature has another number of weights here.
        """
        lines = self.latest_weight_lines()
        unknown = []
        for name, values in weights.items():
            line = lines.get(name)
            if line is not None:
                self._replace_weights(line, name, values)
            elif not self._add_sparse_weight(name, values):
                unknown.append(name)
        self.features = self.read_features()
        return unknown

    def weight_overwrite(self, weights: Mapping[str, tuple[float, ...]]) -> str:
        """Return weights for ``moses -weight-overwrite``; ``x`` stands for a weight of this file.

        That is for scores with tuneable-components=, which n-best lists do not show.
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

    def latest_weight_lines(self) -> dict[str, IniLine]:
        """Return the line that counts for each name."""
        return {
            name.removesuffix("="): line
            for line in self.content_lines()
            if line.section == "weight" and (name := line.words[0].group()).endswith("=")
        }

    def _replace_weights(self, line: IniLine, name: str, values: tuple[float, ...]) -> None:
        words = list(compress(line.words[1:], self.shown_components(name, len(line.words) - 1)))
        if len(words) != len(values):
            problem = f"expected {len(values)} weights, as there are values in the lists"
            raise self.error(line, name, f"{problem}, found {len(words)}")
        text = self.lines[line.place]
        for word, value in list(zip(words, values, strict=True))[::-1]:
            text = text[: word.start()] + format_weight(value) + text[word.end() :]
        self.lines[line.place] = text

    def _add_sparse_weight(self, name: str, values: tuple[float, ...]) -> bool:
        """Add the weight of a sparse feature; return whether the file has that feature."""
        prefix, separator, _ = name.partition("_")
        if not separator or prefix not in {feature.name for feature in self.features}:
            return False
        places = [line.place for line in self.content_lines() if line.section == "weight"]
        if not places:
            return False
        self.lines.insert(places[-1] + 1, " ".join([f"{name}=", *map(format_weight, values)]))
        return True

    def shown_components(self, name: str, num_weights: int) -> tuple[bool, ...]:
        """Return for each score of a feature whether n-best lists show it.

        :param name: of a feature; a weight without one, such as a sparse feature's, is shown.
        :raises ConfigError: if tuneable-components= has another number of values.
        """
        feature = self._feature(name)
        if feature is None:
            return (True,) * num_weights
        tuneable = (dict(feature.arguments).get("tuneable") or "true").lower() in _TRUE
        if feature.kind == "UnknownWordPenalty" or not tuneable:
            return (False,) * num_weights
        components = self._tuneable_components(feature, num_weights)
        if components is None:
            return (True,) * num_weights
        return tuple(component.lower() in _TRUE for component in components.split(","))

    def _feature(self, name: str) -> IniFeature | None:
        return next((feature for feature in self.features if feature.name == name), None)

    def _describe(self, feature: IniFeature) -> PhraseTableFeature:
        """Return the phrase table that a line declares.

        :raises ConfigError: if Moses would refuse the line.
        """
        arguments = dict(feature.arguments)
        for key, value in feature.arguments:
            if value is None:
                problem = f"expected key=value, found {shorten(key)}"
                raise self.error(feature.line, feature.name, problem)
        if len(arguments) != len(feature.arguments):
            raise self.error(feature.line, feature.name, "expected each key once")
        num_features = arguments.get("num-features") or "1"
        if re.fullmatch("[1-9][0-9]{0,5}", num_features) is None:
            problem = f"expected a number in num-features=, found {shorten(num_features)}"
            raise self.error(feature.line, feature.name, problem)
        path = arguments.get("path")
        line = feature.line.place + 1
        return PhraseTableFeature(feature.name, feature.kind, path, int(num_features), line)

    def _check_new_path(self, table: PhraseTableFeature, line: IniLine, table_path: str) -> None:
        """Refuse a path that Moses would not read a text table from."""
        if table.kind not in TEXT_TABLES:
            problem = f"expected class {TEXT_TABLES[0]} for a text table, found {table.kind}"
            tool = _CONVERTERS.get(table.kind)
            cure = f", or convert the new table with {tool} and keep path= as it is" if tool else ""
            raise self.error(line, table.name, f"{problem}; change the class{cure}")
        if fault := path_problem(table_path):
            raise self.error(line, table.name, fault)

    def _weight_line(self, table: PhraseTableFeature) -> IniLine:
        """Return the line with a table's weights.

        :raises ConfigError: if there is none, or not one weight per score.
        """
        key = f"{table.name}="
        for line in self.content_lines():
            if line.section == "weight-overwrite" and key in (word.group() for word in line.words):
                problem = "expected no weights of this table here; move them to [weight]"
                raise self.error(line, table.name, problem)
        found = self.latest_weight_lines().get(table.name)
        if found is None:
            problem = f"expected a line '{key} w1 w2 ...' with {table.num_features} weights"
            raise ConfigError(
                shown_path(self.path), f"[weight] {table.name}", f"{problem}, found none"
            )
        num_weights = len(found.words) - 1
        if num_weights != table.num_features:
            problem = f"expected {table.num_features} weights, as num-features= says"
            raise self.error(found, table.name, f"{problem}, found {num_weights}")
        return found

    def _tuneable_components(self, feature: IniFeature, num_features: int) -> str | None:
        """Return tuneable-components=, one truth value per score; None if it is not there."""
        value = dict(feature.arguments).get("tuneable-components")
        if value is None or len(value.split(",")) == num_features:
            return value
        problem = f"expected {num_features} values in tuneable-components=, found {shorten(value)}"
        raise self.error(feature.line, feature.name, problem)

    def _set_arguments(self, line: IniLine, values: dict[str, str]) -> None:
        """Change arguments of a feature line in their places; new ones go to the end."""
        text = self.lines[line.place]
        missing = dict(values)
        edits = []
        for word in line.words[1:]:
            key, _ = split_argument(word.group())
            if key in values:
                edits.append((word.start() + len(key) + 1, word.end(), missing.pop(key)))
        end = line.words[-1].end()
        edits.extend((end, end, f" {key}={value}") for key, value in missing.items())
        for start, stop, value in sorted(edits, key=lambda edit: edit[0], reverse=True):
            text = text[:start] + value + text[stop:]
        self.lines[line.place] = text


def format_weight(value: float) -> str:
    """Return a weight as Moses reads it into a float32, without an exponent.

    mert-moses.pl does not understand one.

    >>> format_weight(0.2), format_weight(-1e-7)
    ('0.2', '-0.0000001')
    """
    text = f"{value:.9g}"
    return f"{value:.17f}".rstrip("0").rstrip(".") if "e" in text else text


def _is_table(kind: str) -> bool:
    return kind.startswith("PhraseDictionary") or kind in _MORE_TABLES


def _tables_at(
    tables: list[PhraseTableFeature], table_path: str | None
) -> list[PhraseTableFeature]:
    """Return the tables that read a file, or else a file of that name; all for an unknown file."""
    if table_path is None or table_path == "-":
        return tables
    same = [table for table in tables if table.path and same_file(table.path, table_path)]
    return same or [table for table in tables if table.reads(table_path)]
