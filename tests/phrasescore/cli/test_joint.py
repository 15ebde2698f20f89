"""A joint model on the command line: ``train joint``, ``rescore``, and what they refuse."""

from pathlib import Path

import pytest
from click.testing import Result

import phrasescore
from moses_integration.nbest import read_nbest
from phrasescore.errors import ModelError
from phrasescore.features.model import Network
from phrasescore.records import HypothesisList
from phrasescore.settings.compute import Compute
from tests.command_line import check_refusal, column_options, run, succeeded
from tests.doubles import RandomCslm, RandomJoint

TINY = [
    "--set=model.embedding_size=8",
    "--set=model.hidden_size=16",
    "--set=model.upper_size=0",
    "--set=model.source_window=0",
    "--set=model.dropout=0",
    "--set=training.learning_rate=0.03",
    "--set=training.batch_size=8",
    "--threads=1",
    "--device=cpu",
]
WORDS = ["the", "house", "home"]


@pytest.fixture(name="text")
def written_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sources = [[str((i * k) % 7) for k in range(1, 3 + i % 3)] for i in range(80)]
    targets = [[f"t{word}" for word in reversed(words)] for words in sources]
    links = [[f"{len(words) - 1 - at}-{at}" for at in range(len(words))] for words in sources]
    for name, lines in (("source", sources), ("target", targets), ("links", links)):
        (tmp_path / name).write_text("".join(" ".join(line) + "\n" for line in lines))
    return tmp_path


def train(*options: str) -> Result:
    return run("train", "joint", "source", "target", "-o", "model", *TINY, *options)


@pytest.mark.usefixtures("text")
def test_it_learns_what_its_alignment_says() -> None:
    result = succeeded(train("--alignments", "links", "--epochs", "9"))
    assert "80 lines, 80 sentences" in result.stderr
    perplexity = float(result.stderr.rsplit("validation perplexity ", 1)[1].split()[0])
    # Of eight events that come about equally often, without the source; nearly certain with it.
    assert perplexity < 1.5
    shown = run("show", "model")
    assert "joint, p(target | source)" in shown.stdout


@pytest.mark.usefixtures("text")
def test_a_resumed_run_needs_the_same_alignment(text: Path) -> None:
    options = ["--alignments", "links", "--keep-work"]
    assert train(*options, "--updates", "3").exit_code == 0
    (text / "links").write_text("0-0\n" * 80)
    check_refusal(
        train(*options, "--updates", "4", "--resume"),
        "source, target, links: not the text that the run",
    )


@pytest.mark.parametrize(
    ("links", "problem"),
    [
        ("0-0 9-1\n" * 80, "links:1: the alignment link 9-1 (0-based) is outside the"),
        ("0-0\n1 1\n" * 40, "links:2: expected a word alignment, as '0-0 1-2', found '1 1'"),
        ("0-0\n" * 79, "links:80: expected as many lines as source has, found the end of the"),
        ("0-0\n" * 81, "source:81: expected as many lines as links has, found the end of the"),
    ],
)
def test_an_alignment_of_another_text_is_refused(text: Path, links: str, problem: str) -> None:
    (text / "links").write_text(links)
    check_refusal(train("--alignments", "links", "--updates", "3"), problem)
    assert not (text / "model").exists()
    assert not (text / "model.work").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("joint source target", "joint is trained on aligned text: --alignments is missi"),
        ("joint source --alignments links", "joint is trained on parallel text"),
        ("joint source target --alignments links --reverse", "joint predicts only the target: it "),
        ("lstm source target --alignments links", "--alignments can only be used with joint"),
    ],
)
@pytest.mark.usefixtures("text")
def test_inputs_that_do_not_go_together_are_refused(arguments: str, problem: str) -> None:
    check_refusal(run("train", *arguments.split(), "-o", "model"), problem, 2)


# Lists


SOURCE = ["la maison bleue", "xyz", "maison"]
# The same words with two alignments; an unaligned word; a phrase segmentation; an empty hypothesis.
HYPOTHESES = [
    (0, "the house blue", "0-0 1-1 2-2", (0, 1, 2)),
    (0, "the house blue", "2-0 1-1 0-2", (2, 1, 0)),
    (0, "the house", "1-1 1-0 2-0", (1, 1)),
    (0, "house the home", "1-0", (1, 1, 3)),
    (0, "house the home", "0=0 1-2=1-2 ||| 1-0 2-1", (1, 2, 2)),
    (0, "the house", "1-1 1-0 2-0", (1, 1)),
    (1, "xyz", "0-0", (0,)),
    (2, "", "", ()),
]


