"""Read and edit moses.ini; lines that are not understood stay as they are.

The grammar is the one of moses/Parameter.cpp (ReadConfigFile, CreateWeightsMap) and
moses/FF/FeatureFunction.cpp (ParseLine): ``#`` begins a comment anywhere in a line, blanks around
the rest are dropped, ``[section]`` heads the lines that follow. A feature is a class and
``key=value`` words, separated by spaces and tabs; without ``name=`` it is called after its class
and the number of nameless features of this class before it, ``PhraseDictionaryMemory0``. A
weight line is ``Name= w1 w2``; the last line for a name is the one that counts.
"""

import os
import re
from typing import NamedTuple

from moses_integration.ini_text import IniFeature, IniLine, path_problem, split_argument
from moses_integration.ini_weights import IniWeights
from moses_integration.weight_lines import format_weight
from phrasescore.errors import ConfigError, shown_path
from phrasescore.io.text import same_file, shorten

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


class MosesIni(IniWeights):
    """A moses.ini: its phrase tables and its weights, with edits that touch nothing else."""

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
