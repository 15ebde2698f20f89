"""``--ctranslate2`` of rescore and score, as a user gives it."""

from pathlib import Path

import pytest

from phrasescore import annotate
from phrasescore.errors import ArgumentError
from phrasescore.features import foreign
from phrasescore.features.foreign import CTranslate2Model
from phrasescore.foreign import ForeignText
from phrasescore.foreign.model import ForeignModel
from tests.command_line import column_options, run, succeeded
from tests.random_lists import Lists, features, rescore
from tests.tiny_lists import remove_features
from tests.tiny_translator import TinyTranslator, tiny_translator


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyTranslator:
    return tiny_translator(tmp_path_factory.mktemp("folders") / "tiny")


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path)


def french(tiny: TinyTranslator) -> list[str]:
    return column_options(CTranslate2Model(str(tiny.path), target_language="fr"))


def reference(tiny: TinyTranslator, source: list[str], words: list[str]) -> float:
    model = ForeignModel(str(tiny.path), ForeignText(target_language="fr"))
    read = [*model.source.pieces(source), "</s>"]
    return sum(tiny.log_probs(read, model.target.pieces(words)))


def test_columns_hold_the_reference_s_values_and_every_other_byte_stays(
    tmp_path: Path, lists: Lists, tiny: TinyTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign.ForeignScore, "group_size", {"cpu": 50})  # lists of other groups
    out = tmp_path / "out"
    both = [*french(tiny), "--feature", "target_length", *french(tiny)]
    result = succeeded(rescore(lists, *both, "-o", out))
    distinct = len({(number, *words) for number, words in lists.hypotheses})
    assert f"CT21: {distinct} scores by CTranslate2" in result.stderr
    for found, (number, words) in zip(features(out), lists.hypotheses, strict=True):
        assert list(found) == ["LM0", "CT20", "TargetLength0", "CT21"]
        expected = reference(tiny, lists.sources[number], words)
        assert found["CT20"] == found["CT21"] == pytest.approx((expected,), abs=1e-4)
    new = {"CT20", "TargetLength0", "CT21"}
    lines = [remove_features(raw, new) for raw in out.read_bytes().splitlines()]
    assert lines == Path(lists.path).read_bytes().splitlines()


def test_score_prints_what_lists_would_hold(
    tmp_path: Path, lists: Lists, tiny: TinyTranslator
) -> None:
    target = tmp_path / "target"
    words = [hypothesis for _, hypothesis in lists.hypotheses[::30]]
    target.write_text("".join(f"{' '.join(each)}\n" for each in words))
    arguments = ["score", lists.source, str(target), *french(tiny)]
    result = succeeded(run(*arguments))
    expected = [reference(tiny, *each) for each in zip(lists.sources, words, strict=True)]
    assert list(map(float, result.stdout.split())) == pytest.approx(expected, abs=1e-4)


def test_a_table_gets_no_such_column(tiny: TinyTranslator, tiny_table: Path) -> None:
    column = CTranslate2Model(str(tiny.path))
    with pytest.raises(ArgumentError, match="scores sentences: use it for n-best lists"):
        annotate(tiny_table, [column], "out")


def test_a_folder_that_is_no_model_is_one_line(lists: Lists, tmp_path: Path) -> None:
    result = rescore(lists, "--ctranslate2", tmp_path, "-o", tmp_path / "out")
    assert result.exit_code == 1
    problem = "not a model that CTranslate2 has converted: config.json is missing"
    assert result.stderr == f"Error: {tmp_path}: {problem}\n"
    assert not (tmp_path / "out").exists()