@pytest.fixture(name="joint")
def random_joint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RandomJoint:
    monkeypatch.chdir(tmp_path)
    lines = [
        f"{i} ||| {text}  ||| LM0= -1 ||| -2 ||| {links}\n" for i, text, links, _ in HYPOTHESES
    ]
    (tmp_path / "nbest").write_text("".join(lines))
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in SOURCE))
    return RandomJoint(["la", "maison"], WORDS, path=tmp_path / "joint")


def rescore(*options: object, output: str = "out") -> Result:
    usual = ("--source", "source", "--device", "cpu", "--threads", "1", "-o", output)
    return run("rescore", "nbest", *usual, *options)


def values(path: str, name: str = "Joint0") -> list[float]:
    return [
        found.features(place)[name][0]
        for found in read_nbest(path)
        for place in range(len(found.raws))
    ]


def test_a_hypothesis_gets_log_p_by_its_own_alignment(joint: RandomJoint) -> None:
    result = succeeded(rescore("--model", "joint"))
    expected = [
        sum(joint.word_scores(SOURCE[sent_id].split(), text.split(), places))
        for sent_id, text, _, places in HYPOTHESES
    ]
    assert values("out") == pytest.approx(expected, rel=1e-5)
    assert len(set(values("out"))) == 7
    assert "; 7 scored in " in result.stderr
    # All other bytes are as they were.
    text = Path("out").read_text()
    for value in Path("out").read_text().split("Joint0= ")[1:]:
        text = text.replace(f" Joint0= {value.split()[0]}", "", 1)
    assert text == Path("nbest").read_text()


def test_log_z_may_be_left_out(joint: RandomJoint) -> None:
    assert rescore(*column_options(Network("joint", unnormalized=True))).exit_code == 0
    expected = [
        sum(joint.word_scores(SOURCE[i].split(), text.split(), places, normalized=False))
        for i, text, _, places in HYPOTHESES
    ]
    assert values("out") == pytest.approx(expected, rel=1e-5)


@pytest.mark.usefixtures("joint")
def test_other_columns_and_a_cache_change_no_bit() -> None:
    RandomCslm(WORDS, path=Path("cslm"))
    assert rescore("--model", "joint", output="alone").exit_code == 0
    assert rescore("--model", "cslm", "--feature", "target_length", output="other").exit_code == 0
    both = ["--model", "joint", "--model", "cslm", "--feature", "target_length"]
    for output in ("first", "second"):
        result = succeeded(rescore(*both, "--cache", "cache", output=output))
    assert "; 0 scored in 0 decoder steps; " in result.stderr
    assert "; 7 found in the cache; " in result.stderr
    assert Path("first").read_bytes() == Path("second").read_bytes()
    assert values("first") == values("alone")
    for name in ("CSLM0", "TargetLength0"):
        assert values("first", name) == values("other", name)


@pytest.mark.usefixtures("joint")
def test_lists_without_alignments_are_refused() -> None:
    lines = Path("nbest").read_text().splitlines()
    lines[3] = lines[3].rsplit(" ||| ", 1)[0]
    Path("nbest").write_text("\n".join(lines) + "\n")
    result = rescore("--model", "joint")
    assert (result.exit_code, Path("out").exists()) == (1, False)
    assert "nbest:4: expected a word alignment after the total, found none" in result.stderr


@pytest.mark.usefixtures("joint")
def test_ensembles_and_phrase_tables_are_refused() -> None:
    RandomCslm(WORDS, path=Path("cslm"))
    result = rescore("--model", "joint", "--model", "cslm", "--ensemble")
    assert result.exit_code == 2
    assert "--ensemble cannot be used with a joint model" in result.stderr
    Path("table").write_text("la ||| the ||| 1 ||| 0-0 ||| 1 1 1\n")
    check_refusal(
        run("annotate", "table", "--model", "joint", "-o", "out"),
        "a model of the kind joint does not score phrase pairs",
    )


def test_the_library_scores_lists_with_affiliations(joint: RandomJoint) -> None:
    model = phrasescore.load_model("joint", compute=Compute(device="cpu", threads=1))
    source, words = ("la", "maison"), ("the", "home")
    lists = [HypothesisList(source, [words, words], [(0, 1), (2, 2)])]
    expected = [joint.log_prob(source, words, places) for places in ((0, 1), (2, 2))]
    assert next(iter(model.score_lists(lists))) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ModelError, match="needs word alignments"):
        model.score([source], [words])
