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


def test_the_even_average_may_choose_otherwise(folder: Folder) -> None:
    # (-3.5 - 9) / 2 = -6.25, (-4 - 6) / 2 = -5
    assert folder.run("--average", "LSTM0").stdout == "le maison\nétait\n"
    # (-3.5 - 2) / 2 = -2.75, (-4 - 3) / 2 = -3.5
    assert folder.run("--average", "LM0").stdout == "la maison\nétait\n"
    # (-3.5 - 2 - 9) / 3 = -4.83, (-4 - 3 - 6) / 3 = -4.33
    assert folder.run("--average", "LM0", "--average", "LSTM0").stdout.startswith("le ")


def test_an_average_in_which_one_score_decides_is_warned_of(folder: Folder) -> None:
    def said(total: str, value: str) -> str:
        folder.nbest.write_text(
            f"0 ||| a ||| LSTM0= {value} ||| {total}\n0 ||| b ||| LSTM0= -6 ||| -4\n"
            "1 ||| c ||| LSTM0= -1 ||| -1\n"
        )
        return folder.run("--average", "LSTM0").stderr

    # A list of two has half of their distance as its deviation, and here that is divided by the
    # square root of 2, of a second list without any: 0.18 and 1.1, then 0.014 and 1.1.
    assert said("-3.5", "-9") == ""
    assert said("-3.96", "-9") == (
        "phrasescore: warning: LSTM0 dominates the average: its deviation within a list "
        "is 1.1, and 0.014 for the decoder's total; `phrasescore tune` finds a weight for each\n"
    )
    assert "warning: the decoder's total dominates the average" in said("-3.5", "-6.01")


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
    result = folder.run("--average", "A")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: {folder.nbest}:1: expected id 0, found 1: a sentence has no hypotheses "
        "(--allow-missing writes an empty line)\n"
    )
    assert folder.run("--average", "A", "--allow-missing").stdout == "\na\n\n\nb\n"
    lists = folder.path / "lists"
    assert folder.run("--average", "A", "--allow-missing", "--nbest", str(lists)).exit_code == 0
    assert lists.read_text() == "1 ||| a ||| A= 1 ||| 1\n4 ||| b ||| A= 1 ||| 1\n"


def test_lists_missing_at_the_end_are_seen_where_the_number_is_known(folder: Folder) -> None:
    assert folder.weighted("--num-sentences", "2").exit_code == 0
    result = folder.weighted("--num-sentences", "4")
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {folder.nbest}: expected lists of 4 sentences, found 2 "
        "(--allow-missing writes an empty line)\n"
    )
    result = folder.weighted("--num-sentences", "4", "--allow-missing")
    assert result.stdout == "le maison\nétait\n\n\n"
    result = folder.weighted("--num-sentences", "1")
    assert result.stderr == f"Error: {folder.nbest}:4: expected lists of 1 sentences, found id 1\n"


def test_features_and_weights_that_do_not_match_are_named(folder: Folder) -> None:
    folder.weights.write_text("LM0= 1\nGone0= 1\n")
    result = folder.weighted()
    assert (result.exit_code, result.stdout) == (1, "")
    assert "these features have no weight: LSTM0" in result.stderr
    result = folder.weighted("--ignore-unweighted")
    assert result.exit_code == 1
    assert "lacks features that have weights: Gone0" in result.stderr
    result = folder.weighted("--ignore-unweighted", "--ignore-missing")
    assert (result.exit_code, result.stdout) == (0, "la maison\nétait\n")
    warning = "phrasescore: warning: no hypothesis has these features, which have weights: Gone0\n"
    assert result.stderr == warning


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected either --weights or --average"),
        (["--weights", "w", "--average", "a"], "expected either --weights or --average"),
        (["--average", "a", "--ignore-missing"], "require --weights"),
    ],
)
def test_options_that_do_not_go_together_are_a_usage_error(
    folder: Folder, options: list[str], message: str
) -> None:
    check_refusal(folder.run(*options), message, 2)


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
        (
            "LM0= 1e-40\nLSTM0= 1e-41\n",
            ": expected a largest weight between 1e-30 and 1e+30, found 1e-4",
        ),
        ("LM0= 1\nLSTM0= 1\nWordScores= 1\n", ": expected no weight for WordScores, which has a"),
    ],
)
def test_weights_that_cannot_choose_are_refused(folder: Folder, weights: str, problem: str) -> None:
    folder.weights.write_text(weights)
    output = folder.path / "out"
    check_refusal(folder.weighted("-o", str(output)), f"Error: {folder.weights}{problem}")
    assert not output.exists()
