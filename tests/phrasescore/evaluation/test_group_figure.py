"""The figure of `evaluate --plot`."""

import random
from typing import Any

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer
from sacrebleu.metrics.bleu import BLEU

from phrasescore.evaluation.comparison import (
    BreakdownScores,
    ComparedSystem,
    Comparison,
    GroupScore,
)
from phrasescore.evaluation.group_figure import PLOT_FORMATS, draw, plot_groups
from phrasescore.evaluation.sentences import Sentences


@pytest.mark.parametrize(
    ("file_format", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_a_figure_is_a_file_of_its_format_and_the_same_every_time(
    file_format: str, start: bytes
) -> None:
    groups = (GroupScore("1-10", 3, (50.0, 51.0)), GroupScore("11-20", 1, (40.0, 43.0)))
    breakdowns = [
        BreakdownScores("words", groups),
        BreakdownScores("x", (GroupScore("0", 4, (1.0, 2.0)),)),
    ]
    spreads = [[[1.0, 2.0], [0.0, 3.0]], [[4.0, 5.0]]]
    image = draw(breakdowns, spreads, ["_moses$", "lstm$"], file_format)
    assert image.startswith(start)
    assert draw(breakdowns, spreads, ["_moses$", "lstm$"], file_format) == image
    assert file_format in PLOT_FORMATS
    if file_format == "svg":
        for text in (b"words", b"1-10", b"BLEU, 95% interval", b"_moses$", b"lstm$"):
            assert text in image


def whiskers(plotted: ErrorbarContainer) -> list[tuple[float, float]]:
    """Return the lower and the upper end of each interval."""
    (lines,) = plotted.lines[2]
    segments: Any = lines.get_segments()
    return [(float(segment[0][1]), float(segment[1][1])) for segment in segments]


def corrupt(text: str, chance: float, draw: random.Random) -> str:
    return " ".join("x" if draw.random() < chance else word for word in text.split())


def test_points_and_intervals_are_those_of_sacrebleu_on_samples_drawn_one_by_one() -> None:
    """sacrebleu scores the groups, and samples that are drawn without our code."""
    draws = random.Random(1)
    lengths = [draws.choice((8, 9, 18, 19)) for _ in range(60)]
    references = [" ".join(draws.choices("abcdefghij", k=length)) for length in lengths]
    systems = {
        name: [corrupt(text, chance, draws) for text in references]
        for name, chance in (("first", 0.3), ("second", 0.1))
    }

    def sentences(texts: list[str]) -> Sentences:
        return Sentences("texts", texts, [tuple(text.split()) for text in texts])

    comparison = Comparison(
        [ComparedSystem(name, [sentences(texts)]) for name, texts in systems.items()],
        [sentences(references)],
    )
    breakdown = comparison.by_length("reference")
    scores, spreads = comparison.score_groups(breakdown), comparison.group_spreads(breakdown)
    (axes,) = plot_groups([scores], [spreads], list(systems)).axes
    assert [label.get_text().split("\n")[0] for label in axes.get_xticklabels()] == [
        "1-10",
        "11-20",
    ]
    assert axes.get_xlabel() == "words in the reference (number of sentences)"
    assert axes.get_ylabel() == "BLEU, 95% interval"
    assert axes.get_ylim()[0] > 0  # points, not bars
    metric = BLEU(tokenize="none", force=True, smooth_method="none")
    for plotted, texts in zip(axes.containers, systems.values(), strict=True):
        assert isinstance(plotted, ErrorbarContainer)
        assert plotted.lines[0] is not None
        points = np.array(plotted.lines[0].get_data())
        for at, (low, high) in enumerate(whiskers(plotted)):
            members = [n for n, length in enumerate(lengths) if (length > 10) == bool(at)]

            def bleu(chosen: list[int], texts: list[str] = texts) -> float:
                pairs = [texts[n] for n in chosen], [[references[n] for n in chosen]]
                return metric.corpus_score(*pairs).score

            score = bleu(members)
            assert points[1, at] == pytest.approx(score)
            assert round(points[0, at]) == at
            sampled = [bleu(draws.choices(members, k=len(members))) for _ in range(300)]
            # Two estimates of a deviation, from 300 and 1,000 samples.
            assert high - score == pytest.approx(1.96 * np.std(sampled), rel=0.25)
            assert score - low == pytest.approx(high - score)


def test_no_interval_reaches_below_zero_and_a_single_sentence_has_none() -> None:
    groups = (GroupScore("1", 2, (3.0,)), GroupScore("2", 1, (20.0,)))
    (axes,) = plot_groups([BreakdownScores("x", groups)], [[[5.0], [0.0]]], ["one"]).axes
    (plotted,) = axes.containers
    assert isinstance(plotted, ErrorbarContainer)
    assert whiskers(plotted) == [(0.0, 8.0), (20.0, 20.0)]
