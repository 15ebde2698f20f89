"""``phrasescore select``: which lines are kept, that pairs stay together, and what is refused."""

import gzip
import os
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from phrasescore.cli import main
from phrasescore.workflows import select
from tests.command_line import check_refusal
from tests.phrasescore.language_models.test_selection import unigrams

# "sea" is worth most and "law" least; "dog" is worth the same to both models.
SOURCE = ["law law", "sea", "dog sea", "dog", "law dog"]
TARGET = ["loi loi", "mer\u00a0", "chien  mer\r", "chien", "loi chien"]


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "en").write_bytes("".join(f"{line}\n" for line in SOURCE).encode())
    (tmp_path / "fr").write_bytes("".join(f"{line}\n" for line in TARGET).encode())
    unigrams(tmp_path / "in.en", {"sea": -0.5, "dog": -1, "law": -3})
    unigrams(tmp_path / "all.en", {"sea": -2, "dog": -1, "law": -0.5})
    unigrams(tmp_path / "in.fr", {"chien": -0.5, "mer": -2, "loi": -2})
    unigrams(tmp_path / "all.fr", {"chien": -3, "mer": -2, "loi": -2})
    return tmp_path


def run(arguments: str) -> Result:
    return CliRunner().invoke(main, ["select", *arguments.split()])


MODELS = "--in-domain in.en --general all.en"
BOTH = f"{MODELS} --in-domain-target in.fr --general-target all.fr"


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        ("--lines 1", [1]),
        ("--lines 2", [1, 2]),
        ("--share 0.6", [1, 2, 3]),
        ("--share 0.01", [1]),
        ("--share 1", [0, 1, 2, 3, 4]),
        ("--lines 100", [0, 1, 2, 3, 4]),
        # "dog" has 0, which is not below 0.
        ("--threshold 0", [1, 2]),
        ("--threshold 0.001", [1, 2, 3]),
    ],
)
@pytest.mark.usefixtures("texts")
def test_the_best_lines_are_kept_in_their_order(limit: str, kept: list[int]) -> None:
    result = run(f"en {MODELS} {limit} -q")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [SOURCE[place] for place in kept]


def test_pairs_stay_together_byte_for_byte(texts: Path) -> None:
    result = run(f"en fr {MODELS} --lines 2 -o out.gz --target-output out.fr")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "kept 2 of 5 lines" in result.stderr
    assert gzip.decompress((texts / "out.gz").read_bytes()).decode() == "sea\ndog sea\n"
    assert (texts / "out.fr").read_bytes() == "mer\u00a0\nchien  mer\r\n".encode()


def differences(arguments: str) -> list[float]:
    """Return the difference of each line, from which a command chooses."""
    with patch.object(select, "choose_best", side_effect=select.choose_best) as choosing:
        assert run(arguments).exit_code == 0
    values: list[float] = choosing.call_args.args[0].tolist()
    return values


@pytest.mark.usefixtures("texts")
def test_the_differences_of_both_sides_add_up() -> None:
    lists = {}
    for name, models in (
        ("source", MODELS),
        ("target", "--in-domain-target in.fr --general-target all.fr"),
        ("both", BOTH),
    ):
        files = "-o o.en --target-output o.fr"
        lists[name] = differences(f"en fr {models} --share 1 {files}")
    sums = [one + other for one, other in zip(lists["source"], lists["target"], strict=True)]
    assert lists["both"] == pytest.approx(sums, abs=1e-12)
    # By hand: "dog" + </s> is equal to both on one side, and (0.5 - 3) / 2 on the other.
    assert lists["both"][3] == pytest.approx(-2.5 / 2 * 2.302585, rel=1e-6)


@pytest.mark.usefixtures("texts")
def test_blocks_and_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changes:
        changes.setattr(os, "fork", None)  # one process is this one
        changes.setattr(select, "usable_threads", lambda _: 1)
        one = differences(f"en {MODELS} --lines 3")
    monkeypatch.setattr(select, "_LINES", 2)
    monkeypatch.setattr(select, "usable_threads", lambda _: 2)
    assert differences(f"en {MODELS} --lines 3") == one


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (f"en {MODELS}", "expected exactly one of --share, --lines and --threshold"),
        (f"en {MODELS} --share 0.5 --lines 1", "expected exactly one of --share, --lines and"),
        ("en --lines 1", "expected --in-domain and --general"),
        ("en --in-domain in.en --lines 1", "--in-domain and --general must be given together"),
        (f"en {BOTH} --lines 1", "and --general-target require a target text"),
        (f"en fr {MODELS} --lines 1", "and --target-output must be given together"),
        (f"en {MODELS} --lines 1 --target-output x", "a target text and --target-output must be g"),
        (f"- {MODELS} --lines 1", "a text is read twice and cannot be stdin"),
        (f"pipe {MODELS} --lines 1", "a text is read twice and cannot be stdin or another stream"),
        ("en --in-domain in.en --general ./in.en --lines 1", "--general are the same file"),
        (f"en en {BOTH} --lines 1 --target-output o", "text and target are the same file"),
    ],
)
@pytest.mark.usefixtures("texts")
def test_a_command_line_that_says_too_little_or_too_much_is_refused(
    arguments: str, problem: str
) -> None:
    os.mkfifo("pipe")
    check_refusal(run(arguments), problem, 2)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (f"en {MODELS} --threshold -9", "no line has a difference below -9; the lowest is -1.72"),
        (f"en fr {MODELS} --lines 1 -o o --target-output o", "o: would overwrite another file"),
        (f"en {MODELS} --lines 1 -o in.en", "in.en: would overwrite another file"),
        # Before the texts are scored: the line that is bad is not reached.
        (f"bad {MODELS} --lines 1 -o no/s", "no/s: cannot write: there is no folder"),
        ("en --in-domain none --general all.en --lines 1", "none: cannot open"),
        ("en --in-domain fr --general all.en --lines 1", "fr:1: expected an ARPA file"),
        (f"empty {MODELS} --lines 1", "empty: expected a tokenised text, found no word"),
        (f"en short {MODELS} --lines 1 --target-output o", "short:2: expected as many lines as en"),
        (f"bad {MODELS} --lines 1", "bad:2: "),
    ],
)
def test_bad_input_is_named_and_leaves_no_file(texts: Path, arguments: str, problem: str) -> None:
    (texts / "empty").write_bytes(b"\n\n")
    (texts / "short").write_bytes(b"one\n")
    (texts / "bad").write_bytes(b"one\n\xff\n")
    before = {path: path.read_bytes() for path in texts.iterdir()}
    if " -o" not in arguments:
        arguments += " -o out"
    result = run(f"{arguments}")
    assert result.exit_code == 1
    assert problem in result.stderr.splitlines()[-1]
    assert {path: path.read_bytes() for path in texts.iterdir()} == before


def test_a_text_that_changes_while_it_is_read_is_noticed(
    texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_best = select.choose_best

    def choose_later(values: "select.Floats", count: int) -> "select.Flags":
        with (texts / "en").open("ab") as file:
            file.write(b"one more\n")
        return choose_best(values, count)

    monkeypatch.setattr(select, "choose_best", choose_later)
    check_refusal(
        run(f"en {MODELS} --lines 1 -o out"), "en: has changed during the run: 5 lines, then 6"
    )
    assert not (texts / "out").exists()
