"""``phrasescore translate`` as a user meets it."""

import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from moses_integration.alignments import parse_segmentation
from moses_integration.nbest import read_nbest
from phrasescore.features.foreign import CTranslate2Model
from phrasescore.systems.system import read_system
from phrasescore.systems.text import TextConverter
from tests.command_line import check_refusal, column_options, run, succeeded
from tests.small_system import (
    INI,
    LISTS,
    SYSTEM,
    TEXT,
    VALUES,
    WEIGHTS,
    write_characters,
    write_system,
)
from tests.tiny_generator import TinyGenerator


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_system(tmp_path)


def translate(*options: str, system: str = "moses.ini", source: str = "source") -> Result:
    return run("translate", system, source, "--workers", "1", *options)


# The search


def test_each_line_is_translated_in_its_place(folder: Path) -> None:
    (folder / "source").write_text("la maison\n\nxyz\nmaison\n")
    result = succeeded(translate())
    assert result.stdout == "the house\n\nxyz\nhome\n"
    assert "1 of 4 source words are not in the table" in result.stderr
    (folder / "source").write_text("das haus\n")
    result = translate()
    assert result.stdout == "das haus\n"
    assert "warning: 2 of 2 source words are not in the table" in result.stderr
    (folder / "source").write_text("")
    assert succeeded(translate("-o", "out")).stdout == ""
    assert (folder / "out").read_bytes() == b""
    (folder / "source").write_text("la maison " * 150 + "\n")
    assert translate("--set", "limits.stack=3").stdout == "the house " * 149 + "the house\n"


@pytest.mark.usefixtures("folder")
def test_lists_have_the_values_of_all_features_but_those_that_moses_hides() -> None:
    named = ("--nbest", "nbest.gz", "--nbest-size", "9", "-o", "out")
    assert translate(*named, "--segmentation", "--alignment").stdout == ""
    first, second, *_ = read_nbest("nbest.gz")
    assert first.features(0) == {name: pytest.approx(row, 1e-5) for name, row in VALUES.items()}
    total = 1 + math.log(0.25) + 0.25 - 3.5 * math.log(10) / 2
    assert first.total(0) == pytest.approx(total, 1e-6)
    # "la maison" is one phrase of the table, or two with "the" for "la".
    assert first.raws[0].endswith(b" ||| 0-1=0-1 ||| 0-0 1-1")
    assert any(raw.endswith(b" ||| 0=0 1=1 ||| 0-0 1-1") for raw in first.raws)
    assert second.hypotheses[0].strip() == b""
    found = zip(first.raws, first.distinct().values(), strict=False)
    for number, (raw, words) in enumerate(found):
        spans = parse_segmentation(raw, 2, len(words), "nbest", number)
        assert spans[-1].target_end == len(words)
    assert len(first.hypotheses) > len(set(first.hypotheses))
    translate(*named, "--distinct")
    first = next(iter(read_nbest("nbest.gz")))
    # And not "the house" of two phrases beside "the house" of one.
    assert len(first.hypotheses) == len(set(first.hypotheses))


def test_limits_of_the_command_line_replace_those_of_the_model(folder: Path) -> None:
    (folder / "source").write_text("la bleue maison\n")
    limits = ("--set", "limits.distortion-limit=0", "--set", "limits.stack=1")
    assert translate(*limits).stdout.startswith("the blue house")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("la <b>maison</b>", "source:2: expected words, found markup: '<b>'"),
        ("la " * 4001, "source:2: expected a sentence with at most 4,000 words, found 4,001"),
        ("la|DET maison|N", "source:2: expected words without factors, found 'la|DET'"),
        ("la \udcff", "source:2: expected UTF-8, found byte 0xff at byte 4"),
    ],
)
def test_a_line_that_is_no_plain_text_is_refused(folder: Path, line: str, problem: str) -> None:
    (folder / "source").write_bytes(f"la\n{line}\n".encode(errors="surrogateescape"))
    check_refusal(translate("-o", "out", "--nbest", "nbest"), problem)
    assert not (folder / "out").exists()
    assert not (folder / "nbest").exists()


def test_a_feature_that_the_search_lacks_needs_weight_0(folder: Path) -> None:
    expected = translate().stdout
    text = INI.replace("Distortion\n", "Distortion\nNeuralLM name=NLM0 path=none\n")
    (folder / "moses.ini").write_text(f"{text}NLM0= 0\n")
    assert succeeded(translate()).stdout == expected
    (folder / "moses.ini").write_text(f"{text}NLM0= 1\n")
    check_refusal(translate(), "NeuralLM")


