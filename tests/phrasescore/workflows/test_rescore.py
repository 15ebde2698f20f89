"""``phrasescore.rescore`` and `Scoring` from Python; the command's tests have the rest."""

from pathlib import Path

import pytest

import phrasescore
from phrasescore.features.columns import Column
from phrasescore.progress import Progress
from tests.doubles import RandomModel
from tests.log import warnings
from tests.random_lists import SOURCE_WORDS, TARGET_WORDS, Lists


@pytest.fixture
def model(tmp_path: Path) -> RandomModel:
    return RandomModel(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS)


def test_the_summary_has_counts_and_notes(
    tmp_path: Path, model: RandomModel, caplog: pytest.LogCaptureFixture
) -> None:
    lists = Lists(tmp_path)
    Path(lists.source).write_text("unheard of words\n" * len(lists.sources))
    columns: list[str | Column] = [str(model.path)]
    columns.append(phrasescore.NamedFeature("target_length"))
    seen: list[Progress] = []
    source, output = Path(lists.source), tmp_path / "out"
    done = phrasescore.rescore(lists.path, source, columns, output, progress=seen.append)
    assert (done.features, done.pairs, done.lists) == (("EncoderDecoder0", "TargetLength0"), 180, 6)
    distinct = len({(number, tuple(words)) for number, words in lists.hypotheses})
    assert done.networks is not None
    assert (done.distinct, done.networks.cached) == (distinct, None)
    ((name, note),) = done.notes
    assert (name, note.endswith(" target words")) == ("TargetLength0", True)
    (warning,) = warnings(caplog)
    assert warning.startswith(f"{lists.source}: 18 of 18 counted words are unknown to ")
    assert (seen[-1].done, seen[-1].finished) == (180, True)
