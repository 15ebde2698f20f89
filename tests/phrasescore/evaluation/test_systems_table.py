"""Promises of the table of systems: its file, its best row, and what it says of it."""

from pathlib import Path

import msgspec
import pytest

from phrasescore.errors import DataError
from phrasescore.evaluation.systems_table import (
    SystemScore,
    SystemsTable,
    TableRow,
    TableText,
    is_of_tuning,
    read_systems_table,
)


def score(
    mean: float, difference: float | None = None, p_value: float | None = None
) -> SystemScore:
    """Return a score whose difference has an interval of 1 on either side."""
    interval = None if difference is None else (difference - 1, difference + 1)
    return SystemScore((float(mean),), 0.9, difference, interval, p_value)


def table(*texts: str, **rows: dict[str, SystemScore]) -> SystemsTable:
    """Return a table of rows by name; it has been tuned on the text dev."""
    return SystemsTable(
        "bleu",
        texts=tuple(TableText(text, tuned=text == "dev") for text in texts),
        rows=tuple(TableRow(f"+{name}", scores=scores) for name, scores in rows.items()),
    )


def write(folder: Path, text: str) -> str:
    path = folder / "table.toml"
    path.write_text(text)
    return str(path)


def test_a_best_row_that_is_worse_by_another_metric_says_so() -> None:
    scores = {"dev": score(60), "news": score(61, 1, 0.001)}
    others = {"news chrF2++": score(49, -2, 0.01), "news BLEU-13a": score(49, -1, 0.2)}
    rows = table("dev", "news", base={"dev": score(50), "news": score(60)}).rows
    found = SystemsTable(
        "bleu",
        texts=table("dev", "news").texts,
        rows=(*rows, TableRow("+rnn", scores=scores, others=others)),
    )
    assert found.headline().endswith("(p = 0.001). It is worse by news chrF2++.")


def test_a_table_is_read_as_it_was_written_and_says_what_follows_from_it(tmp_path: Path) -> None:
    rows = (
        TableRow(
            'a "b"\x7f\\',
            ("6+", "3"),
            ("odd",),
            "columns rnn",
            "../a b",
            {"x.y": ("a", "b")},
            {"x.y": SystemScore((50.0, 52.0), 0.1), "dev": score(1)},
        ),
        TableRow("é", scores={"x.y": score(50, -1, 0.25), "dev": score(1 / 3)}),
    )
    texts = (TableText("dev", "s", ("r",), tuned=True), TableText("x.y", "t", ("r0", "r1")))
    found = SystemsTable("word_accuracy", ("one.",), texts, rows)
    text = found.to_toml()
    assert read_systems_table(write(tmp_path, text)) == found
    assert text.startswith('best = "a \\"b\\"\\u007f\\\\"\nmetric = "word_accuracy"\n')
    derived = (
        'scores."x.y" = { mean = 51.0, deviation = 1.4142135623730951, replicas = [50.0, 52.0]'
    )
    assert derived in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected the table of an experiment: Object missing required field `metric`"),
        ('[[row]]\nname = "a"\ndev = { bleu = 1 }', "the table of an experiment of version 0.3"),
        ('metric = "bleu"', "expected the table of an experiment, found no row"),
        ('metric = "bleu"\nrow = 1', "expected the table of an experiment: Expected `array`"),
        ('metric = "bleu"\n[[row]]\nname = "a"\nscores.dev = { mean = 1 }', "missing required"),
        ('metric = "bleu"\n[[row]]\nname = "a"\nscores.dev = { replicas = [] }', "length >= 1"),
        ('metric = "bleu"\n[[row]]\nname = "a"\nscores.dev = { replicas = [inf] }', "<= 1.79"),
    ],
)
def test_another_file_is_no_table(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        read_systems_table(write(tmp_path, text))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("tests", "sentence"),
    [
        (
            {"news": score(51, 1, 0.001), "talks": score(52, 2, 0.02)},
            (
                "On news it is better: 1.00 more (p = 0.001). On talks it is better: 2.00 more "
                "(p = 0.020)."
            ),
        ),
        (
            # The highest on news is another one.
            {"news": score(50.01, 0.01, 0.9), "talks": score(49, -1, 0.3)},
            (
                "On news it is not shown to be better: 0.01 more (p = 0.900). On talks it is not "
                "shown to be better: 1.00 less (p = 0.300)."
            ),
        ),
        (
            {"news": score(50.01, 2, 0.04), "talks": score(49, -1, 0.01)},
            (
                "On news it is better: 2.00 more (p = 0.040). On talks it is worse: 1.00 less "
                "(p = 0.010)."
            ),
        ),
        # Not translated yet.
        ({}, ""),
    ],
)
def test_the_verdict_is_of_the_system_that_is_best_on_dev(
    tests: dict[str, SystemScore], sentence: str
) -> None:
    other = {name: score(70, 20, 0.001) for name in ("news", "talks")}
    found = table(
        "dev",
        "news",
        "talks",
        base={"dev": score(60), "news": score(50), "talks": score(50)},
        rnn={"dev": score(62), **tests},
        x={"dev": score(62), **other},
        y={"dev": score(61)},
    )
    assert (found.best, found.chosen.name) == ("+rnn", "+rnn")
    start = "+rnn is best on dev, with 62.00 BLEU, 2.00 more than +base."
    assert found.headline().startswith(f"{start} {sentence}".strip())
    assert "+x" not in found.headline()


