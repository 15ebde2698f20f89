"""The inputs of a report: what is read before its sections are made, and what sections need.

From a phrase table, which is read as a stream, a few pairs and source phrases are kept.
"""

import heapq
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar

from moses_integration.phrase_table import PhraseTableLine, read_phrase_table
from moses_integration.table_line import joint_count
from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError, DataError
from phrasescore.evaluation.comparison import ComparedSystem, Comparison
from phrasescore.evaluation.sentences import Sentences, check_aligned, read_sentences
from phrasescore.evaluation.systems_table import TABLE, SystemsTable, read_systems_table
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import PhrasePair
from phrasescore.report import SEED
from phrasescore.report.blocks import Section
from phrasescore.settings.compute import Compute
from phrasescore.settings.evaluation import SectionName
from phrasescore.settings.kinds import kind_names
from phrasescore.systems.text_checks import warn_of_lengths

# Indices of the table's scores p(target | source) and p(source | target). Moses' order is
# p(f|e) lex(f|e) p(e|f) lex(e|f), where f is the source.
_DIRECT, _INVERSE = 2, 0
_MOST_SYSTEMS = 10  # systems of an experiment whose translations are compared
POINTS = 2000  # random phrase pairs in the plot of scores
MAP_POINTS = 1000  # maximum number of words, phrases or sentences in a map
LONG = 4  # number of words from which source phrases are listed and mapped
MIN_TARGETS = 3  # source phrases with fewer targets are not compared
SOURCES = 10  # frequent and rare source phrases whose targets are listed, as in Cho et al. (2014)
_CANDIDATES = 200  # frequent source phrases to choose from; overlapping ones count once

EXTRA = "pip install 'phrasescore[report]'"  # has the packages for figures and maps

_Item = TypeVar("_Item")


class TablePair(NamedTuple):
    """A phrase pair in a table, with its scores and count."""

    pair: PhrasePair
    scores: tuple[float, ...]  # probabilities, in the order of the table
    times: float  # how often the pair was extracted; some tables have fractional counts


class SourcePhrase(NamedTuple):
    """A source phrase with all its targets, in the order of the table."""

    source: tuple[str, ...]
    targets: list[TablePair]

    @property
    def times(self) -> float:
        """How often the phrase was extracted: the sum over its targets."""
        return sum(target.times for target in self.targets)


@dataclass(frozen=True)
class TableChoice:
    """The selected parts of a table, and the size of the table."""

    # Uniform samples of all pairs, in table order, and of the long source phrases.
    pairs: list[TablePair]
    phrases: list[tuple[str, ...]]
    # Long source phrases with at least `MIN_TARGETS` targets: the most frequent ones, and a sample
    # of the phrases whose pairs were all extracted once.
    frequent: list[SourcePhrase]
    rare: list[SourcePhrase]
    num_pairs: int  # in the table


class Reservoir(Generic[_Item]):
    """A uniform sample of ``size`` items from a stream (Vitter, 1985, algorithm R)."""

    def __init__(self, size: int, seed: str) -> None:
        self._size = size
        self._numbers = random.Random(seed)
        self._kept: list[tuple[int, _Item]] = []
        # Number of items added so far.
        self.seen = 0

    def add(self, item: _Item) -> None:
        """Add the next item of the stream to the sample, or drop it."""
        index = self.seen
        self.seen += 1
        if index < self._size:
            self._kept.append((index, item))
        elif self._size:
            drawn = int(self._numbers.random() * self.seen)
            if drawn < self._size:
                self._kept[drawn] = (index, item)

    def items(self) -> list[_Item]:
        """Return the sample in stream order."""
        return [item for _, item in sorted(self._kept, key=lambda entry: entry[0])]


def choose_from_table(table: Iterable[TablePair]) -> TableChoice:
    """Choose pairs and source phrases from a table, in one pass over its lines."""
    pairs: Reservoir[TablePair] = Reservoir(POINTS, f"{SEED} pairs")
    phrases: Reservoir[tuple[str, ...]] = Reservoir(MAP_POINTS, f"{SEED} phrases")
    rare: Reservoir[SourcePhrase] = Reservoir(SOURCES, f"{SEED} rare")

    def candidates() -> Iterator[SourcePhrase]:
        for source, lines in groupby(table, key=lambda line: line.pair.source):
            targets = list(lines)
            for line in targets:
                pairs.add(line)
            if len(source) < LONG:
                continue
            phrases.add(source)
            if len(targets) >= MIN_TARGETS:
                phrase = SourcePhrase(source, targets)
                if all(target.times == 1 for target in targets):
                    rare.add(phrase)
                yield phrase

    # On equal frequency, shorter phrases come first, because longer ones may contain them.
    frequent = heapq.nlargest(
        _CANDIDATES, candidates(), key=lambda phrase: (phrase.times, -len(phrase.source))
    )
    chosen = list(dict.fromkeys(phrases.items()))
    best = _distinct(frequent)[:SOURCES]
    return TableChoice(pairs.items(), chosen, best, rare.items(), pairs.seen)


