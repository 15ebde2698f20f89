"""What a report shows of a phrase table: chosen in one pass, scored by the networks."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from moses_integration.phrase_table import PhraseTableLine, read_phrase_table
from moses_integration.table_line import joint_count
from phrasescore.cli.progress import show_progress
from phrasescore.cli.report_options import Settings
from phrasescore.devices import choose_device, usable_threads
from phrasescore.errors import DataError
from phrasescore.features.neural import NeuralScore
from phrasescore.generation.generator import Generator
from phrasescore.generation.sampling import CountedSample, count_samples, sample_targets
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.progress import Meter
from phrasescore.records import PhrasePair
from phrasescore.report.samples import SAMPLES
from phrasescore.report.table_choice import Limits, TableChoice, TablePair, choose

# Moses' order: p(f|e) lex(f|e) p(e|f) lex(e|f), with f the source.
_DIRECT, _INVERSE = 3, 1
# Source phrases of each table of preferences, as in the paper.
_SOURCES = 10


class ScoredModel(NamedTuple):
    """A network that scores phrase pairs."""

    name: str
    checkpoint: Checkpoint
    # Of the table's score that says what the network says, from 0.
    column: int


class TableData(NamedTuple):
    """What was chosen of a table, and the networks to score it with."""

    choice: TableChoice
    models: list[ScoredModel]
    settings: Settings

    def forward(self) -> list[ScoredModel]:
        """Return the models of p(target | source)."""
        return [model for model in self.models if not model.checkpoint.reverse]

    def score(self, model: ScoredModel, pairs: Sequence[PhrasePair]) -> list[float]:
        """Return the network's log-probability of each pair, a natural logarithm."""
        import torch

        torch.set_num_threads(1)  # scoring has threads of its own
        scorer = NeuralScore(
            model.checkpoint,
            choose_device(self.settings.device),
            threads=usable_threads(self.settings.threads),
        )
        with Meter(f"report: {model.name}", "pairs", show_progress, total=len(pairs)) as progress:
            return list(progress.track(scorer.values(pairs)))

    def draw(
        self, model: ScoredModel, sources: Sequence[tuple[str, ...]]
    ) -> list[list[CountedSample]]:
        """Return distinct targets that a network draws for each source, by falling log p.

        What finds no end within the length allowed is left out.
        """
        import torch

        torch.set_num_threads(usable_threads(self.settings.threads))
        generator = Generator([model.checkpoint], choose_device(self.settings.device))
        drawn = sample_targets(generator, sources, SAMPLES, seed=self.settings.seed)
        return [
            count_samples([sample for sample in samples if sample.finished]) for samples in drawn
        ]


def read_table(
    path: str, models: Sequence[tuple[str, Checkpoint]], settings: Settings
) -> TableData:
    """Return what is shown of a table, which is read once, as a stream.

    :param models: of the kind encoder-decoder.
    :raises DataError: if it is no phrase table, or lacks a score that a model is set against.
    """
    found = []
    for name, checkpoint in models:
        usual = _INVERSE if checkpoint.reverse else _DIRECT
        found.append(ScoredModel(name, checkpoint, (settings.table_score or usual) - 1))
    limits = Limits(settings.points, settings.map_points, _SOURCES, settings.long)
    highest = max((model.column for model in found), default=0) + 1
    with Meter("report: phrase table", "lines", show_progress) as progress:
        lines = progress.track(read_phrase_table(path))
        return TableData(
            choose(_pairs(path, lines, highest), limits, settings.seed), found, settings
        )


def _pairs(path: str, lines: Iterator[PhraseTableLine], highest: int) -> Iterator[TablePair]:
    """Yield the lines as they are chosen from.

    :param highest: how many scores there have to be.
    """
    for line in lines:
        if line.num_scores < highest:
            problem = (
                f"expected p(target | source) or its reverse as score {highest} of a line, found "
                f"{line.num_scores} scores (--table-score N says which one it is)"
            )
            raise DataError(path, line.number, problem)
        scores = line.raw.split(b"|||", 3)[2].split()
        yield TablePair(line.pair, tuple(map(float, scores)), joint_count(line.raw))
