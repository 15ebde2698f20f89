"""Promises of phrasescore.workflows.fold_lists: lists of sentences that no table has seen."""

import logging
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moses_integration.moses_ini import load_weights
from moses_integration.nbest import read_nbest
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.settings.compute import Compute
from phrasescore.workflows import fold_lists
from phrasescore.workflows import translate as translating
from phrasescore.workflows.fold_lists import lists_in, write_fold_lists
from tests.reference_ngrams import ReferenceNgrams, log10_prob
from tests.tiny_bitext import LINKS, build_bitext, sentence_pairs
from tests.tiny_runs import KilledError

# Words that only the third fold has, at the end of sentence 35.
PAIRS = sentence_pairs(60)
PAIRS[35] = (f"{PAIRS[35][0]} today", f"{PAIRS[35][1]} aujourd'hui")
UNIGRAMS = "\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<unk>\n-1\t<s>\n-1\t</s>\n\n\\end\\\n"


@pytest.fixture(scope="module", name="built")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bitext(tmp_path_factory.mktemp("built"), PAIRS)


@pytest.fixture(name="folder")
def copy(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fold_lists, "_FEWEST", 60)
    return shutil.copytree(built, tmp_path / "folder")


def fold(folder: Path, output: str = "lists", **given: Any) -> Path:
    text = (folder / "s", folder / "t", folder / "links")
    compute = Compute(threads=1, workers=1)
    write_fold_lists(folder / "model", *text, folder / output, compute=compute, **given)
    return folder / output


def change(folder: Path, old: str, new: str) -> None:
    """Replace words in the text and in the system's files."""
    for name in ("t", "model/moses.ini", "model/weights"):
        path = folder / name
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def hypotheses(lists: Path) -> Iterator[tuple[int, list[str], dict[str, tuple[float, ...]]]]:
    """Yield the number in the text, the words and the features of each hypothesis."""
    for number, path in enumerate(lists_in(lists)):
        for nbest in read_nbest(str(path)):
            for place, field in enumerate(nbest.hypotheses):
                words = nbest.distinct()[field]
                yield 15 * number + nbest.id, list(words), nbest.features(place)


def test_each_sentence_is_translated_by_the_system_of_the_other_folds(folder: Path) -> None:
    change(folder, "LM0= 0.5", "LM0= 0.625")
    lists = fold(folder)
    assert contents(lists).keys() == {*(path.name for path in lists_in(lists)), "weights"}
    assert not (folder / "lists.work").exists()
    assert load_weights(lists / "weights") == load_weights(folder / "model" / "weights")
    models = [
        ReferenceNgrams([tuple(pair[1].split()) for pair in others], 2)
        for others in (PAIRS[: 15 * place] + PAIRS[15 * place + 15 :] for place in range(4))
    ]
    seen = list[int]()
    for number, words, features in hypotheses(lists):
        if seen[-1:] != [number]:  # the best hypothesis
            seen.append(number)
            if number == 35:
                # With the table of the whole text it would be aujourd'hui.
                assert "today" in words
            else:
                assert words == PAIRS[number][1].split()
        # A word that the model does not have is <unk>.
        known = [word if word != "today" else "<unk>" for word in words]
        expected = log10_prob(models[number // 15], known) * math.log(10)
        assert features["LM0"] == pytest.approx((expected,), rel=1e-3)
    assert seen == list(range(60))
    line = re.compile(r".* \|\|\| \d+(-\d+)?=\d+(-\d+)?( \d+(-\d+)?=\d+(-\d+)?)*\n")
    for path in lists_in(lists):
        for nbest in read_nbest(str(path)):
            assert len(nbest.hypotheses) == len(nbest.distinct()) <= 50
            assert all(line.fullmatch(raw.decode() + "\n") for raw in nbest.raws)


def test_a_stopped_run_goes_on_to_the_same_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = contents(fold(folder, "whole"))
    translate, places = translating.translate, list[str]()

    def stopping(*given: Any, **more: Any) -> None:
        places.append(given[1].parent.name)
        if places == ["fold0", "fold1"]:
            raise KilledError
        translate(*given, **more)

    monkeypatch.setattr(fold_lists, "translate", stopping)
    with pytest.raises(KilledError):
        fold(folder)
    assert not (folder / "lists").exists()
    with pytest.raises(PhrasescoreError, match=r"lists\.work: holds an unfinished run; continue"):
        fold(folder)
    assert contents(fold(folder, resume=True)) == whole
    assert places == ["fold0", "fold1", "fold1", "fold2", "fold3"]
    assert not (folder / "lists.work").exists()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("\n[feature]", "\n# phrasescore: characters = true\n[feature]", "its tables have charac"),
        (
            "TranslationModel0= 0.2 0.2",
            "TranslationModel0= 0.2 0.2 0.2",
            "its table has 5 scores, and `build` writes 4: give the system without added columns",
        ),
        ("la ", "le ", r"of \d+ pairs of .*/phrase-table.gz, only \d+ are in .*/s and .*/t"),
    ],
)
def test_a_system_that_cannot_be_built_again_is_refused(
    folder: Path, old: str, new: str, problem: str
) -> None:
    change(folder, old, new)
    if "5 scores" in problem:  # the file of weights has a line for each
        change(folder, "PhrasePenalty0= 0.2\nT", "PhrasePenalty0= 0.2\nTranslationModel0= 0.2\nT")
    change(folder, "num-features=4", f"num-features={5 if '5 scores' in problem else 4}")
    with pytest.raises(PhrasescoreError, match=problem) as error:
        fold(folder)
    assert "made only with systems that `build` can make again" in str(error.value)
    assert not list(folder.glob("lists*"))


def test_a_small_text_and_unequal_lengths_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_lists, "_FEWEST", 61)
    with pytest.raises(DataError, match="expected at least 61 sentence pairs to cut into 4 folds"):
        fold(folder)
    (folder / "links").write_text(f"{LINKS}\n" * 59)
    with pytest.raises(DataError, match=r"links:60: expected as many lines as .*, found the"):
        fold(folder)
    assert not list(folder.glob("lists*"))


def test_an_n_gram_model_of_another_text_stays(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "other.arpa").write_text(UNIGRAMS)
    change(folder, "lm.arpa.gz order=2", "../other.arpa order=1")
    with caplog.at_level(logging.INFO):
        lists = fold(folder)
    assert "other.arpa is not a model of " in caplog.text
    for _, words, features in hypotheses(lists):
        # Each word and </s> have the probability 0.1.
        assert features["LM0"] == pytest.approx((-math.log(10) * (len(words) + 1),))