def _distinct(phrases: list[SourcePhrase]) -> list[SourcePhrase]:
    """Drop phrases that contain an earlier phrase or are contained in one."""
    kept: dict[str, SourcePhrase] = {}
    for phrase in phrases:
        words = f" {' '.join(phrase.source)} "
        if not any(other in words or words in other for other in kept):
            kept[words] = phrase
    return list(kept.values())


class NamedModel(NamedTuple):
    """A trained model with its name in the report."""

    name: str
    checkpoint: Checkpoint

    @property
    def column(self) -> int:
        """The 0-based index of the table score that corresponds to the model's probability."""
        return _INVERSE if self.checkpoint.reverse else _DIRECT


@dataclass(frozen=True, kw_only=True)
class ReportInputs:
    """All inputs for a report; the phrase table is read lazily."""

    table: str | None = None  # the path of a phrase table
    models: Sequence[NamedModel] = ()
    source: Sentences | None = None
    references: Sequence[Sentences] = ()
    systems: Sequence[ComparedSystem] = ()
    experiment: str | None = None  # the folder of an experiment
    experiment_table: SystemsTable | None = None
    only: Sequence[SectionName] = ()  # the sections that the page includes; empty for all
    compute: Compute = Compute()
    progress: ProgressCallback | None = None

    def of_kind(self, name: str) -> list[NamedModel]:
        """Return the models whose kind has a property."""
        return [each for each in self.models if getattr(each.checkpoint.config.network, name)]

    def phrase_models(self) -> list[NamedModel]:
        """Return the models that score phrase pairs with p(target | source)."""
        return [model for model in self.of_kind("scores_phrases") if not model.checkpoint.reverse]

    @cached_property
    def table_choice(self) -> TableChoice:
        """The lines selected from the table, which is read once."""
        table = self.table
        assert table is not None
        columns = [model.column for model in self.of_kind("scores_phrases")]
        with Meter("report: phrase table", "lines", self.progress, lines_of=table) as meter:
            lines = meter.track(read_phrase_table(table))
            return choose_from_table(_table_pairs(table, lines, max(columns, default=0) + 1))

    @cached_property
    def comparison(self) -> Comparison:
        """The comparison of the systems with the references, with the source if given."""
        return Comparison(self.systems, self.references, self.source)

    @cached_property
    def results(self) -> SystemsTable | None:
        """The table of the experiment or of the given translations, if there is one."""
        if self.experiment_table is not None or not (self.systems and self.references):
            return self.experiment_table
        text = os.path.basename((self.source or self.references[0]).path)
        return self.comparison.to_table(text)


# How options and messages name an input, and whether it is given.
_IS_GIVEN: dict[str, Callable[[ReportInputs], object]] = {
    "TABLE": lambda inputs: inputs.table is not None,
    "--source": lambda inputs: inputs.source,
    "--references": lambda inputs: inputs.references,
    "--translation": lambda inputs: inputs.systems,
    "two systems (--translation)": lambda inputs: len(inputs.systems) > 1,
    "--references or --translation": lambda inputs: inputs.references or inputs.systems,
    "--translation and --references, or --experiment": lambda inputs: (
        inputs.experiment or (inputs.systems and inputs.references)
    ),
    "a --model": lambda inputs: inputs.models,
}


def is_installed(*modules: str) -> bool:
    """Return whether all these modules are installed."""
    return all(find_spec(module) is not None for module in modules)


class MadeSection(NamedTuple):
    """A section (None if it was left out), and the reasons for everything that was left out."""

    section: Section | None
    reasons: Sequence[str] = ()


