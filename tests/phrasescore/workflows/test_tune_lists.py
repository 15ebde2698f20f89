"""Promises of workflows.tune_lists, called as a function."""

from pathlib import Path

import numpy as np
import pytest

import phrasescore
from moses_integration.moses_ini import MosesIni, load_weights
from phrasescore.errors import ArgumentError
from phrasescore.progress import Progress
from phrasescore.settings.compute import Compute
from phrasescore.settings.training import ListTuning
from tests.log import warnings
from tests.phrasescore.cli.tune.conftest import _few_starts as _few_starts
from tests.phrasescore.cli.tune.tune_folder import TuneFolder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TuneFolder:
    monkeypatch.chdir(tmp_path)
    return TuneFolder(tmp_path)


@pytest.mark.usefixtures("folder")
def test_weights_come_back_as_values_and_are_those_of_the_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    start = {"LM0": (1.0,), "TM0": (0.5, 0.5), "Gone0": (1.0,)}
    found = phrasescore.tune(["nbest"], ["reference"], start, "out", compute=Compute(threads=1))
    assert found.weights.lists == load_weights("out").lists
    assert found.weights.lists["TM0"] == (0.5, 0.5)
    assert found.report.start == pytest.approx(66.874, abs=1e-3)
    assert found.report.reached == pytest.approx(100)
    assert warnings(caplog) == ["the lists lack these features of the start weights: Gone0"]


def test_nothing_is_written_where_no_file_is_named(folder: TuneFolder) -> None:
    before = sorted(folder.path.iterdir())
    phrasescore.tune(
        ["nbest"],
        ["reference"],
        "weights",
        settings=ListTuning(method="mira"),
        compute=Compute(threads=1),
    )
    assert sorted(folder.path.iterdir()) == before


@pytest.mark.usefixtures("folder")
def test_a_list_much_longer_than_the_references_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path("reference").write_text("a\nf\nk\n")
    phrasescore.tune(["nbest"], ["reference"], "weights", compute=Compute(threads=1))
    assert warnings(caplog)[0].startswith("nbest has 15 words, the references 3: are they for")


@pytest.mark.usefixtures("folder")
def test_steps_are_counted() -> None:
    seen: list[Progress] = []
    phrasescore.tune(
        ["nbest"], ["reference"], "weights", compute=Compute(threads=1), progress=seen.append
    )
    assert {(each.task, each.unit) for each in seen} == {("tune", "steps")}
    assert seen[-1].finished
    assert seen[-1].done > 0


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"method": "simplex"}, "--method: expected one of mert, mira, xbleu, got 'simplex'"),
        ({"metric": "ter"}, "--metric: expected one of bleu, word_accuracy, cer, got 'ter'"),
        ({"starts": -1}, "--starts: expected at least 0, got -1"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_settings_are_refused(settings: dict, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        phrasescore.tune(["nbest"], ["reference"], "weights", settings=ListTuning(**settings))


# BLEU of corpora in which a sentence has no translation is that of `rerank --allow-missing`.
def test_a_sentence_without_a_list_counts_as_an_empty_translation(
    folder: TuneFolder, caplog: pytest.LogCaptureFixture
) -> None:
    lines = (folder.path / "nbest").read_text().splitlines(keepends=True)
    Path("nbest").write_text("".join(lines[:2] + lines[4:]))
    found = phrasescore.tune(
        ["nbest"],
        ["reference"],
        "weights",
        "out",
        settings=ListTuning(allow_missing=True),
        compute=Compute(threads=1),
    )
    assert "1 sentences have no list; an empty translation is used for each of them" in warnings(
        caplog
    )
    phrasescore.rerank("nbest", "best", weights="out", allow_missing=True)
    assert Path("best").read_text() == "a b c d e\n\nk l m n o\n"
    measured = phrasescore.evaluate(["best"], ["reference"]).systems[0].multi_bleu
    assert measured is not None
    # Precisions of 1, and 10 words for references of 15: exp(1 - 15/10).
    assert found.report.reached == pytest.approx(100 * np.exp(-0.5))
    assert 100 * measured.bleu == pytest.approx(found.report.reached)
    # A sentence that another file has a list of is not missing.
    Path("rest").write_text("".join(lines[2:4]))
    caplog.clear()
    found = phrasescore.tune(
        ["nbest", "rest"],
        ["reference"],
        "weights",
        settings=ListTuning(allow_missing=True),
        compute=Compute(threads=1),
    )
    assert (found.report.sentences, found.report.hypotheses) == (3, 6)
    assert found.report.reached == pytest.approx(100)
    assert not any("no list" in warning for warning in warnings(caplog))


@pytest.mark.usefixtures("folder")
def test_names_that_moses_can_produce_come_back_from_every_file() -> None:
    signs = ["=", "[", "~", "\u00a0", "\u3000", "\u2028", "\u0301", "\U0001f600", "a"]
    names = [f"WT0_{one}{other}" for one in signs for other in signs]
    lines = []
    for sentence in range(10):
        for text, part in (("a b c d e", names[::2]), ("a x", names[1::2])):
            features = " ".join(f"{name}= 1" for name in part[sentence::10] or part)
            lines.append(f"{sentence} ||| {text}  ||| LM0= {-len(text)} {features} ||| -1\n")
    Path("nbest").write_text("".join(lines), encoding="utf-8")
    Path("reference").write_text(10 * "a b c d e\n")
    start = {"LM0": 0.5}
    settings = ListTuning(method="mira")
    threads = Compute(threads=1)
    found = phrasescore.tune(
        ["nbest"], ["reference"], start, "out", settings=settings, compute=threads
    )
    assert found.weights.lists.keys() == {"LM0", *names}
    assert load_weights("out").lists == found.weights.lists
    ini = MosesIni("out.ini", b"[feature]\nWT name=WT0\nLM name=LM0\n[weight]\nLM0= 0.5\n")
    ini.set_weights(found.weights.search)
    ini.write("out.ini")
    written = load_weights("out.ini").lists
    assert written.keys() == found.weights.lists.keys()
    for name, (weight,) in found.weights.lists.items():
        assert written[name] == pytest.approx((weight,), rel=1e-8)
    for weights in ("out", "out.ini"):
        phrasescore.rerank("nbest", "best", weights=weights)
        assert Path("best").read_text() == 10 * "a b c d e\n"
