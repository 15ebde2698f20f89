"""``phrasescore segment`` as a user runs it: what it writes, and what it refuses."""

import json
import math
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner, Result

from phrasescore.arguments import ConfidenceName
from phrasescore.cli import main
from phrasescore.generation import beam_search, segmentation
from phrasescore.generation.segmentation import CONFIDENCES
from tests.command_line import check_refusal, succeeded
from tests.doubles import RandomCslm, RandomModel

SOURCE_WORDS, TARGET_WORDS = ["the", "house", "is", "blue"], ["la", "maison", "est", "bleue"]
# A word that no model knows, a line without words, spaces that count once, and a no-break space.
TEXT = [
    "the house is blue",
    "",
    "house",
    "is  the rare\u00a0word house blue the house",
    "the house is blue",
]
SENTENCES = [tuple(word for word in line.split(" ") if word) for line in TEXT]


# These seeds make translations of a word, of none and of an unknown one, all with an end.
@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("text").write_bytes("".join(f"{line}\n" for line in TEXT).encode())
    return tmp_path


@pytest.fixture
def forward(folder: Path) -> RandomModel:
    return RandomModel(folder / "forward", SOURCE_WORDS, TARGET_WORDS, seed=9)


@pytest.fixture
def reverse(folder: Path) -> RandomModel:
    return RandomModel(folder / "reverse", SOURCE_WORDS, TARGET_WORDS, seed=59, reverse=True)


BOTH = "--model forward --reverse-model reverse --device cpu --threads 1"
ALONE = "--model forward --confidence forward --device cpu --threads 1"


def run(arguments: str) -> Result:
    return CliRunner().invoke(main, ["segment", "text", *arguments.split()])


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").split("\n")[:-1]]


def sizes(line: dict[str, Any]) -> list[int]:
    return [segment["end"] - segment["start"] for segment in line["segments"]]


# What it writes


@pytest.mark.parametrize("name", get_args(ConfidenceName))
def test_segments_and_confidences_are_those_of_the_definition(
    name: str, forward: RandomModel, reverse: RandomModel
) -> None:
    models = ALONE if name == "forward" else f"{BOTH} --confidence {name}"
    result = succeeded(run(f"{models} --max-segment 3 --beam 4 --segments out.json -o out"))
    assert result.stdout == ""
    translations = Path("out").read_bytes().decode().split("\n")
    assert translations.pop() == ""
    found: dict[tuple[str, ...], float | None] = {}
    for number, (words, line) in enumerate(zip(SENTENCES, lines("out.json"), strict=True)):
        assert (line["sentence"], line["words"]) == (number, len(words))
        assert sum(sizes(line)) == len(words)
        joined = " ".join(segment["target"] for segment in line["segments"] if segment["target"])
        assert translations[number] == joined
        for segment in line["segments"]:
            source, target = segment["source"].split(" "), segment["target"].split()
            assert tuple(source) == words[segment["start"] : segment["end"]]
            total = forward.log_prob(source, target)
            if CONFIDENCES[name].both:
                total += reverse.log_prob(source, target)
            value = CONFIDENCES[name].value(total, len(source))
            found[tuple(source)] = segment["confidence"]
            if segment["finished"] and math.isfinite(value):
                assert segment["confidence"] == pytest.approx(value, abs=1e-4)
            else:
                assert segment["confidence"] is None
    assert translations[1] == ""
    assert found[("house",)] is None if name == "penalized" else found[("house",)] is not None


@pytest.mark.usefixtures("forward", "reverse")
def test_blocks_threads_and_batches_change_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(f"{BOTH} --segments a.json -o a").exit_code == 0
    monkeypatch.setattr(segmentation, "BLOCK_SPANS", 3)
    monkeypatch.setattr(segmentation, "KEPT_SPANS", 5)
    monkeypatch.setitem(beam_search.BATCH_ROWS, "cpu", 20)
    assert run(f"{BOTH} --threads 2 --segments b.json -o b").exit_code == 0
    assert Path("a").read_bytes() == Path("b").read_bytes()
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


