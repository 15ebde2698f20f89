"""What stays true of files that version 0.3 wrote, through the command line.

tests/data/version-0.3/README.md says how they were made. Names in the files are 0.3's names; a new
name for the same thing must not change a result below.
"""

import tarfile
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.command_line import check_refusal, run, succeeded, tuned_scores
from tests.conftest import REPOSITORY

DATA = REPOSITORY / "tests" / "data"
MADE_IN = b"/srv/phrasescore-0.3"  # the folder in which 0.3 made the files
# The models in the order of their features in lists/rescored.
MODELS = (
    *("out/models/rnn", "out/models/reverse", "out/models/attention", "out/models/cslm"),
    *("out/models/joint", "models/lstm", "models/backward", "models/grconv"),
    *("models/transformer", "models/subwords"),
)
SYSTEMS = ("Baseline", "+joint+RNNsearch")
BEST = "out/systems/+joint+RNNsearch/seed1"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files, as if 0.3 had made them in this folder."""
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(DATA / "version-0.3" / "files.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    for path in folder.rglob("*"):
        if path.is_file() and MADE_IN in (content := path.read_bytes()):
            path.write_bytes(content.replace(MADE_IN, str(folder).encode()))
    return folder


@pytest.fixture
def folder(unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for outputs. The working folder is that of the files."""
    monkeypatch.chdir(unpacked)
    return tmp_path


def _values(line: str) -> list[float]:
    """Return the values of the features in a line of a list, in order, and their total."""
    features, total = line.split(" ||| ")[2:4]
    words = [word for word in features.split() if not word.endswith("=")]
    return [float(word) for word in (*words, total)]


def _assert_same_lists(new: Path, old: Path) -> None:
    """Check all but the names of the features."""
    lines = [path.read_text(encoding="utf-8").splitlines() for path in (new, old)]
    for found, expected in zip_longest(*lines, fillvalue=""):
        assert found.split(" ||| ")[:2] == expected.split(" ||| ")[:2]
        assert found.split(" ||| ")[4:] == expected.split(" ||| ")[4:]
        assert _values(found) == pytest.approx(_values(expected), abs=2e-5, rel=1e-6), expected


@pytest.mark.parametrize("options", [(), ("--cache", "lists/scores.cache")], ids=["", "cache"])
def test_models_give_their_scores_and_weights_fit_the_new_lists(
    folder: Path, options: tuple[str, ...]
) -> None:
    models = [word for model in MODELS for word in ("--model", model)]
    features = ["--feature", "length_ratio", "--feature", "unknown_words", "--threads", "1"]
    words = ("lists/nbest", "--source", "dev.s", *models, *features, *options)
    succeeded(run("rescore", *words, "-o", folder / "new"))
    _assert_same_lists(folder / "new", Path("lists/rescored"))
    with_weights = ("--weights", "lists/weights", "-o", folder / "reranked")
    succeeded(run("rerank", folder / "new", *with_weights))
    assert (folder / "reranked").read_bytes() == Path("lists/reranked").read_bytes()


def test_lists_are_reranked_with_their_weights(folder: Path) -> None:
    words = ("lists/rescored", "--weights", "lists/weights", "-o", folder / "reranked")
    succeeded(run("rerank", *words))
    assert (folder / "reranked").read_bytes() == Path("lists/reranked").read_bytes()


def test_lists_are_tuned_from_their_start_weights(folder: Path) -> None:
    words = ("--lists", "lists/rescored", "--references", "dev.t", "--weights", "lists/start")
    options = ("--starts", "1", "--threads", "1")
    result = succeeded(run("tune", *words, *options, "-o", folder / "weights"))
    assert tuned_scores(result).startswith("BLEU 24.21 -> ")  # lists/report.json


def test_a_network_is_trained_for_bleu_with_its_lists_and_weights(folder: Path) -> None:
    words = ("--lists", "lists/rescored", "--source", "dev.s", "--references", "dev.t", "--weights")
    start = ("train", "rnnsearch", "--objective", "bleu", "--from", "out/models/attention")
    more = ("--updates", "1", "--threads", "1", "-o", folder / "model")
    succeeded(run(*start, *words, "lists/weights", *more))


def test_an_annotated_table_is_decoded_with_its_columns(folder: Path) -> None:
    ini = "out/tables/rnn+reverse+unknown_words/moses.ini"
    words = ("test.s", "--tokenized", "--workers", "1", "--set", "limits.stack=5")
    lists = ("--nbest", folder / "nbest", "--nbest-size", "3", "-o", folder / "out")
    succeeded(run("translate", ini, *words, *lists))
    assert (folder / "nbest").read_bytes() == Path("lists/annotated.nbest").read_bytes()


@pytest.mark.parametrize("row", SYSTEMS)
def test_a_row_of_an_experiment_translates(folder: Path, row: str) -> None:
    own = Path("out/systems", row, "seed1")
    words = ("test.s", "--tokenized", "--workers", "1", "-o", folder / "out")
    succeeded(run("translate", own / "system.toml", *words))
    assert (folder / "out").read_bytes() == (own / "test.out").read_bytes()


def test_a_system_writes_its_lists_and_confidence(folder: Path) -> None:
    words = ("test.s", "--tokenized", "--workers", "1", "--confidence", "-o", folder / "out")
    nbest = ("--nbest", folder / "nbest", "--nbest-size", "2")
    succeeded(run("translate", f"{BEST}/system.toml", *words, *nbest))
    assert (folder / "out").read_bytes() == Path("lists/translated").read_bytes()
    _assert_same_lists(folder / "nbest", Path("lists/translated.nbest"))


@pytest.mark.usefixtures("folder")
def test_each_file_is_shown() -> None:
    for path in MODELS:
        assert path in succeeded(run("show", path)).stdout
    assert "+joint+RNNsearch *  47.89" in succeeded(run("show", "out")).stdout
    assert "length_ratio" in succeeded(run("show", f"{BEST}/system.toml")).stdout


def test_an_experiment_is_neither_reported_nor_continued(folder: Path) -> None:
    result = run("report", "--experiment", "out", "-o", folder / "page")
    check_refusal(result, "of version 0.3: repeat it in another folder; its rows are systems, ")
    text = Path("experiment.toml").read_text(encoding="utf-8")
    Path("new.toml").write_text(_in_new_words(text), encoding="utf-8")
    check_refusal(
        run("experiment", "new.toml", "-o", "out"),
        "out/steps.json: expected the state of a run of this version: Object missing required "
        "field `digests`; a run of 0.3 cannot go on: name another folder\n",
    )


def _in_new_words(settings: str) -> str:
    for old, new in (
        ('["rnn", ', '["encoder-decoder", '),
        ("[models.rnn]", "[models.encoder-decoder]"),
        ("[models.reverse]", '[models.reverse]\nkind = "encoder-decoder"\nreverse = true'),
        ("attention", "rnnsearch"),
        ("rescore = ", "lists = "),
    ):
        settings = settings.replace(old, new)
    return settings


def test_the_file_of_an_experiment_needs_the_new_names(folder: Path) -> None:
    words = ("-o", folder / "out", "--dry-run")
    problem = "[models.rnn] kind: the kind of network rnn is now encoder-decoder"
    check_refusal(run("experiment", "experiment.toml", *words), problem)
    text = Path("experiment.toml").read_text(encoding="utf-8")
    Path("new.toml").write_text(_in_new_words(text), encoding="utf-8")
    assert succeeded(run("experiment", "new.toml", *words)).stdout.count("to do") == 10
