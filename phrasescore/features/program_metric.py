"""A program's scores of sentences as a metric: the score of a text is their mean."""

import hashlib

from sacrebleu.metrics.base import Metric

from phrasescore.arguments import METRICS
from phrasescore.errors import ArgumentError
from phrasescore.evaluation.comparison import Comparison
from phrasescore.evaluation.own_metrics import MeanMetric
from phrasescore.features.program import ProgramScore
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.evaluation import Evaluating

_ROWS = 1000  # number of sentences that a program gets at a time
_SACREBLEU_NAMES = ("bleu", "chrf2", "chrf2++", "ter")


def load_programs(settings: Evaluating) -> dict[str, ProgramScore]:
    """Return the programs by their names in the output; they start when they are asked."""
    commands = settings.commands
    names = settings.names or [f"Program{number}" for number in range(len(commands))]
    if names and not commands:
        raise ArgumentError("--name requires --command")
    if len(names) != len(commands):
        problem = f"expected one for each of {len(commands)} programs, got {len(names)}"
        raise ArgumentError(f"--name: {problem}")
    taken = [*_SACREBLEU_NAMES, *METRICS]
    for number, name in enumerate(names):
        if name.lower() in taken or name in names[:number]:
            raise ArgumentError(f"--name: there is another metric named {name!r}")
    programs = (ProgramScore(each, seconds=settings.answer_timeout) for each in commands)
    return dict(zip(names, programs, strict=True))


def score_with_program(
    name: str, program: ProgramScore, comparison: Comparison, progress: ProgressCallback | None
) -> Metric:
    """Ask a program for the scores of all translations; return the metric that has them."""
    texts = [system.text.texts for system in comparison.systems]
    rows = list(dict.fromkeys(row for text in texts for row in comparison.rows(text)))
    scores: list[float] = []
    with Meter(name, "sentences", progress, total=len(rows)) as meter, program.computing():
        for start in range(0, len(rows), _ROWS):
            answers = program.ask(rows[start : start + _ROWS])
            scores += answers
            meter.update(len(answers))
    version = hashlib.sha256(program.rows[0].fingerprint.encode()).hexdigest()[:8]
    known = dict(zip(rows, scores, strict=True))
    references = len(comparison.references)
    return MeanMetric(name, known, comparison.rows, references, f"program {version}")
