"""Models of CTranslate2: scores against numpy, what stands around a source, and bad folders."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from phrasescore.errors import DataError, ModelError
from phrasescore.foreign import ForeignText
from phrasescore.foreign import model as module
from phrasescore.foreign.model import ForeignModel
from phrasescore.records import PhrasePair
from tests.tiny_translator import TinyTranslator, tiny_translator

FRENCH = ForeignText(target_language="fr")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyTranslator:
    return tiny_translator(tmp_path_factory.mktemp("folders") / "tiny")


def pair(source: str, target: str) -> PhrasePair:
    return PhrasePair(tuple(source.split()), tuple(target.split()))


PAIRS = [
    pair("This is the house .", "l&apos; eau ."),
    pair("This is the house .", "l&apos; eau maison"),
    pair("This is the house .", "la maison no @-@ x"),
    pair("the house", ""),
    pair("", "maison"),
    pair("x &amp; y", "Ω maison"),
    pair("it &apos;s Amy", "maison " * 9),
    pair("This is the house .", "l&apos; eau ."),
]


def wanted(
    tiny: TinyTranslator, text: ForeignText, pairs: Sequence[PhrasePair], after: Sequence[str]
) -> Iterator[float]:
    model = ForeignModel(str(tiny.path), text)
    given = text.target_prefix.split()
    for source, target in pairs:
        read = [*text.source_prefix.split(), *model.source.pieces(source), *after]
        log_probs = tiny.log_probs(read, [*given, *model.target.pieces(target)])
        yield sum(log_probs[len(given) :])


def score(path: Path, text: ForeignText, pairs: Sequence[PhrasePair]) -> list[float]:
    network = ForeignModel(str(path), text)
    return [found.log_prob for found in network.score(pairs)]


@pytest.mark.parametrize(
    "text",
    [
        FRENCH,
        ForeignText(moses_tokens=True),
        # Any pieces may be codes of languages.
        ForeignText(source_prefix="▁Amy", target_prefix="▁house ▁the"),
    ],
)
def test_scores_are_those_of_the_network_computed_in_numpy(
    tiny: TinyTranslator, text: ForeignText
) -> None:
    found = score(tiny.path, text, PAIRS)
    assert found == pytest.approx(list(wanted(tiny, text, PAIRS, ["</s>"])), abs=1e-4)
    assert len({round(value, 3) for value in found}) == len(PAIRS) - 1
    assert found[0] == found[-1]


def test_an_end_of_the_source_is_read_once(tmp_path: Path) -> None:
    # A converter of Marian's models lets CTranslate2 add it.
    made = tiny_translator(tmp_path / "marian", add_source_eos=True)
    # An empty source is this symbol, too: see `TinyTranslator.log_probs`.
    pairs = [*PAIRS, pair("", "")]
    expected = list(wanted(made, FRENCH, pairs, []))
    assert max(expected) < -1
    assert score(made.path, FRENCH, pairs) == pytest.approx(expected, abs=1e-4)
    assert ForeignModel(str(made.path), FRENCH).frame() == "source > target"


def test_models_that_begin_with_another_symbol_read_no_end(tmp_path: Path) -> None:
    # Those of OpenNMT.
    made = tiny_translator(tmp_path / "opennmt", start="<s>")
    pairs = [each for each in PAIRS if each.source]
    expected = list(wanted(made, FRENCH, pairs, []))
    assert score(made.path, FRENCH, pairs) == pytest.approx(expected, abs=1e-4)
    # CTranslate2 computes nothing for a source without a piece.
    assert score(made.path, FRENCH, [pair("", "maison")]) == [0.0]


def test_what_stands_around_a_source_can_be_said(tiny: TinyTranslator) -> None:
    text = ForeignText(source_prefix="▁Amy", source_suffix="", target_prefix="▁the")
    assert ForeignModel(str(tiny.path), text).frame() == "▁Amy source > ▁the target"
    expected = list(wanted(tiny, text, PAIRS, []))
    assert score(tiny.path, text, PAIRS) == pytest.approx(expected, abs=1e-4)


def test_no_score_depends_on_those_beside_it(
    tiny: TinyTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = score(tiny.path, FRENCH, PAIRS * 30)
    assert together[: len(PAIRS)] * 30 == together
    # The number of rows may change the last bits of CTranslate2's products. The tolerance is half
    # a unit of the 7th digit, as lists have them; pads that are not masked change the first digits.
    for size in (1, 400, 1000):
        monkeypatch.setattr(module, "MAX_BATCH", size)
        apart = score(tiny.path, FRENCH, PAIRS[::-1])
        assert apart == pytest.approx(together[: len(PAIRS)][::-1], rel=5e-8)


def test_no_pair_is_given_to_the_network_alone(
    tiny: TinyTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The product of a single row may have other last bits, of networks of the usual sizes.
    network = ForeignModel(str(tiny.path), FRENCH)
    sizes = []
    inner = network.score_batch

    def noted(batch: list[tuple[module.Pieces, module.Pieces]]) -> Iterator[module.PieceScore]:
        sizes.append(len(batch))
        return inner(batch)

    monkeypatch.setattr(network, "score_batch", noted)
    network.score([pair("the house", "la maison")])
    network.score(PAIRS)
    assert min(sizes) == 2


def test_pieces_and_those_unknown_to_the_model_are_counted(tiny: TinyTranslator) -> None:
    network = ForeignModel(str(tiny.path), ForeignText())
    (found,) = network.score([pair("the house", "Ω maison")])
    assert (found.pieces, found.unknown) == (2 + 3, 1)  # ▁ Ω ▁maison


@pytest.fixture
def copied(tiny: TinyTranslator, tmp_path: Path) -> Path:
    return shutil.copytree(tiny.path, tmp_path / "copied")


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_start_may_be_the_first_token_of_the_prefix(tiny: TinyTranslator, copied: Path) -> None:
    # As in mBART-25.
    change_config(copied, decoder_start_token=None)
    for more in ("", " ▁house ▁the"):
        usual = replace(FRENCH, target_prefix=more)
        text = replace(FRENCH, target_prefix=f"</s>{more}", source_suffix="</s>")
        assert score(copied, text, PAIRS) == score(tiny.path, usual, PAIRS)
    with pytest.raises(ModelError, match=r"config\.json: decoder_start_token is null: target"):
        ForeignModel(str(copied), FRENCH)


def test_an_empty_source_with_a_begin_symbol_is_scored(copied: Path) -> None:
    change_config(copied, add_source_bos=True)
    text = replace(FRENCH, source_suffix="")
    given = replace(text, source_prefix="<s>")
    (found,) = score(copied, text, [pair("", "maison")])
    change_config(copied, add_source_bos=False)
    assert [found] == score(copied, given, [pair("", "maison")])
    assert found < -1


def test_a_config_without_a_key_that_ctranslate2_needs_is_refused(copied: Path) -> None:
    path = copied / "config.json"
    config = json.loads(path.read_text())
    assert "unk_token" in config
    for name in set(config) - {"layer_norm_epsilon", "multi_query_attention"}:
        path.write_text(json.dumps({key: config[key] for key in config if key != name}))
        with pytest.raises(ModelError, match=f"copied/config.json: expected .* field `{name}`"):
            ForeignModel(str(copied), FRENCH)


def test_the_fingerprint_covers_all_that_is_computed_with(copied: Path) -> None:
    def fingerprint(text: ForeignText = FRENCH) -> str:
        return ForeignModel(str(copied), text).fingerprint

    first = fingerprint()
    (copied / "README.md").write_text("about the model\n")
    assert fingerprint() == first
    others = [fingerprint(ForeignText()), fingerprint(ForeignText(target_prefix="a"))]
    for name in ("source.spm", "config.json", "model.bin"):
        data = (copied / name).read_bytes()
        (copied / name).write_bytes(data + b"\n" * (name != "source.spm"))
        if name == "source.spm":
            (copied / name).unlink()
        others.append(fingerprint())
    assert len({first, *others}) == 6


def test_the_files_of_sentencepiece_may_be_elsewhere_or_one_for_both(
    copied: Path, tmp_path: Path
) -> None:
    expected = score(copied, FRENCH, PAIRS)
    (copied / "source.spm").rename(tmp_path / "a")
    (copied / "target.spm").rename(tmp_path / "b")
    text = ForeignText(
        source_spm=str(tmp_path / "a"), target_spm=str(tmp_path / "b"), target_language="fr"
    )
    assert score(copied, text, PAIRS) == expected
    assert score(copied, FRENCH, PAIRS) != expected  # the words are the pieces
    (tmp_path / "a").rename(copied / "sentencepiece.bpe.model")
    assert score(copied, FRENCH, PAIRS) == expected


def test_a_hypothesis_longer_than_the_model_can_is_named(tiny: TinyTranslator) -> None:
    with pytest.raises(ModelError, match=r"tiny: CTranslate2 says, at '▁maison▁.*No position"):
        score(tiny.path, FRENCH, [pair("house", "maison " * 50)])


def test_a_folder_without_a_model_is_refused(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nothing: cannot open: No such file"):
        ForeignModel(str(tmp_path / "nothing"), FRENCH)
    (copied / "shared_vocabulary.json").unlink()
    with pytest.raises(ModelError, match=r"with a source vocabulary$"):
        ForeignModel(str(copied), FRENCH)
    (copied / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"copied/config\.json: expected the JSON of a model"):
        ForeignModel(str(copied), FRENCH)
    (copied / "config.json").unlink()
    with pytest.raises(ModelError, match=r"copied: not a model .* config\.json is missing$"):
        ForeignModel(str(copied), FRENCH)


def test_a_missing_ctranslate2_is_named_with_the_cure(
    tiny: TinyTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    problem = r"needs CTranslate2: pip install 'phrasescore\[ctranslate2\]'$"
    with pytest.raises(ModelError, match=problem):
        ForeignModel(str(tiny.path), FRENCH)


def test_a_damaged_model_is_refused(copied: Path) -> None:
    data = (copied / "model.bin").read_bytes()
    (copied / "model.bin").write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelError, match=r"copied: CTranslate2 says: "):
        score(copied, FRENCH, PAIRS)
    (copied / "model.bin").write_bytes(b"\x63" + data[1:])
    with pytest.raises(ModelError, match=r"copied: CTranslate2 says: "):
        score(copied, FRENCH, PAIRS)
    (copied / "model.bin").unlink()
    with pytest.raises(ModelError, match=r"copied: CTranslate2 says: "):
        score(copied, FRENCH, PAIRS)


def test_a_pipe_among_the_files_is_refused_and_not_waited_for(copied: Path) -> None:
    os.mkfifo(copied / "vmap.txt")
    with pytest.raises(DataError, match=r"vmap\.txt: expected a plain file, found a pipe"):
        ForeignModel(str(copied), FRENCH)


def test_a_vocabulary_may_be_text(copied: Path) -> None:
    path = copied / "shared_vocabulary.json"
    expected = score(copied, FRENCH, PAIRS)
    lines = json.loads(path.read_text())
    path.unlink()
    (copied / "shared_vocabulary.txt").write_text("".join(f"{line}\n" for line in lines))
    assert score(copied, FRENCH, PAIRS) == expected
