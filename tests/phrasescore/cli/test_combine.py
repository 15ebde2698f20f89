"""``phrasescore combine`` as a user meets it."""

import gzip
from pathlib import Path

import pytest

from tests.command_line import check_refusal, run, succeeded
from tests.doubles import RandomModel

DECODER = """\
0 ||| a b ||| LM0= -1 ||| -1
0 ||| a ||| LM0= -2 ||| -2
1 ||| b ||| LM0= -3 ||| -3
"""
NETWORK = """\
0 ||| a b ||| RNN0= -1 ||| -1
1 ||| c ||| RNN0= -2 ||| -2
1 ||| b b ||| RNN0= -3 ||| -3"""
COMBINED = """\
0 ||| a b ||| LM0= -1 Made0= 1 Made1= 1 ||| -1
0 ||| a ||| LM0= -2 Made0= 1 Made1= 0 ||| -2
1 ||| b ||| LM0= -3 Made0= 1 Made1= 0 ||| -3
1 ||| c ||| LM0= -3 Made0= 0 Made1= 1 ||| -3
1 ||| b b ||| LM0= -3 Made0= 0 Made1= 1 ||| -3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the lists, where the command runs."""
    monkeypatch.chdir(tmp_path)
    Path("decoder").write_text(DECODER)
    Path("network").write_text(NETWORK)
    return tmp_path


def test_the_union_of_each_sentence_is_written_and_what_was_done_is_said() -> None:
    result = run("combine", "decoder", "network", "-o", "out.gz")
    assert (result.exit_code, result.stdout) == (0, "")
    assert gzip.decompress(Path("out.gz").read_bytes()).decode() == COMBINED
    for line in (
        "Made0: 3 hypotheses of decoder",
        "Made1: 2 hypotheses of network",
        "hypotheses that lack these features got the decoder's values: LM0",
        "left out, because the first file lacks them: RNN0; rescore adds them to all files",
    ):
        assert f"phrasescore: {line}\n" in result.stderr


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("0 ||| a ||| RNN0= -1 ||| -1\n", "network: ends before id 1, which decoder has"),
        (NETWORK + "\n2 ||| a ||| RNN0= -1 ||| -1\n", "decoder: ends before id 2, which network"),
        (
            "0 ||| a ||| RNN0= -1 ||| -1\n2 ||| a ||| RNN0= -1 ||| -1\n",
            "network:2: expected id 1, which decoder has, found 2",
        ),
        ("1 ||| a ||| RNN0= -1 ||| -1\n", "network:1: expected id 0, which decoder has, found 1"),
        (
            "0 ||| a ||| LM0= -1 -2 ||| -1\n",
            "network:1: expected 1 values for LM0 as in decoder, f",
        ),
        ("0 ||| a b ||| LM0= -1 Made1= 0 ||| -1\n", "network:1: has the feature Made1 already"),
        ("0 ||| a ||| RNN0= nan ||| -1\n", "network:1: expected a number, found 'nan'"),
        ("", "network: expected an n-best list, found no lines"),
    ],
)
def test_lists_that_do_not_go_together_are_refused_and_nothing_is_written(
    network: str, message: str
) -> None:
    Path("network").write_text(network.replace("||| a |||", "||| x |||"))
    check_refusal(run("-q", "combine", "decoder", "network", "-o", "out"), f"Error: {message}")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("lists", "message"),
    [(["decoder"], "lists: expected at least two"), ([], "Missing argument 'NBEST...'")],
)
def test_fewer_than_two_lists_are_refused(lists: list[str], message: str) -> None:
    check_refusal(run("combine", *lists), message, 2)


def test_votes_are_features_that_tune_and_rerank_take() -> None:
    succeeded(run("combine", "decoder", "network", "--votes", "-o", "voted"))
    lines = Path("voted").read_text().splitlines()
    votes = "Votes0= 1 NgramVotes1= 1 NgramVotes2= 0 NgramVotes3= 0 NgramVotes4= 0"
    assert lines[1] == f"0 ||| a ||| LM0= -2 Made0= 1 Made1= 0 {votes} ||| -2"
    check_refusal(
        run("combine", "voted", "network", "--votes", "-o", "again"), "voted:1: has the feature "
    )
    Path("weights").write_text("LM0= 1\n")
    Path("references").write_text("a\nb b\n")
    words = ["voted", "--references", "references", "--weights", "weights", "-o", "tuned"]
    succeeded(run("tune", *words))
    assert "NgramVotes2= " in Path("tuned").read_text()
    Path("by-votes").write_text("NgramVotes1= 1\n")
    words = ["voted", "--weights", "by-votes", "--ignore-unweighted", "-o", "reranked"]
    succeeded(run("rerank", *words))
    # "b" of the decoder's best hypothesis votes twice for "b b"; nothing votes for "b" or "c".
    assert Path("reranked").read_text() == "a b\nb b\n"


@pytest.mark.usefixtures("one_thread")
def test_the_networks_own_hypotheses_can_be_scored_tuned_and_chosen() -> None:
    """The whole chain; the references are what the network makes, and the decoder lacks."""
    RandomModel(Path("model"), "uvw", "abcd", seed=6)
    Path("text").write_text("u v\nw\n")
    Path("weights").write_text("LM0= 1\n")
    for command in (
        "generate model text --no-unknown --beam 3 --nbest network 3 -o references --threads 1",
        "combine decoder network -o combined",
        "rescore combined --source text --model model --threads 1 -o rescored",
        "tune rescored --references references --weights weights --method xbleu -o tuned",
        "rerank rescored --weights tuned -o reranked",
        "evaluate reranked --references references --nbest rescored",
    ):
        succeeded(run(*command.split()))
    assert Path("reranked").read_text() == Path("references").read_text()