def test_the_first_system_may_be_the_best_on_dev() -> None:
    own = {"dev": score(60), "news": score(50)}
    found = table("dev", "news", base=own, rnn={"dev": score(60), "news": score(51, 1, 0.001)})
    assert (found.best, found.chosen.name) == ("+base", "+base")
    assert found.headline() == "+base is best on dev, with 60.00 BLEU."


def test_of_a_single_measured_row_nothing_is_best_and_a_tuned_row_is_to_be_used() -> None:
    found = table("dev", base={}, rnn={"dev": score(62)})
    assert (found.best, found.chosen.name) == ("", "+base")
    assert "best" not in found.to_text()
    tuned = msgspec.structs.replace(found.rows[1], system="+rnn/seed1")
    found = msgspec.structs.replace(found, rows=(found.rows[0], tuned))
    assert (found.best, found.chosen) == ("", tuned)


BASE = {"news": score(50)}


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            {"base": BASE, "rnn": {"news": score(51.25, 1.25, 0.0001)}, "x": {}},
            (
                "+rnn has the most BLEU on news: 51.25 (+1.25, p < 0.001). 1 of 3 systems have no "
                "result yet."
            ),
        ),
        (
            {"base": BASE, "rnn": {"news": score(50.5, 0.5, 0.21)}},
            "+rnn has the most BLEU on news: 50.50 (+0.50, p = 0.210).",
        ),
        (
            {"base": BASE, "rnn": {"news": score(47, -3, 0.01)}, "x": {"news": score(50, 0, 1)}},
            "+base has the most BLEU on news: 50.00.",
        ),
        ({"base": BASE}, "+base has the most BLEU on news: 50.00."),
        ({"base": {}}, "No system has translated a text yet."),
    ],
    ids=["better", "chance", "worse", "one", "none"],
)
def test_without_a_text_of_tuning_the_result_is_of_the_first_text(
    rows: dict[str, dict[str, SystemScore]], sentence: str
) -> None:
    assert table("news", **rows).headline() == sentence


def test_a_file_of_translations_is_of_tuning_if_the_table_says_so(tmp_path: Path) -> None:
    row = TableRow("a", outputs={"dev": ("a/dev.out",), "test": ("a/test.out",)})
    found = SystemsTable("bleu", texts=(TableText("dev", tuned=True),), rows=(row,))
    write(tmp_path, found.to_toml())
    assert is_of_tuning(str(tmp_path / "a" / "dev.out"))
    assert not is_of_tuning(str(tmp_path / "a" / "test.out"))
    write(tmp_path, "of = 'another program'")
    assert not is_of_tuning(str(tmp_path / "a" / "dev.out"))
