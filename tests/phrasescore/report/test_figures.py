"""Tables and figures of a report, whose numbers are worked out by hand."""

import math

import pytest

from phrasescore.generation.generator import Generated
from phrasescore.generation.sampling import CountedSample
from phrasescore.models.checkpoint import Checkpoint, CurvePoint, TrainingRecord
from phrasescore.records import PhrasePair
from phrasescore.report.blocks import Lines, Points, Section, Table
from phrasescore.report.experiment_results import experiment_section
from phrasescore.report.preferences import ModelScores, preferences
from phrasescore.report.samples import ModelSamples, sample_section
from phrasescore.report.score_scatter import scatter
from phrasescore.report.table_choice import SourcePhrase, TablePair
from phrasescore.report.training_curves import training_section
from phrasescore.report.translation_scores import (
    GroupScores,
    SystemScore,
    Texts,
    difference_section,
    translation_section,
)
from phrasescore.report.tuning_results import tuning_section
from tests.random_networks import RandomNetwork


def blocks(section: Section | None) -> dict[str, Table | Points | Lines]:
    assert section is not None
    found = {}
    for block in section.blocks:
        assert isinstance(block, Table | Points | Lines)
        found[block.name] = block
    return found


def table(section: Section | None, name: str) -> Table:
    found = blocks(section)[name]
    assert isinstance(found, Table)
    return found


def pair(source: str, target: str, probability: float, times: float = 1.0) -> TablePair:
    return TablePair(
        PhrasePair(tuple(source.split()), tuple(target.split())), (probability,), times
    )


# The table's best are c, a, d (b and e behind); the network's are b, a, d.
PHRASE = SourcePhrase(
    ("la", "maison", "est", "bleue"),
    [
        pair("la maison est bleue", name, probability, 2.0)
        for name, probability in (("a", 0.3), ("b", 0.05), ("c", 0.4), ("d", 0.2), ("e", 0.05))
    ],
)
NETWORK = {
    line.pair: math.log(probability)
    for line, probability in zip(PHRASE.targets, (0.25, 0.5, 0.01, 0.125, 0.02), strict=True)
}


def test_preferences_are_the_three_best_of_the_table_and_of_the_network() -> None:
    section = preferences([PHRASE], [], [ModelScores("rnn", NETWORK)], column=0, long=4)
    found = table(section, "preferences-frequent")
    assert found.columns == (
        *("source phrase", "times extracted", "targets", "the table prefers", "rnn prefers"),
    )
    by_table, by_network = "c (0.400)\na (0.300)\nd (0.200)", "b (0.500)\na (0.250)\nd (0.125)"
    assert found.rows == (("la maison est bleue", 10, 5, by_table, by_network),)
    assert set(blocks(section)) == {"preferences-frequent"}
    assert preferences([], [], [], column=0, long=4) is None


def test_several_networks_have_columns_of_their_own() -> None:
    unlikely = {each: -10.0 - value for each, value in NETWORK.items()}
    models = [ModelScores("one", NETWORK), ModelScores("two", unlikely)]
    found = table(preferences([], [PHRASE], models, 0, 4), "preferences-rare")
    assert found.columns[4:] == ("one prefers", "two prefers")
    # exp(-10) / 0.01 is 0.0045, exp(-10) / 0.02 half of that, exp(-10) / 0.125 0.0004.
    assert found.rows[0][5] == "c (0.005)\ne (0.002)\nd (< 0.001)"


def counted(text: str, times: int, log_prob: float) -> CountedSample:
    return CountedSample(Generated(tuple(text.split()), log_prob, True, 0), times)


def test_samples_are_the_five_best_with_their_counts() -> None:
    drawn = [counted(name, 10 - at, -1.0 - at) for at, name in enumerate("bxacyz")]
    found = table(sample_section([PHRASE], [], [ModelSamples("m", [drawn])]), "samples-frequent")
    assert found.columns == ("source phrase", "m draws")
    ((source, lines),) = found.rows
    assert source == "la maison est bleue"
    assert str(lines).split("\n") == [
        "b (× 10, -1.00)",
        "x (× 9, -2.00, new)",
        "a (× 8, -3.00)",
        "c (× 7, -4.00)",
        "y (× 6, -5.00, new)",
    ]


def test_samples_of_rare_phrases_come_after_those_of_frequent_ones() -> None:
    other = SourcePhrase(("x",), [])
    models = [ModelSamples(name, [[counted("a", 1, -1)], [counted("q", 2, -2)]]) for name in "mn"]
    found = table(sample_section([PHRASE], [other], models), "samples-rare")
    assert found.columns == ("source phrase", "m draws", "n draws")
    assert found.rows == (("x", "q (× 2, -2.00, new)", "q (× 2, -2.00, new)"),)
    assert sample_section([], [], []) is None


PAIRS = [
    pair("<b>", "a &amp; b", 0.5, 12.0),
    pair("b", "b", 1.0, 2.0),
    pair("c", "c", 0.0, 1.0),
    pair("d", "d", 0.25, 1.0),
]