@pytest.mark.parametrize(
    ("options", "problem", "code"),
    [
        ("--distinct", "--distinct, --alignment and --segmentation require", 2),
        ("--nbest-size 3", "--nbest-size requires --nbest", 2),
        ("--nbest nbest --nbest-size 0", "0 is not in the range x>=1", 2),
        ("--nbest -", "two files cannot share stdin or stdout", 2),
        ("--set limits.stack=-1", "[limits] stack: expected a whole number from 0, got -1", 1),
        ("--nbest out -o out", "out: would overwrite another file", 1),
    ],
)
@pytest.mark.usefixtures("folder")
def test_options_that_do_not_go_together_are_refused(options: str, problem: str, code: int) -> None:
    check_refusal(translate(*options.split()), problem, code)


@pytest.mark.parametrize("name", ["lm.arpa", "table", "weights", "moses.ini", "rnnsearch"])
@pytest.mark.parametrize("option", ["-o", "--nbest"])
def test_a_file_that_the_system_reads_is_not_written_over(
    folder: Path, name: str, option: str
) -> None:
    path = folder / name / "model.safetensors" if name == "rnnsearch" else folder / name
    before = path.read_bytes()
    assert translate(option, str(path), system="system.toml").exit_code in (1, 2)
    assert path.read_bytes() == before


# Characters


