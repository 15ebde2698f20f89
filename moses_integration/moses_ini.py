"""Read and edit moses.ini; lines that are not understood stay as they are.

The grammar is the one of moses/Parameter.cpp (ReadConfigFile, CreateWeightsMap) and
moses/FF/FeatureFunction.cpp (ParseLine): ``#`` begins a comment anywhere in a line, blanks around
the rest are dropped, ``[section]`` heads the lines that follow. A feature is a class and
``key=value`` words, separated by spaces and tabs; without ``name=`` it is called after its class
and the number of nameless features of this class before it, ``PhraseDictionaryMemory0``. A
weight line is ``Name= w1 w2``; the last line for a name is the one that counts. ``[weight-file]``
names a file of sparse weights; those in ``[weight]`` go before them (moses/StaticData.cpp,
LoadSparseWeightsFromConfig).
"""

import math
import os
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import compress
from typing import NamedTuple

from moses_integration.ini_text import (
    IniFeature,
    IniLine,
    IniText,
    path_problem,
    split_argument,
)
from moses_integration.weight_lines import format_weight_line, read_sparse_weights
from phrasescore.errors import ConfigError, shown_path
from phrasescore.io.output import open_output
from phrasescore.io.text import NUMBER, is_stream, same_file, shorten
from phrasescore.records import Weights

# Classes that load a text table from path=.
TEXT_TABLES = ("PhraseDictionaryMemory", "PhraseDictionaryScope3")

# The end of the name of a file of sparse weights beside a moses.ini; mert-moses.pl's have it, too.
_SPARSE_ENDING = ".sparse-weights"

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

    def __init__(self, path: str, content: bytes) -> None:
        super().__init__(path, content)
        # New weights of sparse features whose names [weight] cannot hold.
        self._sparse: Weights = {}

    def phrase_tables(self) -> list[PhraseTableFeature]:
        """Return the phrase tables in the order of the file, whatever their class."""
        return [
            self._describe(feature) for feature in self.features if is_phrase_table(feature.kind)
        ]

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
            problem = "expected a phrase table such as PhraseDictionaryMemory, found none"
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
        self.lines[weights.place] = (
            text[:end] + f" {format_weight(initial_weight)}" * how_many + text[end:]
        )
        self.features = self.read_features()
        return next(found for found in self.phrase_tables() if found.name == table.name)

    def tuneable_weights(self) -> dict[str, tuple[float, ...]]:
        """Return the weights of the scores that n-best lists show, by feature, in the file's order.

        Moses prints no feature with tuneable=false, nor any UnknownWordPenalty, and of a feature
        with tuneable-components= only those (moses/ScoreComponentCollection.cpp,
        OutputFeatureScores; moses/FF/UnknownWordPenaltyProducer.cpp). Sparse weights are kept,
        and those of the file that [weight-file] names come last.

        :raises ConfigError: with file and line, if a weight is no number, or if weights are
            overwritten elsewhere in the file; if there is no file of sparse weights.
        :raises DataError: as `read_sparse_weights`.
        """
        weights: Weights = {}
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
        shown = {name: found for name, found in weights.items() if found}
        return {
            **shown,
            **{name: w for name, w in self._filed_weights().items() if name not in shown},
        }

    def _filed_weights(self) -> Weights:
        """Return the weights in the file that [weight-file] names; none if there is no such file.

        :raises ConfigError: if it cannot be opened.
        """
        named = self.weight_file()
        if named is None:
            return {}
        line, path = named
        if not os.path.exists(path):
            problem = (
                f"cannot open {path}: there is no such file (paths begin at the working folder)"
            )
            raise self.error(line, "", problem)
        return read_sparse_weights(path)

    def set_weights(self, weights: Mapping[str, tuple[float, ...]]) -> list[str]:
        """Replace weights of scores that n-best lists show; all others, and comments, stay.

        Weights of a sparse feature that has none yet are added to the section, at its end. Those
        of names that the section cannot hold go to a file, which `write` writes.

        :param weights: as `tuneable_weights` returns them, of some features.
        :return: names that the file has no feature for; their weights are left out.
        :raises ConfigError: if a feature has another number of weights here.
        """
        lines = self.latest_weight_lines()
        names = {feature.name for feature in self.features}
        ends = [line.place + 1 for line in self.content_lines() if line.section == "weight"]
        unknown, added = [], []
        for name, values in weights.items():
            line = lines.get(name)
            if line is not None:
                self._replace_weights(line, name, values)
            elif "_" not in name or name.partition("_")[0] not in names or not ends:
                unknown.append(name)
            elif _fits_section(name):
                added.append(" ".join([f"{name}=", *map(format_weight, values)]))
            else:
                self._sparse[name] = values
        if ends:
            self.lines[ends[-1] : ends[-1]] = added
        self.features = self.read_features()
        return unknown

    def check_writable(self, path: str, names: Iterable[str]) -> None:
        """Check, before weights are computed, that `write` can write those of these features.

        :raises ConfigError: if a name needs a file beside the moses.ini, and that is a stream, or
            the file is the one that this moses.ini names.
        """
        name = next((name for name in names if "_" in name and not _fits_section(name)), None)
        if name is None:
            return
        problem = f"[weight] cannot hold {shorten(name)}, whose weight goes to a file beside it"
        named = self.weight_file()
        if is_stream(path):
            raise ConfigError(shown_path(path), "[weight]", f"{problem}: name a file, no stream")
        if named is not None and same_file(named[1], f"{path}{_SPARSE_ENDING}"):
            cure = f"{named[1]}, which {self.path} names: write to another file"
            raise ConfigError(shown_path(path), "[weight]", f"{problem}: {cure}")

    def write(self, path: str) -> None:
        """Write the text to a file, whole or not at all; ``-`` is stdout.

        Weights of names that [weight] cannot hold go to a file beside it, with those of the old
        [weight-file], and [weight-file] names it.
        """
        if self._sparse:
            self.check_writable(path, self._sparse)
            weights = {**self._filed_weights(), **self._sparse}
            sparse_path = f"{os.path.abspath(path)}{_SPARSE_ENDING}"
            lines = [
                format_weight_line(sparse_path, name, name, format_weight(value))
                for name, (value,) in weights.items()
            ]
            self.set_weight_file(sparse_path)
            with open_output(sparse_path) as output:
                output.write("".join(f"{line}\n" for line in lines).encode())
        super().write(path)

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
    """Return a weight with 9 digits, those of Moses' float32, without an exponent.

    mert-moses.pl does not understand one.

    >>> format_weight(0.2), format_weight(-1e-7)
    ('0.2', '-0.0000001')
    """
    text = f"{value:.9g}"
    return f"{Decimal(text):f}" if "e" in text else text


def _fits_section(name: str) -> bool:
    """Return whether [weight] can hold a name: Moses finds comments and sections there."""
    return "#" not in name and not name.startswith("[")


def is_phrase_table(kind: str) -> bool:
    """Return whether a class is one of phrase tables."""
    return kind.startswith("PhraseDictionary") or kind in _MORE_TABLES


def _tables_at(
    tables: list[PhraseTableFeature], table_path: str | None
) -> list[PhraseTableFeature]:
    """Return the tables that read a file, or else a file of that name; all for an unknown file."""
    if table_path is None or table_path == "-":
        return tables
    same = [table for table in tables if table.path and same_file(table.path, table_path)]
    return same or [table for table in tables if table.reads(table_path)]
