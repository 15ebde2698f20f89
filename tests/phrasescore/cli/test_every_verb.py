"""Promises of all verbs alike: streams, whole outputs, wrong names, broken files, exit codes."""

import gzip
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import Result

from tests.command_line import check_refusal, run, succeeded
from tests.doubles import RandomCslm, RandomModel
from tests.phrasescore.cli.tune.tune_folder import NBEST, REFERENCES, WEIGHTS
from tests.small_system import INI, LM, TABLE
from tests.tiny_arpa import TINY_ARPA


@dataclass(frozen=True)
class Verb:
    """A command without its output.

    :ivar inputs: files that are read line by line and whose names are words of the command.
    :ivar stream: the one of them that may be stdin; empty where none may be.
    """

    command: str
    inputs: tuple[str, ...]
    stream: str = ""

    def run(self, *options: str, stdin: str = "", data: bytes | None = None) -> Result:
        words = ["-" if word == stdin else word for word in self.command.split()]
        return run(*words, *options, stdin=data)


NETWORK = "--model rnn --threads 1"
VERBS = {
    "annotate": Verb(f"annotate table {NETWORK}", ("table",), "table"),
    "annotate lexicon": Verb("annotate table --lexicon lex", ("table", "lex"), "lex"),
    "rescore": Verb(
        "rescore nbest --source source --column model='rnn',name='A' --threads 1",
        ("nbest", "source"),
        "nbest",
    ),
    "rescore lm": Verb("rescore nbest --source source --lm lm", ("nbest", "source"), "source"),
    "score": Verb(f"score source references {NETWORK}", ("source", "references"), "references"),
    "rerank": Verb("rerank nbest --weights weights", ("nbest", "weights"), "nbest"),
    "translate": Verb("translate moses.ini text --tokenized --workers 1", ("text",), "text"),
    "generate": Verb("generate rnn source --beam 2 --threads 1", ("source",), "source"),
    "segment": Verb(f"segment source --confidence forward {NETWORK}", ("source",), "source"),
    "select": Verb("select source --in-domain lm --general general --lines 1", ("source",)),
    "evaluate": Verb("evaluate source --references references", ("source", "references"), "source"),
    "tune": Verb(
        "tune --lists nbest --references references --weights weights --starts 1 --threads 1",
        ("nbest", "references", "weights"),
        "nbest",
    ),
    "build-lm": Verb("build-lm source --order 2 --discount-fallback", ("source",), "source"),
    "export": Verb("export cslm", ()),
}
READING = [name for name, verb in VERBS.items() if verb.inputs]
STREAMING = [name for name, verb in VERBS.items() if verb.stream]
# The outputs of these are journaled, and a run that was stopped can be resumed.
RESUMABLE = ["annotate", "rescore"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    texts = {
        "table": TABLE,
        "lex": "a p 0.5\n",
        "nbest": NBEST,
        "source": "a b\nb\na\n",
        "references": REFERENCES,
        "weights": WEIGHTS,
        "lm": TINY_ARPA,
        "general": TINY_ARPA.replace("-0.5", "-1.5"),
        "text": "la maison\n\nmaison\n",
        "lm.arpa": LM,
        "moses.ini": INI,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    RandomModel(folder / "rnn", "ab", "pq", seed=6)
    RandomCslm("pq", order=3, self_normalization=0.1, path=folder / "cslm")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "folder"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def assert_refused(result: Result, folder: Path, before: dict[str, bytes], problem: str) -> None:
    """Check that one line was said, exit code 1 given, and no file made or changed."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert problem in line
    assert len(line) < 500
    assert contents(folder) == before


@pytest.mark.parametrize("name", VERBS)
def test_the_output_is_the_same_in_a_file_packed_and_on_stdout(name: str, folder: Path) -> None:
    before, verb = contents(folder), VERBS[name]
    old = folder / "out"
    old.write_bytes(b"older")
    old.chmod(0o600)
    result = verb.run("-o", "out", "-q")
    assert (result.exit_code, result.stdout, old.stat().st_mode & 0o777) == (0, "", 0o600)
    assert "Error" not in result.stderr
    whole = old.read_bytes()
    assert whole not in (b"", b"older")
    assert verb.run().stdout_bytes == verb.run("-o", "-").stdout_bytes == whole
    if name != "export":  # NPLM reads no gzip
        assert verb.run("-o", "out.gz").exit_code == 0
        assert gzip.decompress((folder / "out.gz").read_bytes()) == whole
        (folder / "out.gz").unlink()
    old.unlink()
    assert contents(folder) == before


@pytest.mark.parametrize("name", STREAMING)
def test_an_input_may_be_stdin_and_packed(name: str, folder: Path) -> None:
    verb = VERBS[name]
    succeeded(verb.run("-o", "out"))
    data = (folder / verb.stream).read_bytes()
    for given in (data, gzip.compress(data)):
        succeeded(verb.run("-o", "piped", stdin=verb.stream, data=given))
        found, expected = ((folder / each).read_bytes() for each in ("piped", "out"))
        assert found == expected or name == "evaluate"  # its report may name the file


@pytest.mark.parametrize("name", READING)
def test_an_input_is_not_overwritten_under_any_of_its_names(name: str, folder: Path) -> None:
    verb = VERBS[name]
    (folder / "link").symlink_to(folder / verb.inputs[0])
    os.link(folder / verb.inputs[0], folder / "hard link")
    before = contents(folder)
    for output in (*verb.inputs, "./" + verb.inputs[0], "link", "hard link"):
        assert_refused(verb.run("-o", output), folder, before, "would overwrite another file")
    result = verb.run("-o", "rnn/config.toml")
    assert_refused(result, folder, before, "rnn/config.toml: would overwrite ")


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("", "expected the name of a file to write, found ''"),
        ("nowhere/out", "nowhere/out: cannot write: there is no folder"),
        ("rnn", "rnn: cannot write"),
    ],
)
def test_a_name_that_no_output_can_have_is_refused_before_the_work(
    name: str, folder: Path, output: str, problem: str
) -> None:
    for path in VERBS[name].inputs[:1]:  # which is not read that far
        with (folder / path).open("ab") as file:
            file.write(b"\xff\n")
    assert_refused(VERBS[name].run("-o", output), folder, contents(folder), problem)


@pytest.mark.parametrize(
    ("name", "path"), [(name, path) for name in READING for path in VERBS[name].inputs]
)
def test_an_input_that_cannot_be_read_is_one_line_and_leaves_the_older_output(
    name: str, path: str, folder: Path
) -> None:
    verb, given = VERBS[name], folder / path
    (folder / "out").write_bytes(b"older")
    data = given.read_bytes()
    *lines, _ = data.splitlines(keepends=True)
    given.write_bytes(b"".join(lines) + b"\xff ||| \xff ||| 1 1 1 1\n")
    problem = f"{path}:{len(lines) + 1}: "
    assert_refused(verb.run("-o", "out"), folder, contents(folder), problem)
    given.write_bytes(gzip.compress(data)[:-9])
    assert_refused(verb.run("-o", "out"), folder, contents(folder), path)
    given.unlink()
    problem = f"{path}: cannot open: No such file or directory"
    assert_refused(verb.run("-o", "out"), folder, contents(folder), problem)


@pytest.mark.parametrize("name", [name for name in READING if len(VERBS[name].inputs) > 1])
def test_two_inputs_cannot_share_stdin(name: str, folder: Path) -> None:
    words = VERBS[name].command.split()
    for path in VERBS[name].inputs:
        words[words.index(path)] = "-"
    result = run(*words, "-o", "out")
    assert (result.exit_code, (folder / "out").exists()) == (2, False)
    assert "two files cannot share stdin" in result.stderr


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", RESUMABLE)
def test_a_stream_cannot_be_resumed(name: str) -> None:
    for output in ([], ["-o", "-"]):
        check_refusal(
            VERBS[name].run("--resume", *output),
            "--resume needs --output FILE: a stream cannot be resumed",
            2,
        )
    result = VERBS[name].run("--resume", "-o", "out")
    assert (result.exit_code, "there is nothing to resume" in result.stderr) == (0, True)


@pytest.mark.parametrize("name", [name for name in VERBS if "rnn" in VERBS[name].command])
def test_a_model_that_is_not_whole_is_refused(name: str, folder: Path) -> None:
    (folder / "rnn" / "target.vocab").unlink()
    problem = "rnn: not a whole model: target.vocab is missing"
    assert_refused(VERBS[name].run("-o", "out"), folder, contents(folder), problem)
