"""The table of systems: what an experiment writes, and what reports and `read_system` read."""

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from phrasescore.arguments import METRIC_TITLES, TableMetric
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.io.text_table import text_blocks, wrapped
from phrasescore.settings.toml_file import read_toml, to_toml

TABLE = "table.toml"
_SIGNIFICANT = 0.05  # the p-value below which a difference is called significant

# TOML allows inf and nan, which a report cannot show.
_Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


class SystemScore(msgspec.Struct, frozen=True, omit_defaults=True):
    """The scores of a system on a text, 0 to 100, and the difference from the baseline."""

    replicas: Annotated[tuple[_Finite, ...], msgspec.Meta(min_length=1)]
    # Words of the first replica's translations per word of the reference; only for BLEU.
    length_ratio: _Finite | None = None
    # Mean minus the baseline's mean, its 95% interval from the paired bootstrap, and the p-value
    # from approximate randomization.
    difference: _Finite | None = None
    interval: tuple[_Finite, _Finite] | None = None
    p_value: _Finite | None = None
    digits: int = 2  # after the decimal point, to show scores

    @property
    def mean(self) -> float:
        """The mean score over all replicas."""
        return float(np.mean(self.replicas))

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation of the replicas' scores; None for a single replica."""
        return float(np.std(self.replicas, ddof=1)) if len(self.replicas) > 1 else None

    @property
    def is_better(self) -> bool:
        """Whether the system is shown to be better than the baseline."""
        return self._is_proven and (self.difference or 0) > 0

    @property
    def is_worse(self) -> bool:
        """Whether the system is shown to be worse than the baseline."""
        return self._is_proven and (self.difference or 0) < 0

    @property
    def _is_proven(self) -> bool:
        return self.p_value is not None and self.p_value < _SIGNIFICANT

    def to_text(self) -> str:
        """Return mean, deviation and difference, such as ``57.10 (+1.20, p = 0.020)``."""
        spec = f".{self.digits}f"
        text = f"{self.mean:{spec}}"
        if self.deviation is not None:
            text += f" ± {self.deviation:{spec}}"
        if self.difference is not None and self.p_value is not None:
            text += f" ({self.difference:+{spec}}, {p_value_text(self.p_value)})"
        return text


