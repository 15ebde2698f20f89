"""``phrasescore score`` as a user runs it: what it writes for parallel text, and refuses."""

import gzip
import math
import random
from pathlib import Path

import pytest
from click.testing import Result

import phrasescore
from phrasescore.errors import ArgumentError
from phrasescore.features.columns import Column
from phrasescore.progress import Progress
from tests.command_line import check_refusal, run
from tests.doubles import RandomCslm, RandomModel
from tests.log import warnings
from tests.random_lists import SOURCE_WORDS, TARGET_WORDS, features
from tests.tiny_arpa import TINY_ARPA

LINES = 40


@pytest.fixture(autouse=True)
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], list[str]]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("phrasescore.features.networks.SentenceScore.group_size", {"cpu": 8})
    generator = random.Random(7)

    def sentence(shortlist: list[str]) -> list[str]:
        return generator.choices([*shortlist, "rare"], k=generator.randint(0, 4))

    found = [(sentence(SOURCE_WORDS), sentence(TARGET_WORDS)) for _ in range(LINES - 3)]
    found += found[:3]
    for name, side in (("source", 0), ("target", 1)):
        text = "".join(f"{' '.join(pair[side])}\n" for pair in found)
        Path(name).write_text(text, encoding="utf-8")
    RandomCslm(["la", "maison"], path=Path("cslm"))
    Path("lm").write_text(TINY_ARPA)
    return found


@pytest.fixture
def model() -> RandomModel:
    return RandomModel(Path("model"), SOURCE_WORDS, TARGET_WORDS)


@pytest.fixture
def reverse() -> RandomModel:
    return RandomModel(Path("back"), ["the"], ["la", "maison"], seed=1, reverse=True)


COLUMNS = ["--lm", "lm", "--model", "back", "--model", "model"]
COLUMNS[4:4] = ["--column", 'feature = "unknown_words", model = "back"']
COLUMNS += ["--model", "cslm"]


def rows(result: Result) -> list[list[float]]:
    assert result.exit_code == 0, result.output
    return [list(map(float, line.split("\t"))) for line in result.stdout.split("\n")[:-1]]


@pytest.mark.usefixtures("model", "reverse")
def test_the_values_are_those_of_lists_of_one_hypothesis(
    pairs: list[tuple[list[str], list[str]]],
) -> None:
    lines = [f"{n} ||| {' '.join(pair[1])} ||| X= 0 ||| 0\n" for n, pair in enumerate(pairs)]
    Path("nbest").write_text("".join(lines), encoding="utf-8")
    run("rescore", "nbest", "--source", "source", *COLUMNS, "-o", "rescored")
    values = [[value for (value,) in each.values()][1:] for each in features(Path("rescored"))]
    result = run("score", "source", "target", *COLUMNS)
    assert rows(result) == values
    assert f"score: {LINES} sentence pairs in " in result.stderr
    assert f"{LINES} scored in " in result.stderr
    assert " words unknown to a 2-gram model" in result.stderr


@pytest.mark.parametrize("column", [["--model", "cslm"], ["--lm", "lm"]])
def test_the_sum_of_a_language_model_s_scores_is_what_perplexity_reports(
    pairs: list[tuple[list[str], list[str]]], column: list[str]
) -> None:
    total = sum(row[0] for row in rows(run("score", "source", "target", *column)))
    option = {column[0].removeprefix("--"): column[1]}
    (text,) = phrasescore.perplexity(["target"], **option)  # type: ignore[arg-type]
    (found,) = text.models.values()
    assert found.tokens == sum(len(target) + 1 for _, target in pairs)
    assert math.exp(-total / found.tokens) == pytest.approx(found.including_unknown, rel=1e-6)


@pytest.mark.usefixtures("model", "reverse")
def test_engines_a_cache_gzip_and_streams_give_the_same_lines() -> None:
    other = RandomModel(Path("other"), SOURCE_WORDS, TARGET_WORDS, seed=4)
    columns = ["--model", "model", "--model", other.path, "--ensemble", "--lm", "lm"]
    whole = run("score", "source", "target", *columns, "--threads", 1).stdout_bytes
    assert whole.count(b"\n") == LINES
    cached = ["--cache", "cache"]
    for options in (["--engine", "processes", "--workers", 2], cached, cached):
        result = run("score", "source", "target", *columns, *options, "-o", "out.gz")
        assert gzip.decompress(Path("out.gz").read_bytes()) == whole
    assert "0 scored in 0 decoder steps" in result.stderr
    Path("source.gz").write_bytes(gzip.compress(Path("source").read_bytes()))
    text = Path("target").read_bytes()
    assert run("score", "source.gz", "-", *columns, stdin=text).stdout_bytes == whole


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (b"la\n", "target:2: expected as many lines as source has, found the end of the file"),
        (b"la\n" * 41, "source:41: expected as many lines as target has, found the end of the"),
        (b"0 ||| la ||| LM0= 1 ||| 1\n", "target:1: expected a sentence, found '|||' among its"),
    ],
)
@pytest.mark.usefixtures("model")
def test_a_bad_text_is_one_line_with_its_place_and_leaves_no_file(
    tmp_path: Path, target: bytes, message: str
) -> None:
    Path("target").write_bytes(target)
    there = sorted(tmp_path.iterdir())
    options = ["--model", "model", "-o", "out"]
    check_refusal(run("score", "source", "target", *options), f"Error: {message}")
    assert sorted(tmp_path.iterdir()) == there


@pytest.mark.usefixtures("model")
def test_the_function_returns_counts_and_refuses_what_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path("source").write_text("unheard of words\n" * LINES)
    columns: list[str | Column] = ["model"]
    columns.append(phrasescore.NamedFeature("target_length"))
    seen: list[Progress] = []
    done = phrasescore.score("source", "target", columns, "out", progress=seen.append)
    assert (done.features, done.pairs) == (("EncoderDecoder0", "TargetLength0"), LINES)
    assert (seen[-1].task, seen[-1].done, seen[-1].finished) == ("score", LINES, True)
    assert done.networks is not None
    assert done.networks.scored > 0
    (warning,) = warnings(caplog)
    assert warning.startswith("source: 120 of 120 counted words are unknown to model, such as ")
    with pytest.raises(ArgumentError, match="two files cannot share stdin"):
        phrasescore.score("-", "-", columns, "out")
