"""The embedded search against real Moses: its own lists, and the program itself.

``tests/data/decoded-by-moses/20best.gz`` was written by Moses with the weights of the moses.ini
there. Tests with the marker ``moses`` need ``moses`` on the PATH.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from moses_integration.decoder.configuration import DecoderConfiguration, read_language_models
from moses_integration.decoder.search import StackDecoder
from moses_integration.nbest import read_nbest
from moses_integration.nbest_lines import parse_features
from moses_integration.source_text import read_source
from tests.moses_integration.decoder.given_derivations import (
    Segment,
    score_derivation,
    values_by_name,
)
from tests.moses_integration.decoder.small_decoder import options_of

EXAMPLE = Path("examples") / "english-french"
DECODED = Path("tests") / "data" / "decoded-by-moses"
_SPAN = re.compile(r"\|(\d+)-(\d+)\|")


def make_decoder(ini: str, sentences: Sequence[Sequence[str]]) -> StackDecoder:
    configuration = DecoderConfiguration.read(ini)
    model = read_language_models(configuration)
    return StackDecoder(configuration, options_of(configuration, model, sentences), model)


def slack(number: float) -> float:
    """Return what six digits, which Moses prints, leave open."""
    return 1e-4 + 1e-5 * abs(number)


def test_lists_are_at_least_as_good_as_those_that_moses_wrote(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / DECODED)
    sentences = read_source("source.en")
    decoder = make_decoder("moses.ini", sentences)
    lists = read_nbest("20best.gz")
    values = {}
    for sentence, nbest in zip(sentences, lists, strict=True):
        found = decoder.translate(sentence, nbest=20, distinct=True).nbest
        totals = [nbest.total(place) for place in range(len(nbest.raws))]
        assert len(found) >= len(totals)
        for one, total in zip(found, totals, strict=False):
            assert one.score >= total - slack(total)
        texts = [" ".join(words) for words in nbest.distinct().values()]
        values = {" ".join(one.words): one for one in found}
        assert texts[0] == " ".join(found[0].words)
        for place, text in enumerate(texts):
            if text in values and abs(values[text].score - totals[place]) < slack(totals[place]):
                named = values_by_name(decoder, values[text])
                for name, expected in nbest.features(place).items():
                    for value, printed in zip(named[name], expected, strict=True):
                        assert value == pytest.approx(printed, abs=slack(printed))
    assert values


class MosesLine(NamedTuple):
    segments: list[Segment]
    values: dict[str, tuple[float, ...]]
    total: float


def run_moses(folder: Path, text: str, options: Sequence[str], nbest: Path) -> list[MosesLine]:
    moses = shutil.which("moses")
    if moses is None:
        pytest.skip("needs moses on the PATH")
    command = [moses, "-f", "moses.ini", "-threads", "1", "-v", "0", *options]
    command += ["-n-best-list", str(nbest), "1", "-report-segmentation"]
    subprocess.run(
        command, input=text, cwd=folder, capture_output=True, text=True, check=True, timeout=300
    )
    found: list[MosesLine] = []
    for line in nbest.read_bytes().decode().splitlines():
        fields = line.split(" ||| ")
        segments: list[Segment] = []
        words: list[str] = []
        for word in fields[1].split():
            span = _SPAN.fullmatch(word)
            if span is None:
                words.append(word)
            else:
                segments.append((int(span[1]), int(span[2]) + 1, words))
                words = []
        features = parse_features(line.encode(), str(nbest), len(found) + 1)
        found.append(MosesLine(segments, features, float(fields[3])))
    return found


@pytest.mark.moses
@pytest.mark.parametrize(
    "options",
    [(), ("-s", "20"), ("-search-algorithm", "1", "-cube-pruning-pop-limit", "200")],
    ids=["normal", "narrow", "cube"],
)
def test_derivations_of_moses_have_its_values_and_are_not_better(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.chdir(repository / EXAMPLE)
    sentences = [*read_source("test.en")[:30], (), ("qwertz", "the", "asdf")]
    text = "".join(" ".join(words) + "\n" for words in sentences)
    lines = run_moses(Path(), text, options, tmp_path / "nbest")
    sections = {"-s": "stack"}
    ini = Path("moses.ini").read_text()
    for key, setting in zip(options[::2], options[1::2], strict=True):
        ini += f"\n[{sections.get(key, key[1:])}]\n{setting}\n"
    (tmp_path / "moses.ini").write_text(ini)
    decoder = make_decoder(str(tmp_path / "moses.ini"), sentences)
    not_better = 0
    for sentence, line in zip(sentences, lines, strict=True):
        again = score_derivation(decoder, sentence, line.segments)
        assert again.score == pytest.approx(line.total, abs=slack(line.total))
        values = values_by_name(decoder, again)
        for name, printed in line.values.items():
            for value, number in zip(values[name], printed, strict=True):
                assert value == pytest.approx(number, abs=slack(number))
        not_better += decoder.translate(sentence).score >= line.total - slack(line.total)
    # A search that prunes can lose one by chance.
    assert not_better >= len(sentences) - 1
