"""``--scores`` of ``rescore`` and ``annotate``: scores of another program as a feature."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from numpy.typing import NDArray

import phrasescore
from phrasescore.errors import ArgumentError, ConfigError
from phrasescore.features.columns import Column
from phrasescore.features.given_scores import GivenScores, ScoreLines
from phrasescore.features.model import Network
from phrasescore.io.text import InputLines
from phrasescore.systems.system import read_system
from tests.command_line import check_refusal, column_options, run, succeeded
from tests.doubles import RandomModel
from tests.random_lists import SOURCE_WORDS, TARGET_WORDS, Lists, features
from tests.random_tables import make_table

LINES = 300


def values(count: int) -> list[float]:
    return [-(37 * place % 101) / 8 for place in range(count)]


def write(path: Path, numbers: list[float]) -> Path:
    text = "".join(f"{number}\n" for number in numbers).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lists:
    """Random lists of many equal hypotheses, in chunks of two lists."""
    monkeypatch.setattr("phrasescore.workflows.rescore.CHUNK_LISTS", 2)
    monkeypatch.chdir(tmp_path)
    return Lists(tmp_path, sentences=10, size=LINES // 10)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("phrasescore.io.text.BLOCK_SIZE", 1024)
    monkeypatch.setattr("phrasescore.workflows.annotate.CHUNK_LINES", 50)
    monkeypatch.setattr("phrasescore.systems.scoring.BLOCK_SIZE", {"cpu": 50})
    monkeypatch.chdir(tmp_path)
    return make_table(tmp_path / "table", LINES)


def rescore(lists: Lists, *arguments: object, stdin: bytes | None = None) -> Result:
    return run("rescore", lists.path, "--source", lists.source, *arguments, stdin=stdin)


# rescore


def test_each_line_gets_its_own_number_between_the_other_features(
    tmp_path: Path, lists: Lists
) -> None:
    model = RandomModel(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS)
    write(tmp_path / "a=b.gz", values(LINES))
    write(tmp_path / "other", values(LINES)[::-1])
    network = column_options(Network(str(model.path), name="Net"))
    options = ["--scores", "a=b.gz=Marian", *network, "--scores", "other=QE0"]
    result = succeeded(rescore(lists, *options, "-o", "out"))
    found = features(Path("out"))
    assert list(found[0]) == ["LM0", "Marian", "Net", "QE0"]
    assert [each["Marian"][0] for each in found] == values(LINES)
    assert [each["QE0"][0] for each in found] == values(LINES)[::-1]
    assert "Marian: 300 scores from a=b.gz" in result.stderr
    # The network's values are those without the scores.
    rescore(lists, "--model", model.path, "-o", "alone")
    assert [each["Net"] for each in found] == [
        each["EncoderDecoder0"] for each in features(Path("alone"))
    ]


def test_scores_from_stdin_and_lists_from_stdin_give_the_same_lines(
    tmp_path: Path, lists: Lists
) -> None:
    path = write(tmp_path / "scores", values(LINES))
    assert rescore(lists, "--scores", "scores=QE", "-o", "out").exit_code == 0
    piped = rescore(lists, "--scores", "-=QE", stdin=path.read_bytes())
    assert piped.stdout_bytes == Path("out").read_bytes()
    arguments = ("rescore", "-", "--source", lists.source, "--scores", "scores=QE")
    assert run(*arguments, stdin=Path(lists.path).read_bytes()).stdout_bytes == piped.stdout_bytes


def stopped(line: int, *arguments: object) -> Result:
    of = ScoreLines.of

    def interrupted(scores: ScoreLines, lines: InputLines) -> NDArray[np.float64]:
        if lines.before >= line:
            raise KeyboardInterrupt
        return of(scores, lines)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScoreLines, "of", interrupted)
        return run(*arguments)


@pytest.mark.parametrize("verb", ["rescore", "annotate"])
def test_a_run_that_was_stopped_goes_on_with_the_same_scores_alone(
    tmp_path: Path, lists: Lists, table: Path, verb: str
) -> None:
    command: list[object] = ["annotate", table, "--scores", "scores"]
    if verb == "rescore":
        command = ["rescore", lists.path, "--source", lists.source, "--scores", "scores=QE"]
    command += ["--feature", "number_mismatch"]
    write(tmp_path / "scores", values(LINES))
    assert stopped(200, *command, "-o", "out").exit_code == 130
    write(tmp_path / "scores", values(LINES)[::-1])
    name = "QE" if verb == "rescore" else "scores "
    problem = f"started with another value for feature 1 ({name}"
    check_refusal(run(*command, "-o", "out", "--resume"), problem)
    write(tmp_path / "scores", values(LINES))
    result = run(*command, "-o", "out", "--resume")
    assert (result.exit_code, "continuing after line " in result.stderr) == (0, True)
    assert Path("out").read_bytes() == run(*command).stdout_bytes


@pytest.mark.parametrize("value", ["scores", "=QE", "scores=", "scores=Q_E", "scores=0"])
def test_scores_of_lists_need_a_name_that_moses_takes(
    tmp_path: Path, lists: Lists, value: str
) -> None:
    write(tmp_path / "scores", values(LINES))
    result = rescore(lists, "--scores", value)
    assert (result.exit_code, result.stdout) == (2, "")
    expected = "feature name" if value.startswith("scores=") and value[7:] else "expected FILE=NAME"
    assert expected in result.stderr


# annotate


def added(path: Path, how_many: int) -> list[list[float]]:
    scores = [
        line.split(b" ||| ")[2].split()[-how_many:] for line in path.read_bytes().splitlines()
    ]
    return [[math.log(float(score)) for score in line] for line in scores]


def test_each_line_of_a_table_gets_exp_of_its_number_between_the_other_columns(
    tmp_path: Path, table: Path
) -> None:
    write(tmp_path / "one.gz", values(LINES))
    write(tmp_path / "two", [88.0, -200.0, *values(LINES)[2:]])
    options = ["--scores", "one.gz", "--feature", "number_mismatch", "--scores", "two"]
    result = succeeded(run("annotate", table, *options, "-o", "out"))
    first, middle, last = zip(*added(Path("out"), 3), strict=True)
    assert first == pytest.approx(values(LINES), abs=1e-6)
    assert set(middle) == {0.0}
    # Moses floors at -100, where float32 is coarse; above 88, exp is infinite to it.
    assert last[:2] == pytest.approx((88.0, -100.0), abs=0.1)
    assert last[2:] == pytest.approx(values(LINES)[2:], abs=1e-6)
    messages = result.stderr.splitlines()[-4:-1]
    assert [messages[0], messages[2]] == [
        "phrasescore: 300 scores from one.gz",
        "phrasescore: 300 scores from two",
    ]


def test_tables_and_scores_may_be_streams(tmp_path: Path, table: Path) -> None:
    path = write(tmp_path / "scores", values(LINES))
    whole = run("annotate", table, "--scores", "scores").stdout_bytes
    assert run("annotate", table, "--scores", "-", stdin=path.read_bytes()).stdout_bytes == whole
    assert run("annotate", "-", "--scores", path, stdin=table.read_bytes()).stdout_bytes == whole
    check_refusal(run("annotate", "-", "--scores", "-"), "two files cannot share stdin", 2)


def test_scores_of_the_whole_table_go_with_the_lines_that_a_text_needs(
    tmp_path: Path, table: Path
) -> None:
    write(tmp_path / "scores", values(LINES))
    columns = ["--feature", "number_mismatch", "--scores", "scores"]
    whole = run("annotate", table, *columns).stdout_bytes.splitlines(keepends=True)
    (tmp_path / "text").write_text("la la\nmaison rue\n")
    kept = run("annotate", table, *columns, "--for", "text").stdout_bytes
    sources = [f"{source} ".encode() for source in ("la", "maison", "rue", "la la", "maison rue")]
    wanted = [line for line in whole if line.partition(b"|||")[0] in sources]
    assert 0 < len(wanted) < LINES
    assert kept == b"".join(wanted)


def test_a_number_that_no_table_can_hold_is_refused(tmp_path: Path, table: Path) -> None:
    write(tmp_path / "scores", [*values(10), 88.5, *values(289)])
    result = run("annotate", table, "--scores", "scores", "-o", "out")
    assert (result.exit_code, Path("out").exists()) == (1, False)
    problem = "expected a natural logarithm of at most 88, found '88.5'"
    assert result.stderr == f"Error: scores:11: {problem}\n"


# Both


BAD = [
    (["1", "nan"], "scores:2: expected a number, found 'nan'"),
    (["-inf"], "scores:1: expected a number, found '-inf'"),
    (["1", "0,5"], "scores:2: expected a number, found '0,5'"),
    (["1", "2", "1 2"], "scores:3: expected a number, found '1 2'"),
    (["1", ""], "scores:2: expected a number, found ''"),
    (["-1e39"], "scores:1: expected a number, found '-1e39'"),
    (["-0.5"] * 299, "scores:300: expected 300 scores, one per line of INPUT, found 299"),
    (["-.5"] * 302, "scores:301: expected 300 scores, one per line of INPUT, found 302"),
    ([], "scores:1: expected 300 scores, one per line of INPUT, found 0"),
]


@pytest.mark.parametrize(("lines", "message"), BAD)
def test_bad_scores_are_one_line_with_their_place_and_leave_no_file(
    tmp_path: Path, lists: Lists, table: Path, lines: list[str], message: str
) -> None:
    (tmp_path / "scores").write_text("".join(f"{line}\n" for line in lines))
    there = sorted(tmp_path.iterdir())
    of_lists = ["--source", lists.source, "--scores", "scores=QE", "-o", "out"]
    of_table = ["--scores", "scores", "-o", "out"]
    for verb, path, options in (
        ("rescore", lists.path, of_lists),
        ("annotate", str(table), of_table),
    ):
        result = run(verb, path, *options)
        expected = message.replace("INPUT", path)
        assert (result.exit_code, result.stderr) == (1, f"Error: {expected}\n")
        piped = run(verb, "-", *options, stdin=Path(path).read_bytes())
        expected = message.replace("INPUT", "<stdin>")
        assert (piped.exit_code, piped.stderr) == (1, f"Error: {expected}\n")
        assert sorted(tmp_path.iterdir()) == there


def test_from_python_scores_need_a_name_for_lists_and_no_decoder(tmp_path: Path) -> None:
    scores: list[Column | str] = [GivenScores("scores")]
    with pytest.raises(ArgumentError, match="a name is required for n-best lists"):
        phrasescore.rescore("nbest", "source", scores, "out")
    named: list[Column | str] = [GivenScores("scores", name="QE")]
    (tmp_path / "system.toml").write_text(
        'moses_ini = "moses.ini"\nlists = [{ scores = "scores", name = "QE" }]'
    )
    with pytest.raises(ConfigError, match="a file of scores belongs to lists that exist"):
        read_system(tmp_path / "system.toml")
    with pytest.raises(ArgumentError, match="only for tables and n-best lists"):
        phrasescore.score("source", "target", named, "out")
