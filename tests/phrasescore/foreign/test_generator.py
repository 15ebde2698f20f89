"""Language models score as their own toolkit and numpy do.

The expected numbers are from transformers 5.24.0 and torch 2.13.0: ``GPT2LMHeadModel`` with the
weights of `TinyGenerator`, saved, and converted by ct2-transformers-converter 4.8.5 (its model.bin
has the same bytes as the one that `TinyGenerator` writes). They are sums of ``log_softmax`` of its
logits, from the first token that the prompt alone does not have.
"""

import math
import shutil
from pathlib import Path

import pytest

from phrasescore.errors import ModelError
from phrasescore.features.foreign import ForeignScore
from phrasescore.foreign import ForeignText
from phrasescore.foreign.generator import GeneratorModel
from phrasescore.records import PhraseBlock, PhrasePair
from tests.tiny_generator import END, POSITIONS, TinyGenerator

PAIRS = [
    PhrasePair("this is the house", "la maison"),
    PhrasePair("it 's Amy", "l&apos; eau ."),
    PhrasePair("x &amp; y", "é ü ñ 日本"),
    PhrasePair("", "no"),
    PhrasePair("no", ""),
    PhrasePair("the house is small", "c&apos; est la maison petite , no ?"),
    PhrasePair("l", "x & y"),
]
TRANSFORMERS = {
    None: [-50.085258, -56.794124, -116.22718, -18.33714, -7.109029, -180.225266, -44.484839],
    r"English: {source}\nFrench: {target}\n": [
        *(-40.244186, -54.99094, -119.0477, -19.842218, -5.28455, -178.380303, -35.820602)
    ],
    # The blank before the hypothesis is part of its first token.
    "Translate: {source} French: ": [
        *(-42.598445, -58.556218, -117.866817, -20.43947, -6.314037, -181.151625, -38.822202)
    ],
    "English: {source} French: {target}.": [
        *(-40.219234, -57.348847, -115.195768, -22.273624, -7.95704, -179.404213, -39.78625)
    ],
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyGenerator:
    return TinyGenerator(tmp_path_factory.mktemp("folders") / "gpt2")


def values(tiny: TinyGenerator, pairs: list[PhrasePair], **settings: object) -> list[float]:
    feature = ForeignScore(str(tiny.path), ForeignText(**settings))  # type: ignore[arg-type]
    found: list[float] = feature.score(PhraseBlock.of(pairs)).values[0].tolist()
    return found


@pytest.mark.parametrize("prompt", TRANSFORMERS)
def test_scores_are_those_of_transformers(tiny: TinyGenerator, prompt: str | None) -> None:
    expected = TRANSFORMERS[prompt]
    assert values(tiny, PAIRS, prompt=prompt) == pytest.approx(expected, abs=1e-4)
    for pair, value in zip(PAIRS, expected, strict=True):
        assert values(tiny, [pair], prompt=prompt) == pytest.approx([value], abs=1e-4)


@pytest.mark.parametrize("prompt", TRANSFORMERS)
def test_scores_are_those_of_numpy(tiny: TinyGenerator, prompt: str | None) -> None:
    model = GeneratorModel(str(tiny.path), ForeignText(prompt=prompt))
    expected = [tiny.log_prob(*model.tokens(pair)) for pair in PAIRS]
    assert values(tiny, PAIRS, prompt=prompt) == pytest.approx(expected, abs=1e-4)


def test_the_hypothesis_and_its_end_are_scored_and_the_prompt_is_not(tiny: TinyGenerator) -> None:
    def tokens(prompt: str | None, source: str = "x", target: str = "the") -> tuple[object, int]:
        model = GeneratorModel(str(tiny.path), ForeignText(prompt=prompt))
        return model.tokens(PhrasePair(source, target))

    # "the" is "t he", and " the" one token. By hand.
    assert tokens(None) == ((END, "t", "he", END), 1)
    assert tokens("{source}=") == (("x", "=", "t", "he", END), 2)
    assert tokens("{source} ") == (("x", "Ġthe", END), 1)
    assert tokens("{source} {target}.") == (("x", "Ġthe", "."), 1)
    assert tokens(r"{target}\n") == ((END, "t", "he", "Ċ"), 1)
    assert tokens(f"{END}{{source}}:") == ((END, "x", ":", "t", "he", END), 3)
    assert tokens("=", target="") == (("=", END), 1)
    # What the words contain is no part of the prompt.
    assert tokens("{source}=", source="{target}") == ((*"{target}=", "t", "he", END), 9)


def test_words_are_joined_as_the_settings_say(tiny: TinyGenerator) -> None:
    pair = PhrasePair(("no",), ("l&apos;", "eau", "."))
    plain = GeneratorModel(str(tiny.path), ForeignText(target_language="fr", detruecase=True))
    assert "".join(plain.tokens(pair)[0]) == f"{END}L'eau.{END}"
    moses = GeneratorModel(str(tiny.path), ForeignText(moses_tokens=True))
    assert "".join(moses.tokens(pair)[0]) == f"{END}l&apos;Ġeau.{END}".replace("u.", "uĠ.")


def test_every_setting_and_file_that_changes_scores_is_in_the_fingerprint(
    tiny: TinyGenerator, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(tiny.path, folder)

    def fingerprint(**settings: object) -> str:
        return GeneratorModel(str(folder), ForeignText(**settings)).fingerprint  # type: ignore[arg-type]

    expected = GeneratorModel(str(tiny.path), ForeignText()).fingerprint
    assert fingerprint() == fingerprint(prompt="{target}") == expected
    others = [
        fingerprint(prompt="x"),
        fingerprint(prompt="{target}x"),
        fingerprint(moses_tokens=True),
        fingerprint(source_language="fr"),
        fingerprint(target_language="fr"),
    ]
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + "\n")
    assert len({expected, fingerprint(), *others}) == 7


def test_the_tally_counts_tokens(tiny: TinyGenerator) -> None:
    tally = ForeignScore(str(tiny.path)).score(PhraseBlock.of(PAIRS[:1])).tally
    # <|endoftext|> l a Ġmai s o n <|endoftext|>
    assert str(tally) == "1 scores by CTranslate2; 0 of 8 pieces unknown"


def test_no_text_is_given_to_the_network_alone_and_the_batch_hardly_matters(
    tiny: TinyGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = GeneratorModel(str(tiny.path), ForeignText())
    sizes = []
    inner = network.score_batch

    def noted(batch: list[object]) -> object:
        sizes.append(len(batch))
        return inner(batch)  # type: ignore[arg-type]

    monkeypatch.setattr(network, "score_batch", noted)
    scores = network.score(PAIRS * 2)
    assert min(sizes) == 2
    assert scores[:7] == scores[7:]
    assert all(score.log_prob < 0 for score in scores)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer is missing: copy its"),
        (
            lambda folder: (folder / "tokenizer.json").write_text("{}"),
            "copy/tokenizer.json: expected a tokenizer of Hugging Face",
        ),
        (
            lambda folder: (folder / "vocabulary.json").write_text("{"),
            "copy/vocabulary.json: expected the JSON of a",
        ),
        (
            lambda folder: (
                (folder / "vocabulary.json").replace(folder / "vocabulary.txt").write_bytes(b"\xff")
            ),
            "copy/vocabulary.txt: expected a vocabulary of a",
        ),
        (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
        (
            lambda folder: (folder / "model.bin").write_bytes(b"x"),
            "CTranslate2 says: File model.bin",
        ),
    ],
)
def test_a_damaged_folder_is_refused(
    tiny: TinyGenerator, tmp_path: Path, change: object, problem: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(tiny.path, folder)
    change(folder)  # type: ignore[operator]
    with pytest.raises(ModelError, match=problem) as raised:
        ForeignScore(str(folder)).score(PhraseBlock.of(PAIRS))
    assert str(raised.value).startswith(str(folder))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"source_spm": "x"}, "source_spm is for translation models"),
        ({"target_prefix": "x"}, "target_prefix is for translation models"),
        ({"prompt": "{target} {target}"}, "expected {target} once"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    tiny: TinyGenerator, settings: dict[str, str], problem: str
) -> None:
    with pytest.raises(ModelError, match=problem):
        GeneratorModel(str(tiny.path), ForeignText(**settings))  # type: ignore[arg-type]


def test_a_text_that_is_too_long_is_an_error_that_shows_it(tiny: TinyGenerator) -> None:
    assert math.isfinite(values(tiny, [PhrasePair("", "the " * (POSITIONS - 3))])[0])
    with pytest.raises(ModelError, match="No position encodings are defined for positions >= 96"):
        values(tiny, [PhrasePair("", "the " * POSITIONS)])