@pytest.mark.usefixtures("forward", "reverse")
def test_unknown_words_are_counted_and_can_be_left_out() -> None:
    result = run(f"{BOTH} -o out")
    unknown = Path("out").read_text("utf-8").count("<unk>")
    assert unknown > 0
    assert f"; {unknown} <unk> predicted" in result.stderr
    result = run(f"{BOTH} --no-unknown -o out")
    assert "<unk>" not in Path("out").read_text("utf-8") + result.stderr


# The controls


@pytest.mark.usefixtures("forward")
def test_no_segmentation_leaves_every_sentence_whole() -> None:
    result = run(f"{ALONE} --segmentation none --max-segment 2 --segments out -o -")
    assert [sizes(line) for line in lines("out")] == [[4], [], [1], [8 - 1], [4]]
    assert "5 sentences, 5 of them whole" in result.stderr


@pytest.mark.usefixtures("forward")
def test_random_segments_are_those_of_another_run_in_another_order() -> None:
    Path("text").write_text("the house is blue the house is blue the house is\n" * 30)
    first = f"{ALONE} --segmentation random-confidence"
    assert run(f"{first} --segments like -o a").exit_code == 0
    control = f"{ALONE} --segmentation random --like like"
    assert run(f"{control} --segments out -o b").exit_code == 0
    like, out = ([sizes(line) for line in lines(name)] for name in ("like", "out"))
    assert out != like
    assert list(map(sorted, out)) == list(map(sorted, like))
    assert run(f"{control} --segments again -o c").exit_code == 0
    assert Path("again").read_bytes() == Path("out").read_bytes()


# What it refuses


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--model forward", "--confidence penalized requires a --reverse-model"),
        (f"{BOTH} --confidence forward", "--confidence forward cannot use a --reverse-model"),
        (f"{ALONE} --segmentation random", "requires --like"),
        (f"{ALONE} --like text", "--like requires --segmentation random"),
        (f"{ALONE} --max-segment 0", "--max-segment"),
        (f"{ALONE} --segments - -o -", "two files cannot share stdin or stdout"),
    ],
)
@pytest.mark.usefixtures("forward")
def test_command_lines_that_make_no_sense_are_refused(arguments: str, message: str) -> None:
    check_refusal(run(arguments), message, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--model reverse --confidence forward", "--model reverse: expected a model that predicts"),
        ("--model lm --confidence forward", "a model of the kind cslm reads no source"),
        ("--model forward --reverse-model lm", "--reverse-model lm: expected a model trained with"),
        ("--model forward --reverse-model forward", "expected a model trained with --reverse"),
        ("--model forward --reverse-model other", "--model reads 6 of its words and writes 2"),
        (f"{ALONE} -o out --segments ./out", "./out: would overwrite another file"),
    ],
)
@pytest.mark.usefixtures("forward", "reverse")
def test_wrong_models_and_files_are_refused(arguments: str, message: str, folder: Path) -> None:
    RandomCslm(TARGET_WORDS, path=folder / "lm")
    RandomModel(folder / "other", TARGET_WORDS, SOURCE_WORDS, reverse=True)
    result = run(arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert Path("text").read_bytes().decode().split("\n")[:-1] == TEXT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("the house\n", "like:1: expected a line that --segments wrote, found 'the house'"),
        ("[]\n", "like:1: expected a line that --segments wrote"),
        ('{"words": 3, "segments": [{"start": 0, "end": 1.5}]}\n', "like:1: expected a line that "),
        ('{"words": 4, "segments": [{"start": 3, "end": 3}]}\n', "like:1: expected segments of w"),
        ('{"words": 3, "segments": [{"start": 0, "end": 3}]}\n', "like:1: expected segments of 4 "),
        ("", "like:1: expected segments of 4 words, as the source has, found no line"),
    ],
)
@pytest.mark.usefixtures("forward")
def test_files_that_are_no_segments_are_refused(content: str, message: str) -> None:
    Path("like").write_text(content)
    check_refusal(run(f"{ALONE} --segmentation random --like like"), message)