class TableText(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text that the systems translate; paths are relative to the table's folder."""

    name: str
    source: str = ""
    references: tuple[str, ...] = ()
    tuned: bool = False  # whether the weights were tuned on it


class TableRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A system, with its scores and files; paths are relative to the table's folder."""

    name: str
    # Tuning rounds per replica, such as "6+"; + means that the limit ended tuning.
    rounds: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    features: str = ""  # what it adds to the baseline
    system: str = ""  # the folder of its best replica on the text of tuning; "" before tuning
    # The replicas' translations and their scores, by text; without texts not yet translated.
    outputs: dict[str, tuple[str, ...]] = {}
    scores: dict[str, SystemScore] = {}
    # By further metrics; the keys are a text and a metric, such as "test chrF2++".
    others: dict[str, SystemScore] = {}


class SystemsTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """Systems, and their scores on texts; all systems are compared with the first one."""

    metric: TableMetric
    notes: tuple[str, ...] = ()  # notes for readers of the table
    texts: tuple[TableText, ...] = msgspec.field(name="text", default=())
    rows: tuple[TableRow, ...] = msgspec.field(name="row", default=())

    @property
    def dev(self) -> str:
        """The name of the text of tuning; "" if it is unknown."""
        return next((text.name for text in self.texts if text.tuned), "")

    @property
    def best(self) -> str:
        """The row that is best on the text of tuning; "" if fewer than two are measured on it."""
        scores = self.scores(self.dev)
        # Of equal ones, max() returns the first.
        return max(scores, key=lambda name: scores[name].mean) if len(scores) > 1 else ""

    @property
    def chosen(self) -> TableRow:
        """The row to use: the best one; the first one that is tuned if none is known to be best."""
        best = (row for row in self.rows if row.name == self.best)
        tuned = (row for row in self.rows if row.system)
        return next(chain(best, tuned), self.rows[0])

    @property
    def tests(self) -> list[str]:
        """The texts with scores, without the text of tuning if there is another one."""
        measured = [text.name for text in self.texts if self.scores(text.name)]
        return [text for text in measured if text != self.dev] or measured

    def scores(self, text: str) -> dict[str, SystemScore]:
        """Return the scores on a text by system, without systems that have none."""
        return {row.name: row.scores[text] for row in self.rows if text in row.scores}

    @property
    def others(self) -> list[str]:
        """The texts with further metrics, such as "test chrF2++"."""
        return list(dict.fromkeys(chain.from_iterable(row.others for row in self.rows)))

    def headline(self) -> str:
        """Return which system is best on the text of tuning, and what test texts show of it.

        Without a text of tuning, return the result on the first text.
        """
        if not self.tests:
            return "No system has translated a text yet."
        text = self.tests[0]
        scores = self.scores(text)
        if self.best:
            sentence = self._verdict()
        else:
            best = max(scores, key=lambda name: scores[name].mean)  # the first one of equal ones
            most = scores[best].to_text()
            sentence = f"{best} has the most {self.metric_name()} on {text}: {most}."
        if missing := len(self.rows) - len(scores):
            sentence += f" {missing} of {len(self.rows)} systems have no result yet."
        return sentence

    def metric_name(self) -> str:
        """Return the name of the metric inside a sentence."""
        return "BLEU" if self.metric == "bleu" else METRIC_TITLES[self.metric].lower()

    def _verdict(self) -> str:
        best, first = self.chosen, self.rows[0]
        dev = self.scores(self.dev)
        mean = dev[best.name].mean
        sentence = f"{best.name} is best on dev, with {mean:.2f} {self.metric_name()}"
        if best is first or first.name not in dev:
            return f"{sentence}."
        sentences = [f"{sentence}, {_more(mean - dev[first.name].mean)} than {first.name}."]
        for text in self.texts:
            score = best.scores.get(text.name)
            if text.tuned or score is None or score.difference is None or score.p_value is None:
                continue
            unproven = "worse" if score.is_worse else "not shown to be better"
            sentences.append(
                f"On {text.name} it is {'better' if score.is_better else unproven}: "
                f"{_more(score.difference)} ({p_value_text(score.p_value)})."
            )
        worse = [name for name, score in best.others.items() if score.is_worse]
        sentences += [f"It is worse by {join_names(worse)}."] if worse else []
        return " ".join(sentences)

    def to_text(self) -> str:
        """Return the table as text, one line per row, with the notes below it."""
        notes = [self.headline(), *self.notes] if self.best else self.notes
        return "\n".join([*self.lines(), "", *chain.from_iterable(map(wrapped, notes))]) + "\n"

    def lines(self) -> list[str]:
        """Return the table as lines, without its notes. Lines of the best row end in "best"."""
        first = ["", *(f"{row.name} *" if row.remarks else row.name for row in self.rows)]
        best = ["", *("best" if row.name == self.best else "" for row in self.rows)]
        rounds = ["rounds", *(", ".join(row.rounds) for row in self.rows)]

        def column(name: str) -> list[str]:
            found = (row.scores.get(name) or row.others.get(name) for row in self.rows)
            return [name, *("-" if score is None else score.to_text() for score in found)]

        columns = [column(text.name) for text in self.texts]
        lines = text_blocks([first, *columns, rounds], best)
        others = [column(name) for name in self.others]
        return [*lines, "", *text_blocks([first, *others], best)] if others else lines

    __repr__ = to_text

    def to_toml(self) -> str:
        """Return the table as TOML, with unrounded numbers; `read_systems_table` reads it.

        Derived values are included for other readers: the best row, means and deviations.
        """
        values = msgspec.to_builtins(self)
        tables = {name: values.pop(name, ()) for name in ("text", "row")}
        lines = _pairs({"best": self.best, **values})
        for row, own in zip(self.rows, tables["row"], strict=True):
            for key, scores in (("scores", row.scores), ("others", row.others)):
                for text, score in scores.items():
                    derived = {"mean": score.mean, "deviation": score.deviation}
                    known = {name: value for name, value in derived.items() if value is not None}
                    own[key][text] = known | own[key][text]
        for name, named in tables.items():
            for own in named:
                lines += ["", f"[[{name}]]", *_pairs(own)]
        return "\n".join(lines) + "\n"


def read_systems_table(path: str) -> SystemsTable:
    """Read a table of systems that :meth:`SystemsTable.to_toml` wrote."""
    values = read_toml(path)
    if "row" in values and "metric" not in values:
        rows = "its rows are systems, systems/ROW/seed1"
        problem = f"the table of an experiment of version 0.3: repeat it in another folder; {rows}"
        raise DataError(path, None, problem)
    try:
        table = msgspec.convert(values, SystemsTable)
    except msgspec.ValidationError as error:
        raise DataError(path, None, f"expected the table of an experiment: {error}") from error
    if not table.rows:
        raise DataError(path, None, "expected the table of an experiment, found no row")
    return table


def is_of_tuning(path: str) -> bool:
    """Return whether a file has the translations of the text on which an experiment has tuned."""
    file = Path(os.path.realpath(path))
    folder = next((each for each in file.parents[:4] if (each / TABLE).exists()), None)
    try:
        table = None if folder is None else read_systems_table(str(folder / TABLE))
    except PhrasescoreError:  # another program's file
        return False
    if folder is None or table is None:
        return False
    outputs = (path for row in table.rows for path in row.outputs.get(table.dev, ()))
    return file in (folder / output for output in outputs)


def p_value_text(p_value: float) -> str:
    """Format a p-value as ``p = 0.012`` or ``p < 0.001``."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def join_names(names: Sequence[str]) -> str:
    """Return names as text, such as "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _more(difference: float) -> str:
    return f"{abs(difference):.2f} {'more' if difference >= 0 else 'less'}"


def _pairs(table: Mapping[str, Any]) -> list[str]:
    lines = []
    for key, value in table.items():
        if isinstance(value, dict):
            lines += [f"{key}.{to_toml(name)} = {to_toml(item)}" for name, item in value.items()]
        else:
            lines.append(f"{key} = {to_toml(value)}")
    return lines
