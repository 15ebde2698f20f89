"""``phrasescore rerank`` as a user meets it."""

import gzip
from pathlib import Path

import pytest
from click.testing import Result

from tests.command_line import check_refusal, run

NBEST = """\
0 ||| la maison  ||| LM0= -2 LSTM0= -9 ||| -3.5 ||| 0-0
0 ||| le maison  ||| LM0= -3 LSTM0= -6 ||| -4 ||| 0-0 1-1
0 ||| la  maison ||| LM0= -3 LSTM0= -6 ||| -4.0
1 ||| \u00e9tait  ||| LM0= -1 LSTM0= -1 ||| -1
"""
WEIGHTS = "LM0= 1\nLSTM0= 0.5\n"


class Folder:
    """A folder with an n-best list and weights, where the command runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nbest = path / "nbest"
        self.weights = path / "weights"
        self.nbest.write_text(NBEST, encoding="utf-8")
        self.weights.write_text(WEIGHTS, encoding="utf-8")

    def run(self, *options: str) -> Result:
        return run("-q", "rerank", self.nbest, *options)

    def weighted(self, *options: str) -> Result:
        return self.run("--weights", str(self.weights), *options)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_the_best_of_each_list_is_a_line_of_text(folder: Folder) -> None:
    # Sums: -6.5, -6, -6, -1.5: of the two that are equal the first.
    result = folder.weighted()
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "le maison\nétait\n"


def test_lists_in_their_new_order_change_nothing_but_the_total(folder: Folder) -> None:
    output = folder.path / "out.gz"
    result = folder.weighted("--nbest", str(output))
    assert (result.exit_code, result.stdout) == (0, folder.weighted().stdout)
    assert gzip.decompress(output.read_bytes()).decode() == (
        "0 ||| le maison  ||| LM0= -3 LSTM0= -6 ||| -6 ||| 0-0 1-1\n"
        "0 ||| la  maison ||| LM0= -3 LSTM0= -6 ||| -6\n"
        "0 ||| la maison  ||| LM0= -2 LSTM0= -9 ||| -6.5 ||| 0-0\n"
        "1 ||| était  ||| LM0= -1 LSTM0= -1 ||| -1.5\n"
    )


def test_a_list_of_one_and_an_empty_hypothesis_are_as_good_as_any(folder: Folder) -> None:
    folder.nbest.write_text("0 |||  ||| LM0= -1 ||| 0\n1 ||| ||| LM0= -1 ||| 0\n")
    folder.weights.write_text("LM0= 1\n")
    assert folder.weighted().stdout == "\n\n"


def test_how_many_lists_changed_is_said(folder: Folder) -> None:
    arguments = ["rerank", str(folder.nbest), "--weights", str(folder.weights)]
    result = run(*arguments)
    assert "the best hypothesis changed in 1 of 2 sentences" in result.stderr


def test_the_same_text_in_another_place_is_no_other_best_hypothesis(folder: Folder) -> None:
    folder.nbest.write_text("0 ||| a ||| LM0= -2 ||| 0\n0 ||| a ||| LM0= -1 ||| 0\n")
    folder.weights.write_text("LM0= 1\n")
    arguments = ["rerank", str(folder.nbest), "--weights", str(folder.weights)]
    assert "changed in 0 of 1 sentences" in run(*arguments).stderr


def test_a_missing_list_is_an_error_unless_a_line_may_be_empty(folder: Folder) -> None:
    folder.nbest.write_text("1 ||| a ||| A= 1 ||| 1\n4 ||| b ||| A= 1 ||| 1\n")
    folder.weights.write_text("A= 1\n")
    result = folder.weighted()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: {folder.nbest}:1: expected id 0, found 1: a sentence has no hypotheses "
        "(--allow-missing writes an empty line)\n"
    )
    assert folder.weighted("--allow-missing").stdout == "\na\n\n\nb\n"
    lists = folder.path / "lists"
    assert folder.weighted("--allow-missing", "--nbest", str(lists)).exit_code == 0
    assert lists.read_text() == "1 ||| a ||| A= 1 ||| 1\n4 ||| b ||| A= 1 ||| 1\n"


def test_features_and_weights_that_do_not_match_are_named(folder: Folder) -> None:
    folder.weights.write_text("LM0= 1\nGone0= 1\n")
    result = folder.weighted()
    assert (result.exit_code, result.stdout) == (1, "")
    assert "these features have no weight: LSTM0" in result.stderr
    folder.weights.write_text("LM0= 1\nLSTM0= 0\nGone0= 1\n")
    result = folder.weighted()
    assert result.exit_code == 1
    assert "lacks features that have weights: Gone0" in result.stderr
    folder.weights.write_text("LM0= 1\nLSTM0= 0\nGone_a= 1\n")  # a sparse feature
    result = folder.weighted()
    assert (result.exit_code, result.stdout) == (0, "la maison\nétait\n")
    warning = "phrasescore: warning: no hypothesis has these features, which have weights: Gone_a\n"
    assert result.stderr == warning


def test_weights_are_required(folder: Folder) -> None:
    check_refusal(folder.run(), "Missing option '--weights'", 2)


def test_the_decoder_s_own_weights_give_the_decoder_s_own_best(
    shared_data: Path, tmp_path: Path
) -> None:
    with gzip.open(shared_data / "test_2016_flickr.1000best.gz", "rb") as lists:
        head = b"".join(next(lists) for _ in range(20_000))
    nbest = tmp_path / "nbest"
    nbest.write_bytes(head)
    arguments = ["-q", "rerank", str(nbest), "--weights", str(shared_data / "moses.tuned.ini")]
    result = run(*arguments)
    first: dict[str, str] = {}
    for line in head.decode().splitlines():
        fields = line.split("|||")
        first.setdefault(fields[0], fields[1].strip())
    assert result.stdout.split("\n")[:-1] == list(first.values())


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ("LM0= 0\nLSTM0= 0\n", ": expected weights that are not all zero"),
        ("LM0= 0\nLSTM0= 0\nGone_a= 1\n", ", of features that the lists have: expected weights"),
        ("LM0= 1e-40\nLSTM0= 1e-41\n", ": expected a largest weight between 1e-30 and 1e+30"),
    ],
)
def test_weights_that_cannot_choose_are_refused(folder: Folder, weights: str, problem: str) -> None:
    folder.weights.write_text(weights)
    output = folder.path / "out"
    check_refusal(folder.weighted("-o", str(output)), f"Error: {folder.weights}{problem}")
    assert not output.exists()