def test_each_pair_is_a_point_with_both_scores_and_both_phrases() -> None:
    section = scatter(PAIRS, [("rnn", [-1.0, -3.0, -2.0, -5.0], 0)], 1000)
    points = blocks(section)["scores-1"]
    assert isinstance(points, Points)
    # A probability of 0 is where Moses has it.
    assert points.x == pytest.approx([math.log(0.5), 0.0, -100.0, math.log(0.25)])
    assert points.y == (-1.0, -3.0, -2.0, -5.0)
    assert points.labels[:2] == ("<b> → a & b", "b → b")
    assert points.groups == (
        "extracted 10 times or more",
        "extracted 2 to 9 times",
        "extracted once",
        "extracted once",
    )
    assert points.equal
    assert points.caption.startswith("4 of 1,000 pairs.")


def test_correlations_are_those_of_scores_in_a_line() -> None:
    pairs = [pair("a", "a", probability) for probability in (0.5, 0.25, 0.125)]
    scores = [2 * math.log(each.scores[0]) for each in pairs]
    points = blocks(scatter(pairs, [("rnn", scores, 0)], 3))["scores-1"]
    assert points.caption.endswith("1.00 (Pearson), 1.00 of their ranks (Spearman).")


def test_the_pairs_that_differ_most_stand_at_both_ends() -> None:
    section = scatter(PAIRS, [("rnn", [-1.0, -3.0, -2.0, -5.0], 0)], 1000)
    above, below = (table(section, f"scores-1-{end}").rows for end in ("above", "below"))
    assert [row[:3] for row in above] == [("c", "c", 1)]
    assert [row[0] for row in below] == ["d", "b", "<b>"]
    differences = [98.0, -5 - math.log(0.25), -3.0, -1 - math.log(0.5)]
    assert [row[5] for row in above + below] == pytest.approx(differences)
    many = [pair(f"s{number}", "t", 1.0) for number in range(80)]
    section = scatter(many, [("rnn", [-float(number) for number in range(80)], 0)], 80)
    assert [row[0] for row in table(section, "scores-1-below").rows] == [
        f"s{number}" for number in range(79, 54, -1)
    ]
    assert "scores-1-above" not in blocks(section)
    assert scatter([], [], 0) is None


SYSTEMS = [
    SystemScore("first", 40.0, 1.0),
    SystemScore("other", 42.5, 0.98, randomization=0.01, bootstrap=0.02, confidence=1.5),
]


def test_systems_have_their_difference_from_the_first_and_groups_their_lines() -> None:
    groups = [
        GroupScores(
            "words in the source", ["1-10", "11-20"], [3, 5], [[1, 2], [3, 4]], [[5, 6], [7, 8]]
        )
    ]
    section = translation_section(SYSTEMS, groups, "p: chance.")
    assert table(section, "bleu").rows == (
        ("first", 40.0, None, None, None, None, 1.0),
        ("other", 42.5, 1.5, 2.5, 0.01, 0.02, 0.98),
    )
    lines = blocks(section)["bleu-groups-1"]
    assert isinstance(lines, Lines)
    assert [(one.name, one.x, one.y, one.spread) for one in lines.series] == [
        ("first", ("1-10", "11-20"), (1, 2), (5, 6)),
        ("other", ("1-10", "11-20"), (3, 4), (7, 8)),
    ]
    assert lines.caption.startswith("Sentences in each group: 1-10: 3, 11-20: 5. Bars: ")
    alone = table(translation_section(SYSTEMS[:1], [], ""), "bleu")
    assert alone.rows == (("first", 40.0, 1.0),)


def test_the_sentences_that_differ_most_come_with_their_texts() -> None:
    texts = Texts(["s1", "s2", "s3"], ["r1", "r2", "r3"], [["a1", "a2", "a3"], ["b1", "b2", "b3"]])
    section = difference_section(SYSTEMS, [[10.0, 50.0, 30.0], [20.0, 20.0, 30.0]], texts)
    better, worse = (table(section, f"differences-1-{end}") for end in ("better", "worse"))
    assert better.columns == ("sentence", "gain", "source", "reference", "first", "other")
    # The third is as good in both.
    assert better.rows == ((1, 10.0, "s1", "r1", "a1", "b1"),)
    assert worse.rows == ((2, -30.0, "s2", "r2", "a2", "b2"),)
    points = blocks(section)["differences-1-sentences"]
    assert isinstance(points, Points)
    assert (points.x, points.y) == ((10.0, 50.0, 30.0), (20.0, 20.0, 30.0))
    assert "better in 1 sentences, worse in 1, and as good in 1" in points.caption
    assert "p = 0.010." in points.caption
    without = difference_section(SYSTEMS, [[1.0], [2.0]], Texts(None, ["r"], [["a"], ["b"]]))
    assert table(without, "differences-1-better").columns[2] == "reference"


def trained(*curve: CurvePoint) -> Checkpoint:
    made = RandomNetwork("lstm", ["a"], ["b", "c"]).checkpoint
    record = TrainingRecord(curve=curve, best_update=20, updates=30, minutes=1.26)
    return Checkpoint(
        made.model, made.config, made.source_vocabulary, made.target_vocabulary, record
    )


