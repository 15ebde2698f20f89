"""The sentences of a stream get the same options as those of a known text."""

import random
from pathlib import Path

import pytest

from moses_integration.decoder.configuration import DecoderConfiguration, read_language_models
from moses_integration.decoder.options import OptionTable, PhraseOptions
from tests.moses_integration.decoder.small_decoder import SmallDecoder

Words = tuple[str, ...]


def sentences(seed: int) -> list[Words]:
    numbers = random.Random(seed)
    # "g" and "h1" are not in the table; sentences recur, and the first one is empty.
    words = [*"abcdef", "g", "h1"]
    found = [tuple(numbers.choices(words, k=numbers.randint(1, 5))) for _ in range(8)]
    return [(), *found, *found[:3]]


def parts(table: OptionTable, words: Words) -> list[object]:
    """Return the options of a sentence, to the last bit, with their words and alignments."""
    options = table.sentence(words)
    affiliations = table.affiliations(options)
    assert affiliations is not None
    return [
        [table.words[word] for word in options.target],
        [table.alignment(row) for row in options.rows],
        affiliations.tolist(),
        # Words and rows have other numbers.
        {
            name: values.tobytes()
            for name, values in options._asdict().items()
            if name not in ("target", "rows")
        },
    ]


@pytest.mark.parametrize("most", [500_000, 3])
def test_streams_and_known_texts_have_the_same_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("moses_integration.decoder.options._MOST_PAIRS", most)
    text, small = sentences(1), SmallDecoder(tmp_path, 2, targets=3, models=2)
    small.configuration()
    limited = (tmp_path / "moses.ini").read_text().replace("table-limit=0", "table-limit=2")
    (tmp_path / "moses.ini").write_text(f"[drop-unknown]\n1\n{limited}")
    configuration = DecoderConfiguration.read(str(tmp_path / "moses.ini"))
    model = read_language_models(configuration)
    known = PhraseOptions(configuration, model, aligned=True, sentences=text)
    stream = PhraseOptions(configuration, model, aligned=True)
    found = []
    for weights, other in [({}, 0.5), ({"LM0": (-2.0,), "TranslationModel0": (0.1, 2.0)}, 0.0)]:
        for options in (known, stream):
            options.use(configuration.with_weights(weights), other)
        found.append([parts(known.of(words), words) for words in text])
        assert [parts(stream.of(words), words) for words in text] == found[-1]
        assert stream._num_pairs <= max(most, 80)  # what the last sentence needs stays
    assert found[0] != found[1]
    assert known.num_copied == sum(words.count("g") + words.count("h1") for words in text) > 0


def test_the_numbers_of_words_only_grow(tmp_path: Path) -> None:
    configuration = SmallDecoder(tmp_path, 3).configuration()
    options = PhraseOptions(configuration, read_language_models(configuration), aligned=False)
    options.use(configuration, 0.0)
    first = list(options.of(("a", "new")).words)
    second = options.of(("b", "newer", "new")).words
    assert second[: len(first)] == first
    assert second[len(first) :] == ["newer"]
