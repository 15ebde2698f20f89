"""``phrasescore translate``: one command gives what decode, rescore and rerank give."""

import json
import math
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from phrasescore.workflows.translation.system import read_system

import phrasescore
from moses_integration.nbest import read_nbest
from phrasescore.errors import ArgumentError
from phrasescore.features.foreign import CTranslate2Model
from phrasescore.models.checkpoint import save_checkpoint
from phrasescore.systems.text import TextConverter
from tests.command_line import check_refusal, run, succeeded
from tests.doubles import RandomCslm
from tests.phrasescore.cli.test_decode import INI, LM, MOSES, TABLE
from tests.phrasescore.cli.test_decode_characters import LM as CHARACTER_LM
from tests.phrasescore.cli.test_decode_characters import SETTING, SOURCE
from tests.phrasescore.cli.test_decode_characters import TABLE as CHARACTER_TABLE
from tests.random_networks import RandomNetwork
from tests.tiny_generator import TinyGenerator

TEXT = "la maison\n\nmaison xyz la bleue maison\nla la maison bleue\n"
WEIGHTS = """\
[search]
WordPenalty0= -0.5
TM0= 1 0.25
Distortion0= 1
LM0= 0.5
CSLM0= 0.25
[lists]
WordPenalty0= -0.25
TM0= 0.5 0.5
Distortion0= 1
LM0= 0.25
CSLM0= 0.5
RNNsearch0= 3
UnknownWords0= -0.5
"""
CONFIDENCE = "confidence = { scale = 0.5, slope = 2.0, offset = 1.0 }"
SYSTEM = f"""\
moses_ini = "moses.ini"
weights = "weights"
nbest_size = 9
{CONFIDENCE}
search_models = ["cslm"]
[search]
stack = 30
[[rescore]]
model = "rnnsearch"
[[rescore]]
feature = "unknown_words"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    texts = {"table": TABLE, "lm.arpa": LM, "moses.ini": INI, "source": TEXT}
    for name, text in (texts | {"weights": WEIGHTS, "system.toml": SYSTEM}).items():
        (tmp_path / name).write_text(text)
    RandomCslm(["the", "house", "home"], order=3, path=tmp_path / "cslm")
    network = RandomNetwork("rnnsearch", ["la", "maison"], ["the", "house", "home"])
    save_checkpoint(tmp_path / "rnnsearch", network.checkpoint)
    return tmp_path


COLUMNS = ("--model", "rnnsearch", "--feature", "unknown_words")


def three_commands(
    *options: str, source: str = "source", columns: tuple[str, ...] = COLUMNS
) -> bytes:
    """Return the translations of decode, rescore and rerank; their lists are in ``rescored``."""
    search = ["--feature", "cslm", "--model", "cslm", "--stack", "30", "--processes", "1"]
    wanted = ["--weights", "weights", "--nbest", "nbest", "--nbest-size", "9", "--distinct"]
    wanted += ["-o", "decoded"]
    succeeded(run("decode", source, "--config", "moses.ini", *search, *wanted, *options))
    given = (*columns, "--threads", "1", "-o", "rescored")
    succeeded(run("rescore", "nbest", "--source", source, *given))
    succeeded(run("rerank", "rescored", "--weights", "weights", "-o", "reranked"))
    return Path("reranked").read_bytes()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_translations_are_those_of_three_commands(folder: Path, workers: str) -> None:
    options = ("--workers", workers, "--nbest", "lists", "--nbest-size", "9", "-o", "out")
    succeeded(run("translate", "system.toml", "source", *options))
    expected = three_commands()
    assert (folder / "out").read_bytes() == expected
    assert expected != (folder / "decoded").read_bytes()  # reranking changes something
    # The lists are sorted by the new score, and have it as total.
    succeeded(run("rerank", "rescored", "--weights", "weights", "--nbest", "sorted"))
    assert (folder / "lists").read_bytes() == (folder / "sorted").read_bytes()


def test_programs_and_language_models_rescore_the_lists(folder: Path) -> None:
    TinyGenerator(folder / "gpt")
    (folder / "program.py").write_text(
        "import sys\nfor line in sys.stdin: print(line.count('e'), flush=True)\n"
    )
    command = f"{sys.executable} program.py"
    own = SYSTEM.replace('model = "rnnsearch"', f'command = "{command}"')
    own = own.replace('feature = "unknown_words"', "ctranslate2 = 'gpt'\ntext.prompt = '{source}='")
    (folder / "system.toml").write_text(own)
    weights = WEIGHTS.replace("RNNsearch0", "Program0").replace("UnknownWords0", "CT20")
    (folder / "weights").write_text(weights)
    succeeded(run("translate", "system.toml", "source", "--workers", "1", "-o", "out"))
    columns = ("--command", command, *CTranslate2Model("gpt", prompt="{source}=").options())
    assert (folder / "out").read_bytes() == three_commands(columns=columns)
    for old, new, problem in (
        ("program.py", "no.py", "ended with exit code 2"),
        (
            sys.executable,
            "no-program",
            "system.toml: [rescore 1] command: there is no program 'no-program'",
        ),
        ("ctranslate2 = 'gpt'", "ctranslate2 = 'no'", "no: "),
        ("ctranslate2 = 'gpt'", "feature = 'target_length'", "unknown key 'prompt'"),
        ("text.prompt", "text.promt", "did you mean 'prompt'?"),
    ):
        (folder / "system.toml").write_text(own.replace(old, new))
        result = run("translate", "system.toml", "source", "--workers", "1", "-o", "out")
        check_refusal(result, problem)


def test_a_moses_ini_alone_is_a_system(folder: Path) -> None:
    (folder / "plain.toml").write_text('moses_ini = "moses.ini"\n')
    result = run("translate", "plain.toml", "source", "--workers", "1")
    decoded = run("decode", "source", "--config", "moses.ini", "--processes", "1")
    assert (result.exit_code, result.stdout) == (0, decoded.stdout)
    lists = ("--nbest", "lists", "--nbest-size", "3", "-o", "out")
    succeeded(run("translate", "plain.toml", "source", "--workers", "1", *lists))
    wanted = ("--nbest", "nbest", "--nbest-size", "100", "--distinct", "-o", "decoded")
    succeeded(run("decode", "source", "--config", "moses.ini", "--processes", "1", *wanted))
    for found, expected in zip(read_nbest("lists"), read_nbest("nbest"), strict=True):
        assert found.hypotheses == expected.hypotheses[:3]


def test_a_feature_with_weight_0_may_be_one_that_the_search_lacks(folder: Path) -> None:
    text = INI.replace("Distortion\n", "Distortion\nNeuralLM name=NLM0 path=none\n")
    (folder / "moses.ini").write_text(f"{text}NLM0= 0\n")
    (folder / "plain.toml").write_text('moses_ini = "moses.ini"\n')
    result = run("translate", "plain.toml", "source", "--workers", "1")
    decoded = run("decode", "source", "--config", "moses.ini", "--processes", "1")
    assert (result.exit_code, result.stdout) == (0, decoded.stdout)


def test_paths_do_not_depend_on_the_working_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run("translate", "system.toml", "source", "--workers", "1").stdout
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    result = run("translate", "../system.toml", "../source", "--workers", "1")
    assert (result.exit_code, result.stdout) == (0, expected)


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
    (folder / "plain.toml").write_text('moses_ini = "moses.ini"\n')
    command = [sys.executable, "-m", "phrasescore", "translate", "plain.toml", "--workers", "1"]
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
    (folder / "plain.toml").write_text('moses_ini = "moses.ini"\n')
    text = "la maison\nmaison\nla <b>maison</b>\nla\n"
    result = run("translate", "plain.toml", "--workers", "1", stdin=text)
    assert (result.exit_code, result.stdout) == (1, "the house\nhome\n")
    assert "<stdin>:3: expected words, found markup: '<b>'" in result.stderr
    # Of a file, no line is translated before all are read.
    (folder / "wrong").write_text(text)
    check_refusal(run("translate", "plain.toml", "wrong", "--workers", "1"), "wrong:3: expected")


@pytest.mark.usefixtures("folder")
def test_the_confidence_is_a_curve_over_the_share_of_the_list() -> None:
    slope, offset = 2.0, 1.0  # in CONFIDENCE
    options = ("--workers", "1", "--confidence", "--nbest", "lists", "--nbest-size", "9")
    result = succeeded(run("translate", "system.toml", "source", *options))
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [text for text, _ in lines] == three_commands().decode().splitlines()
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
    (folder / "plain.toml").write_text('moses_ini = "moses.ini"\n')
    options = ("--workers", "1", "--explain", "json", "--nbest", "lists", "--nbest-size", "9")
    succeeded(run("translate", "plain.toml", *options, stdin=f"xyz\n{TEXT}"))
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


def test_what_moses_lists_omit_is_the_rest_of_the_score(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "moses").write_text(MOSES.format(python=sys.executable))
    (folder / "bin" / "moses").chmod(0o755)
    system = 'moses_ini = "moses.ini"\ndecoder = "moses"\nmoses_bin = "bin"\n'
    (folder / "moses.toml").write_text(system)
    succeeded(run("translate", "moses.toml", "source", "--workers", "1", "--explain", "json"))
    (best,) = json.loads((folder / "json").read_text().splitlines()[0])["hypotheses"]
    # The double's total is -1, and its only feature is LM0= -1, with the weight 0.5.
    assert {part["name"]: part["contribution"] for part in best["features"]} == {
        "LM0": -0.5,
        "UnknownWordPenalty0 + PhrasePenalty0": -0.5,
    }


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
    (folder / "plain.toml").write_text('moses_ini = "moses.ini"\n')
    text = read_system("plain.toml").text
    sentence = TextConverter("text", text).prepare(1, b"They trust US and us .")
    assert " ".join(sentence.words) == words


def test_what_a_moses_ini_says_of_its_text_is_used(folder: Path) -> None:
    (folder / "moses.ini").write_text(f"# phrasescore: lowercase = true\n{INI}")
    (folder / "plain.toml").write_text('moses_ini = "moses.ini"\n')
    result = run("translate", "plain.toml", "--workers", "1", stdin="LA Maison\n")
    assert (result.exit_code, result.stdout) == (0, "the house\n")


def test_a_system_of_characters_translates_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"table": CHARACTER_TABLE, "lm.arpa": CHARACTER_LM, "source": SOURCE}
    texts |= {"moses.ini": SETTING + INI, "system.toml": 'moses_ini = "moses.ini"\n'}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    result = run("translate", "system.toml", "source", "--workers", "1", "--confidence")
    decoded = run("decode", "source", "--config", "moses.ini", "--processes", "1")
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == (
        decoded.stdout.splitlines()
    )


def test_moses_searches_and_its_lists_are_rescored(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "moses").write_text(MOSES.format(python=sys.executable))
    (folder / "bin" / "moses").chmod(0o755)
    (folder / "weights").write_text("LM0= 2\nRNNsearch0= 1\nTM0= 1 1\nWordPenalty0= 1\n")
    (folder / "moses.toml").write_text(
        'moses_ini = "moses.ini"\ndecoder = "moses"\nmoses_bin = "bin"\nweights = "weights"\n'
        'search = { stack = 50 }\nrescore = [{ model = "rnnsearch" }]\n'
    )
    options = ("--workers", "1", "--nbest", "lists", "--nbest-size", "5")
    # The double has no feature but LM0.
    result = run("translate", "moses.toml", "source", *options)
    check_refusal(result, "no weight for Distortion0, a feature of the n-best lists")
    (folder / "moses.ini").write_text(re.sub("(?m)^(Distortion|WordPenalty|TM)0=.*\n", "", INI))
    (folder / "weights").write_text("LM0= 2\nRNNsearch0= 1\n")
    result = succeeded(run("translate", "moses.toml", "source", *options))
    assert result.stdout == TEXT.upper()
    arguments = (folder / "arguments").read_text()
    assert " -stack 50 -weight-overwrite LM0= 2 -n-best-list " in arguments
    assert arguments.endswith(" 100 distinct")
    for found in read_nbest("lists"):
        total = sum((-2.0, *found.features(0)["RNNsearch0"]))
        assert found.total(0) == pytest.approx(total)


def test_the_number_of_shown_hypotheses_changes_no_translation(folder: Path) -> None:
    (folder / "system.toml").write_text(SYSTEM.replace("nbest_size = 9", "nbest_size = 2"))
    expected = run("translate", "system.toml", "source", "--workers", "1", "--confidence").stdout
    options = ("--workers", "1", "--confidence", "--nbest", "lists", "--nbest-size", "9")
    assert run("translate", "system.toml", "source", *options).stdout == expected
    assert max(found.num_lines for found in read_nbest("lists")) == 2
    # The longer lists have a better hypothesis, which must not be chosen.
    (folder / "system.toml").write_text(SYSTEM)
    longer = run("translate", "system.toml", "source", "--workers", "1", "--confidence")
    assert longer.stdout != expected


@pytest.mark.parametrize("name", ["lm.arpa", "table", "weights", "moses.ini", "rnnsearch"])
def test_a_file_that_the_system_reads_is_not_written_over(folder: Path, name: str) -> None:
    path = folder / name / "model.safetensors" if name == "rnnsearch" else folder / name
    before = path.read_bytes()
    result = run("translate", "system.toml", "source", "--workers", "1", "-o", str(path))
    assert result.exit_code in (1, 2)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('model = "rnnsearch"', 'model = "lstm"', "system.toml: rescore: there is no model"),
        ('["cslm"]', '["rnnsearch"]', "search_models: expected cslm or joint, got"),
        ('"weights"', '"weight"', "system.toml names it: cannot open: No such file"),
        ('"moses.ini"', '"moses"', "moses: system.toml names it: cannot open: No such"),
        ("stack = 30", "stak = 30", "[search] stak: unknown limit; did you mean 'stack'?"),
        ("stack = 30", "stack = -1", "[search] stack: expected at least 0, got -1"),
        ("nbest_size = 9", "nbest_size = 0", "nbest_size: must be at least 1"),
        ("[[rescore]]\nmodel", "[[rescores]]\nmodel", "unknown key 'rescores'"),
        (
            'feature = "unknown_words"',
            "",
            "expected one of model, ctranslate2, command, feature, lm",
        ),
        ('feature = "unknown_words"', 'lm = "none.arpa"', "none.arpa: "),
        (
            'feature = "unknown_words"',
            'feature = "length"',
            "rescore: feature 'length': expected one of",
        ),
        (CONFIDENCE, 'decoder = "moses"', "moses_bin: must be given with decoder"),
        ("slope = 2.0", "slope = 0", "system.toml: [confidence] slope: must be more than 0"),
        ("[search]", '[text]\ntokenize = "fr"\n[search]', "expected the languages of source and"),
        ("[search]", '[text]\ntruecase_source = "no"\n[search]', "no: system.toml names it"),
    ],
)
def test_a_wrong_system_is_refused_with_its_key(
    folder: Path, old: str, new: str, problem: str
) -> None:
    (folder / "system.toml").write_text(SYSTEM.replace(old, new, 1))
    check_refusal(run("translate", "system.toml", "source", "--workers", "1"), problem)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("CSLM0= 0.25\n", "", "weights: no weight for the search's feature CSLM0"),
        ("RNNsearch0= 3\n", "", "no weight for RNNsearch0, a feature of the n-best lists"),
        ("RNNsearch0= 3", "RNNsearch0= 3\nLSTM0= 1", "a weight for LSTM0, a feature that the n-"),
        ("[lists]", "[lists]\nBad0= 1", "a weight for Bad0, a feature that the n-best lists lack"),
        ("TM0= 1 0.25", "TM0= 1", "expected 2 weights for TM0, found 1"),
        ("TM0= 0.5 0.5", "TM0= 1", "weights: expected 2 weights for TM0, found 1"),
        ("RNNsearch0= 3", "RNNsearch0= 3 1", "expected 1 weights for RNNsearch0, found 2"),
        ("TM0= 1 0.25", "TM0= 1 0.25\nLM1= 1", "a weight for LM1, a feature that the search lacks"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    folder: Path, old: str, new: str, problem: str
) -> None:
    (folder / "weights").write_text(WEIGHTS.replace(old, new, 1))
    check_refusal(run("translate", "system.toml", "source", "--workers", "1"), problem)


def test_weights_of_lists_need_the_features_of_lists(folder: Path) -> None:
    (folder / "system.toml").write_text(SYSTEM.partition("[[rescore]]")[0])
    result = run("translate", "system.toml", "source", "--workers", "1")
    check_refusal(result, "a weight for RNNsearch0, a feature that the n-best lists lack")
    check_refusal(run("translate", "moses.ini", "source"), "moses.ini: expected a TOML file")


def test_a_system_translates_from_python(folder: Path) -> None:
    expected = three_commands().decode().splitlines()
    one = phrasescore.Compute(workers=1)
    with phrasescore.load_system(folder / "system.toml", compute=one) as system:
        assert repr(system) == f"<SystemTranslator of {folder / 'system.toml'}>"
        words = ["maison", "xyz", "la", "bleue", "maison"]
        sentences = ["la maison", [], words, "la la maison bleue"]
        found = list(system.translate(sentences, nbest=2, explain=True))
        with pytest.raises(TypeError, match="expected a list of sentences, got the string 'la'"):
            system.translate("la")
        with pytest.raises(ArgumentError, match="nbest: expected a whole number from 0, got -1"):
            list(system.translate(["la"], nbest=-1))
    assert [each.text for each in found] == expected
    assert found[0].words == tuple(expected[0].split())
    assert found[0].confidence is None
    assert found[2].hypotheses[0].words == found[2].text
    with pytest.raises(ArgumentError, match="use it in a with block"):
        list(phrasescore.load_system("system.toml", compute=one).translate(["la"]))