@pytest.mark.parametrize(
    ("text", "options", "problem", "code"),
    [
        ("la", "--alignment", "require a system of words, and moses.ini translates characters", 2),
        ("la", "--segmentation", "--alignment and --segmentation require a system of words", 2),
        ("la\nla\u2581l", "", "source:2: expected words without U+2581", 1),
        (
            "la\n" + "a" * 3999,
            *("", "source:2: expected a sentence with at most 4,000 characters, found 4,001", 1),
        ),
    ],
)
def test_what_a_system_of_characters_cannot_do_is_refused(
    text: str,
    options: str,
    problem: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_characters(tmp_path)
    (tmp_path / "source").write_text(f"{text}\n", encoding="utf-8")
    check_refusal(translate("--nbest", "nbest", "-o", "out", *options.split()), problem, code)


# Features of the lists

COLUMNS = ("--model", "rnnsearch", "--feature", "unknown_words")


def three_commands(folder: Path, columns: tuple[str, ...] = COLUMNS) -> bytes:
    """Return what the search, rescore and rerank give; their lists are in ``rescored``."""
    text = SYSTEM.replace(LISTS, "")
    (folder / "search.toml").write_text(text.replace('"weights"', '"search-weights"'))
    weights = (folder / "weights").read_text().partition("[lists]")[0].replace("[search]", "")
    (folder / "search-weights").write_text(weights)
    lists = ("--nbest", "nbest", "--nbest-size", "9", "--distinct", "-o", "searched")
    succeeded(translate(*lists, system="search.toml"))
    given = (*columns, "--threads", "1", "-o", "rescored")
    succeeded(run("rescore", "nbest", "--source", "source", *given))
    succeeded(run("rerank", "rescored", "--weights", "weights", "-o", "reranked"))
    return (folder / "reranked").read_bytes()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_translations_are_those_of_three_commands(folder: Path, workers: str) -> None:
    options = ("--workers", workers, "--nbest", "lists", "--nbest-size", "9", "-o", "out")
    succeeded(translate(*options, system="system.toml"))
    expected = three_commands(folder)
    assert (folder / "out").read_bytes() == expected
    assert expected != (folder / "searched").read_bytes()  # reranking changes something
    # The lists are sorted by the new score, and have it as total.
    succeeded(run("rerank", "rescored", "--weights", "weights", "--nbest", "sorted"))
    assert (folder / "lists").read_bytes() == (folder / "sorted").read_bytes()


def test_programs_and_language_models_rescore_the_lists(folder: Path) -> None:
    TinyGenerator(folder / "gpt")
    (folder / "program.py").write_text(
        "import sys\nfor line in sys.stdin: print(line.count('e'), flush=True)\n"
    )
    command = f"{sys.executable} program.py"
    rows = f"{{ command = '{command}' }}, {{ ctranslate2 = 'gpt', prompt = '{{source}}=' }}"
    own = SYSTEM.replace(LISTS, f"lists = [{rows}]")
    (folder / "system.toml").write_text(own)
    weights = WEIGHTS.replace("RNNsearch0", "Program0").replace("UnknownWords0", "CT20")
    (folder / "weights").write_text(weights)
    succeeded(translate("-o", "out", system="system.toml"))
    columns = ("--command", command, *column_options(CTranslate2Model("gpt", prompt="{source}=")))
    assert (folder / "out").read_bytes() == three_commands(folder, columns)
    (folder / "system.toml").write_text(own.replace("program.py", "no.py"))
    check_refusal(translate("-o", "out", system="system.toml"), "ended with exit code 2")


def test_the_number_of_shown_hypotheses_changes_no_translation(folder: Path) -> None:
    (folder / "system.toml").write_text(SYSTEM.replace("nbest_size = 9", "nbest_size = 2"))
    expected = translate("--confidence", system="system.toml").stdout
    options = ("--confidence", "--nbest", "lists", "--nbest-size", "9")
    assert translate(*options, system="system.toml").stdout == expected
    assert max(found.num_lines for found in read_nbest("lists")) == 2
    # The longer lists have a better hypothesis, which must not be chosen.
    longer = translate("--confidence", "--set", "nbest_size=9", system="system.toml")
    assert longer.stdout != expected


def test_the_confidence_is_a_curve_over_the_share_of_the_list(folder: Path) -> None:
    slope, offset = 2.0, 1.0  # in CONFIDENCE
    options = ("--workers", "1", "--confidence", "--nbest", "lists", "--nbest-size", "9")
    result = succeeded(run("translate", "system.toml", "source", *options))
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [text for text, _ in lines] == three_commands(folder).decode().splitlines()
    for (_, confidence), found in zip(lines, read_nbest("lists"), strict=True):
        totals = [found.total(place) for place in range(found.num_lines)]
        first, *others = [math.exp(0.5 * total) for total in totals]
        # 1 / (1 + exp(-(slope * logit + offset))), where the share is first / (first + others)
        rest = (sum(others) / first) ** slope * math.exp(-offset)
        assert float(confidence) == pytest.approx(1 / (1 + rest), abs=1e-4)
    # A stream has lists of one sentence at a time.
    streamed = run("translate", "system.toml", "--workers", "1", "--confidence", stdin=TEXT)
    assert streamed.stdout == result.stdout


def test_the_contributions_of_the_features_are_explained(folder: Path) -> None:
    options = ["--workers", "1", "--explain", "json", "--nbest", "lists", "--nbest-size", "2"]
    options += ["-o", "out"]
    succeeded(run("translate", "system.toml", "source", *options))
    answers = [json.loads(line) for line in (folder / "json").read_text().splitlines()]
    assert [answer["text"] for answer in answers] == (folder / "out").read_text().splitlines()
    assert answers[0]["source"] == ["la", "maison"]
    for answer, found in zip(answers, read_nbest("lists"), strict=True):
        assert len(answer["hypotheses"]) == found.num_lines
        for place, hypothesis in enumerate(answer["hypotheses"]):
            parts = {part["name"]: part for part in hypothesis["features"]}
            values = {name: tuple(part["values"]) for name, part in parts.items()}
            assert values == found.features(place)
            total = sum(part["contribution"] for part in parts.values())
            assert total == pytest.approx(hypothesis["score"]) == pytest.approx(found.total(place))
        best = answer["hypotheses"][0]
        assert best["words"] == answer["text"]
        ends = [span["target_end"] for span in best["phrases"]]
        assert not answer["text"] or ends[-1] == len(best["words"].split())


# "xyz", by hand: one phrase, one word, -3 for <unk> and -1 for </s> in base 10, and Moses' -100
# for a word without a translation (moses/FF/UnknownWordPenaltyProducer.cpp). Lists lack two of
# these features; with tuneable-components=0,1 they also lack a value of TM0.
UNKNOWN = {
    "Distortion0": [0.0],
    "LM0": [-4 * math.log(10)],
    "UnknownWordPenalty0": [-100.0],
    "WordPenalty0": [-1.0],
    "PhrasePenalty0": [1.0],
    "TM0": [0.0, 0.0],
}
SCORE = 0.5 * -4 * math.log(10) - 100 + 0.5 + 0.25


@pytest.mark.parametrize("hidden", ["", " tuneable-components=0,1"])
def test_a_score_is_the_sum_of_its_features_also_with_unknown_words(
    folder: Path, hidden: str
) -> None:
    (folder / "moses.ini").write_text(INI.replace("num-features=2", f"num-features=2{hidden}"))
    options = ("--workers", "1", "--explain", "json", "--nbest", "lists", "--nbest-size", "9")
    succeeded(run("translate", "moses.ini", *options, stdin=f"xyz\n{TEXT}"))
    first, *others = [json.loads(line) for line in (folder / "json").read_text().splitlines()]
    (unknown,) = first["hypotheses"]
    assert {part["name"]: part["values"] for part in unknown["features"]} == {
        name: pytest.approx(values) for name, values in UNKNOWN.items()
    }
    assert unknown["score"] == pytest.approx(SCORE)
    for answer in (first, *others):
        for hypothesis in answer["hypotheses"]:
            total = sum(part["contribution"] for part in hypothesis["features"])
            assert hypothesis["score"] == pytest.approx(total, abs=1e-9)
    # Moses' lists stay as they are.
    assert "UnknownWordPenalty" not in (folder / "lists").read_text()


# Streams


def test_each_line_of_a_stream_is_answered_before_the_next_one_is_written(folder: Path) -> None:
    lines = TEXT.splitlines(keepends=True)
    expected = run("translate", "system.toml", "source", "--workers", "1").stdout
    command = [sys.executable, "-m", "phrasescore", "translate", "system.toml", "--workers", "2"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers = []
        for line in lines:
            process.stdin.write(line)
            process.stdin.flush()
            answers.append(process.stdout.readline())
        process.stdin.close()
        assert (process.stdout.read(), process.wait()) == ("", 0)
    assert "".join(answers) == expected


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_a_signal_ends_it_while_it_waits_for_a_line(
    folder: Path, number: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-m", "phrasescore", "translate", "moses.ini", "--workers", "1"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("la maison\n")
        process.stdin.flush()
        assert process.stdout.readline() == "the house\n"
        process.send_signal(number)
        # The pipe stays open: the thread that reads it still waits.
        assert process.wait(60) == code
        assert "Fatal" not in process.stderr.read()


def test_the_sentences_before_a_wrong_line_of_a_stream_are_translated(folder: Path) -> None:
    text = "la maison\nmaison\nla <b>maison</b>\nla\n"
    result = run("translate", "moses.ini", "--workers", "1", stdin=text)
    assert (result.exit_code, result.stdout) == (1, "the house\nhome\n")
    assert "<stdin>:3: expected words, found markup: '<b>'" in result.stderr
    # Of a file, no line is translated before all are read.
    (folder / "wrong").write_text(text)
    check_refusal(run("translate", "moses.ini", "wrong", "--workers", "1"), "wrong:3: expected")


# Text and paths


def test_text_is_prepared_and_restored(folder: Path) -> None:
    (folder / "case.en").write_text("la (9/9)\nmaison (5/5)\nHome (3/4) home (1)\n")
    (folder / "plain.toml").write_text(
        'moses_ini = "moses.ini"\n'
        '[text]\ntokenize = "fr en"\ntruecase_source = "case.en"\ntruecase_target = "case.en"\n'
    )
    (folder / "raw").write_text("La maison\nLa maison, xyz!\nL&P | <b>\n")
    result = succeeded(run("translate", "plain.toml", "raw", "--workers", "1"))
    # A sentence begins with a capital, has its punctuation joined, and no escapes.
    assert result.stdout == "The house\nThe house, xyz!\nL & P | < b >\n"
    tokens = run("translate", "plain.toml", "source", "--workers", "1", "--tokenized")
    assert tokens.stdout.startswith("the house\n")


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        ("", "they trust us and us ."),  # by build of version 0.3, whose tables have only "us"
        ("# phrasescore: keeps_known_case = true\n", "they trust US and us ."),
    ],
)
def test_a_source_is_truecased_as_the_training_text_was(
    folder: Path, recorded: str, words: str
) -> None:
    (folder / "case").write_text("us (5/7) US (2)\nthey (1/1)\n")
    settings = f'# phrasescore: truecase_source = "case"\n{recorded}'
    (folder / "moses.ini").write_text(f"{settings}{INI}")
    text = read_system("moses.ini").text
    sentence = TextConverter("text", text, None).prepare(1, b"They trust US and us .")
    assert " ".join(sentence.words) == words


def test_what_a_moses_ini_says_of_its_text_is_used(folder: Path) -> None:
    (folder / "moses.ini").write_text(f"# phrasescore: lowercase = true\n{INI}")
    result = run("translate", "moses.ini", "--workers", "1", stdin="LA Maison\n")
    assert (result.exit_code, result.stdout) == (0, "the house\n")