def test_curves_are_perplexities_by_update() -> None:
    points = (CurvePoint(10, 0.5, math.log(8.0), None), CurvePoint(20, 1.0, 0.0, 5.5))
    # What has diverged is not drawn.
    model = trained(CurvePoint(5, 0.1, 800.0, 2e6), *points)
    section = training_section([("m", model), ("untrained", trained())])
    held_out, seen = (blocks(section)[f"training-{name}"] for name in ("held-out", "seen"))
    assert isinstance(held_out, Lines)
    assert isinstance(seen, Lines)
    assert [(one.name, one.x, one.y) for one in held_out.series] == [("m", (20.0,), (5.5,))]
    (line,) = seen.series
    assert line.y == pytest.approx((8.0, 1.0))
    rows = table(section, "training-models").rows
    assert rows[0][:3] == ("m", "lstm", "target")
    assert rows[0][4:6] == (1, 2)
    assert rows[0][7:11] == (30, 1.3, 20, 5.5)
    assert rows[1][10] is None


TUNED = {
    "method": "mert",
    "metric": "BLEU",
    "seed": 3,
    "sentences": 1014,
    "hypotheses": 2000,
    "start": 57.0,
    "reached": 60.0,
    "features": [
        {"name": "LM0_0", "start": 0.5, "weight": 0.25, "contribution": 0.2, "share": 0.75,
         "left_out": 55.5},
        {"name": "TM0_0", "start": 0.5, "weight": 0.1, "contribution": -0.1, "share": 0.25,
         "left_out": None},
    ],
    "replicas": [{"seed": 1, "score": 59.5}],
    "cross_validation": [{"method": "pro", "tuned_on": 58.0, "held_out": 57.5}],
    "rounds": [{"round": 1, "score": 58.0, "hypotheses": 10, "new": 5}],
}  # fmt: skip


def test_weights_come_with_what_is_lost_without_them() -> None:
    section = tuning_section(TUNED)
    assert table(section, "tuning-weights").rows == (
        ("LM0_0", 0.5, 0.25, 0.2, 75.0, 55.5, -4.5),
        ("TM0_0", 0.5, 0.1, -0.1, 25.0, None, None),
    )
    found = blocks(section)
    shares, losses, rounds = (found[f"tuning-{name}"] for name in ("shares", "ablations", "rounds"))
    assert isinstance(shares, Lines)
    assert isinstance(losses, Lines)
    assert isinstance(rounds, Lines)
    assert (shares.bars, shares.series[0].y) == (True, (75.0, 25.0))
    assert losses.series[0].y == (-4.5, None)
    assert (rounds.series[0].x, rounds.series[0].y) == ((1.0,), (58.0,))
    assert table(section, "tuning-seeds").rows == ((1, 59.5),)
    assert table(section, "tuning-methods").rows == (("pro", 58.0, 57.5),)
    assert "BLEU 57.00 with the weights it began with, 60.00 with those it found" in section.lead


def test_two_sets_of_weights_are_told_apart() -> None:
    features = [
        {"name": "LM0_0", "start": 0.5, "search": 0.4, "weight": 0.25},
        {"name": "Attention0_0", "start": 0.0, "search": None, "weight": 0.125},
    ]
    found = table(tuning_section({**TUNED, "features": features}), "tuning-weights")
    assert found.columns[1:4] == ("weight before", "search weight", "list weight")
    assert [row[:4] for row in found.rows] == [
        ("LM0_0", 0.5, 0.4, 0.25),
        ("Attention0_0", 0.0, None, 0.125),
    ]


def test_weights_alone_are_enough() -> None:
    features = [{"name": "LM0_0", "start": 0.5, "weight": 0.25}]
    section = tuning_section({**TUNED, "features": features, "replicas": [], "rounds": []})
    assert set(blocks(section)) == {"tuning-weights", "tuning-methods"}


def test_an_experiment_has_its_table_and_bars_with_their_deviation() -> None:
    section = experiment_section(
        {
            "notes": ["one.", "two."],
            "row": [
                {"name": "base", "rounds": ["6+"], "dev": {"bleu": 30.0, "replicas": [30.0]}},
                {
                    "name": "+ rnn",
                    "rounds": ["4", "5"],
                    "remarks": ["odd"],
                    "dev": {
                        "bleu": 31.125, "replicas": [31, 31.25], "deviation": 0.125,
                        "difference": 1.125, "p_value": 0.0012,
                    },
                },
                {"name": "to come"},
            ],
        }
    )  # fmt: skip
    found = table(section, "experiment-table")
    assert found.columns == ("system", "dev", "dev ±", "dev: difference", "dev: p", "rounds")
    assert found.rows == (
        ("base", 30.0, None, None, None, "6+"),
        ("+ rnn *", 31.12, 0.12, 1.12, 0.0012, "4, 5"),
        ("to come", None, None, None, None, ""),
    )
    bars = blocks(section)["experiment-bars"]
    assert isinstance(bars, Lines)
    (series,) = bars.series
    assert (series.y, series.spread) == ((30.0, 31.12, None), (0.0, 0.125, 0.0))
    assert section.lead == "one. two."