class SectionPlan(NamedTuple):
    """The function that makes a section, and the inputs that it requires."""

    make: Callable[[ReportInputs], MadeSection]
    needs: tuple[str, ...]  # names of inputs
    kind: str = ""  # the required property of a model's kind; empty if no such model is required
    is_map: bool = False  # whether the section needs the packages of the extra "report"

    def missing(self, inputs: ReportInputs) -> list[str]:
        """Return the names of the required inputs that are missing."""
        missing = [name for name in self.needs if not _IS_GIVEN[name](inputs)]
        if self.kind and not inputs.of_kind(self.kind):
            missing.append(f"a --model of the kind {' or '.join(kind_names(**{self.kind: True}))}")
        if self.is_map and not is_installed("matplotlib", "sklearn"):
            missing.append(EXTRA)
        return missing


def read_inputs(
    table: StrPath | None,
    models: Sequence[StrPath],
    source: StrPath | None,
    references: Sequence[str],
    translations: Sequence[tuple[str, StrPath]],
    experiment: StrPath | None,
    only: Sequence[SectionName],
    compute: Compute,
    progress: ProgressCallback | None,
) -> ReportInputs:
    """Read all inputs except the phrase table, and check that they are consistent."""
    results = None
    if experiment is not None:
        results = read_systems_table(os.path.join(experiment, TABLE))
        if (compared := _compared_text(results, os.fspath(experiment))) is not None:
            own_source, references, translations = compared
            source = source or own_source
    names = [name for name, _ in translations]
    if len(set(names)) < len(names):
        raise ArgumentError(f"expected systems with different names, got {', '.join(names)}")
    loaded = _load_models([os.fspath(path) for path in models])
    reference_texts = [read_sentences(path) for path in references]
    source_text = None if source is None else read_sentences(os.fspath(source), is_source=True)
    texts = [read_sentences(os.fspath(path)) for _, path in translations]
    aligned = [*reference_texts, *texts, *([] if source_text is None else [source_text])]
    if aligned:
        check_aligned(aligned)
    # The steps of an experiment have already checked its translations.
    for each in texts if references and experiment is None else ():
        warn_of_lengths(each.path, each.num_words, reference_texts[0].num_words)
    return ReportInputs(
        table=None if table is None else os.fspath(table),
        models=loaded,
        source=source_text,
        references=reference_texts,
        systems=[ComparedSystem(name, [text]) for name, text in zip(names, texts, strict=True)],
        experiment=None if experiment is None else os.fspath(experiment),
        experiment_table=results,
        only=only,
        compute=compute,
        progress=progress,
    )


def _compared_text(
    table: SystemsTable, folder: str
) -> tuple[str, list[str], list[tuple[str, StrPath]]] | None:
    """Return the source and references of the first test text, and the systems' translations."""
    # Each system has its first translation. Of many systems, the first one and the best ones are
    # returned. The result is None if a file is missing.
    if not table.tests:
        return None
    text = next(text for text in table.texts if text.name == table.tests[0])
    scores = table.scores(text.name)
    first, *others = scores
    best = sorted(others, key=lambda name: -scores[name].mean)[: _MOST_SYSTEMS - 1]
    systems: list[tuple[str, StrPath]] = [
        (row.name, os.path.join(folder, row.outputs[text.name][0]))
        for row in table.rows
        if row.name in (first, *best) and row.outputs.get(text.name)
    ]
    source, *references = (
        os.path.normpath(os.path.join(folder, path)) for path in (text.source, *text.references)
    )
    files = [source, *references, *(path for _, path in systems)]
    return (source, references, systems) if systems and all(map(os.path.exists, files)) else None


def _load_models(paths: Sequence[str]) -> list[NamedModel]:
    names = [os.path.basename(os.path.abspath(path)) for path in paths]
    if len(set(names)) < len(names):
        names = list(paths)
    return list(map(NamedModel, names, map(load_checkpoint, paths)))


def _table_pairs(
    path: str, lines: Iterator[PhraseTableLine], num_scores: int
) -> Iterator[TablePair]:
    """Yield the pairs in a table with their counts and scores, at least ``num_scores``."""
    for line in lines:
        if line.num_scores < num_scores:
            expected = f"expected p(target | source) or its reverse as score {num_scores} of a line"
            problem = f"{expected}, found {line.num_scores} scores"
            raise DataError(path, line.number, problem)
        scores = line.raw.split(b"|||", 3)[2].split()
        yield TablePair(line.pair, tuple(map(float, scores)), joint_count(line.raw))
