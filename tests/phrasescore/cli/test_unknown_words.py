"""Every verb warns, once, of a text whose words a model does not know, on either side."""

from pathlib import Path

import pytest

from phrasescore.systems.scoring import Scoring
from phrasescore.systems.sourced_lists import read_sourced_lists
from tests.command_line import run, succeeded
from tests.doubles import RandomCslm, RandomModel
from tests.phrasescore.language_models.test_selection import unigrams

SOURCE, TARGET = ["the", "house", "is"], ["la", "maison", "est"]
FACTORS = "la|DET maison|NOUN"
TABLE = "the ||| la|DET ||| 0.5 0.5 0.5 0.5 ||| 0-0 ||| 1 1 1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models and texts; the target side has factors, and the text ``cased`` capitals."""
    monkeypatch.chdir(tmp_path)
    RandomModel(tmp_path / "net", SOURCE, TARGET, seed=9)
    RandomCslm(TARGET, path=tmp_path / "cslm")
    unigrams(tmp_path / "lm", dict.fromkeys(TARGET, -1))
    unigrams(tmp_path / "other-lm", dict.fromkeys(TARGET, -1))
    texts = {
        "source": "the house\n",
        "target": f"{FACTORS}\n",
        "known": "la maison\n",
        "cased": "THE HOUSE\n",
        "lists": f"0 ||| {FACTORS} ||| LM0= -1 ||| -1\n",
        "table": TABLE,
        "cased-table": TABLE.replace("the", "THE").replace("la|DET", "la"),
        "lex": "la the 1\nmaison house 1\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def warnings(arguments: str, *more: str) -> list[str]:
    result = succeeded(run(*arguments.split(), *more))
    begin = "phrasescore: warning: "
    lines = [line for line in result.stderr.splitlines() if "words are unknown to" in line]
    assert all(line.startswith(begin) for line in lines)
    return [line.removeprefix(begin) for line in lines]


@pytest.mark.parametrize(
    ("arguments", "begin"),
    [
        ("rescore lists --source source --model net", "lists (hypotheses): 2 of 2 counted words"),
        ("rescore lists --source source --model cslm", "lists (hypotheses): 2 of 2 counted words"),
        ("score source target --model net", "target: 2 of 2 counted words are unknown to net"),
        ("perplexity target --lm lm", "target: 2 of 2 counted words are unknown to lm"),
        ("perplexity target --model cslm", "target: 2 of 2 counted words are unknown to cslm"),
        ("annotate table --model net", "table (target side): 1 of 1 counted words"),
        (
            "rescore lists --source source --model net --engine processes --workers 1",
            "lists (hypotheses): 2 of 2 counted words",
        ),
    ],
)
def test_translations_with_factors_are_warned_of(arguments: str, begin: str) -> None:
    output = () if arguments.startswith("perplexity") else ("-o", "out")
    (line,) = warnings(arguments, *output)
    assert line.startswith(begin)
    assert "these are words with factors (word|POS)" in line


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("score cased known --model net", "cased"),
        ("generate net cased", "cased"),
        ("segment cased --model net --confidence forward", "cased"),
        ("annotate cased-table --model net", "cased-table (source side)"),
    ],
)
def test_sources_in_another_casing_are_warned_of(arguments: str, text: str) -> None:
    (line,) = warnings(arguments, "-o", "out")
    assert line.startswith(f"{text}: ")
    assert "the model knows most of these in another casing" in line


def test_each_model_of_a_selection_is_warned_of() -> None:
    models = "--in-domain lm --general other-lm"
    lines = warnings(f"select target {models} --lines 1 -o out")
    assert [line[:47] for line in lines] == [
        "target: 2 of 2 counted words are unknown to lm,",
        "target: 2 of 2 counted words are unknown to oth",
    ]
    assert warnings(f"select known {models} --lines 1 -o out") == []


def test_a_text_that_the_models_know_is_not_warned_of() -> None:
    columns = "--model net --model cslm --lm lm --column lexicon='lex'"
    assert warnings(f"score source known {columns} -o out") == []


def test_a_lexicon_of_the_other_direction_is_warned_of(folder: Path) -> None:
    (folder / "table").write_text(TABLE.replace("|DET", ""))
    for option, more in (("--lexicon", ""), ("--reverse-lexicon", "1 of 1 source words: is it ")):
        result = run("annotate", "table", option, "lex", "-o", "out")
        said = f"warning: table: lex has no translation for {more}"
        assert (said in result.stderr) is bool(more)


def test_one_rescorer_of_many_files_warns_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Scoring.of([str(folder / "net")]) as rescorer:
        for _ in range(2):
            lists = read_sourced_lists("lists", "source", rescorer.names, allow_missing=False)
            assert list(rescorer.score(lists, "source", "lists"))
    assert sum("unknown to" in record.getMessage() for record in caplog.records) == 1
