"""Options, their values and the future of spans, as real Moses prints them with ``-v 3``.

Needs ``moses`` on the PATH; run with ``-m moses``.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from moses_integration.decoder.configuration import (
    STATELESS,
    DecoderConfiguration,
    read_language_models,
)
from moses_integration.decoder.options import OptionTable, SentenceOptions
from moses_integration.nbest_lines import parse_features
from tests.moses_integration.decoder.small_decoder import options_of

pytestmark = pytest.mark.moses

# An option: words, alignment, score with estimate, span, values in the order of moses.ini.
_OPTION = re.compile(r"(.*?) :: .* c=(\S+) \[\[(\d+)\.\.(\d+)\]\]core=\(([^)]*)\)")
_FUTURE = re.compile(r"future cost from (\d+) to (\d+) is (\S+)")


class Printed(NamedTuple):
    # (start, end, words, score, values).
    options: list[tuple[int, int, str, float, tuple[float, ...]]]
    future: dict[tuple[int, int], float]


def run_moses(folder: Path, ini: str, text: str, nbest: Path) -> list[Printed]:
    """Return what Moses prints about each sentence, and let it write n-best lists."""
    moses = shutil.which("moses")
    if moses is None:
        pytest.skip("needs moses on the PATH")
    command = [moses, "-f", ini, "-threads", "1", "-v", "3", "-s", "2"]
    command += ["-n-best-list", str(nbest), "10", "-include-segmentation-in-n-best"]
    done = subprocess.run(
        command, input=text, cwd=folder, capture_output=True, text=True, check=True, timeout=300
    )
    found: list[Printed] = []
    for line in done.stderr.split("\n"):
        if line.startswith("Translating: "):
            found.append(Printed([], {}))
        elif (option := _OPTION.fullmatch(line.strip())) is not None:
            words = option[1].replace("|UNK|UNK|UNK", "").strip()
            values = tuple(map(float, option[5].split(",")))
            span = int(option[3]), int(option[4]) + 1
            found[-1].options.append((*span, words, float(option[2]), values))
        elif (future := _FUTURE.fullmatch(line.strip())) is not None:
            found[-1].future[int(future[1]), int(future[2]) + 1] = float(future[3])
    return found


def option_words(table: OptionTable, options: SentenceOptions, row: int) -> str:
    first, last = options.offsets[row], options.offsets[row + 1]
    return " ".join(table.words[word] for word in options.target[first:last])


def check_options(table: OptionTable, options: SentenceOptions, printed: Printed) -> None:
    """Compare the options; both list them by span and falling score, equal ones in any order."""
    total = options.score + table._estimate[options.rows]
    mine = [
        (start, end, option_words(table, options, row), total[row], tuple(options.values[row]))
        for row, (start, end) in enumerate(zip(options.start, options.end, strict=True))
    ]
    assert len(mine) == len(printed.options) > 0
    for ours, theirs in zip(sorted(mine), sorted(printed.options), strict=True):
        assert ours[:3] == theirs[:3]
        assert ours[3] == pytest.approx(theirs[3], abs=6e-4)  # Moses prints three digits
        num_values = len(ours[4])
        assert ours[4] == pytest.approx(theirs[4][:num_values], abs=6e-4)
    spans = list(zip(options.start, options.end, -total, strict=True))
    assert spans == sorted(spans)
    length = len(options.future)
    assert len(printed.future) == length * (length + 1) // 2
    for (start, end), future in printed.future.items():
        assert options.future[start, end] == pytest.approx(future, abs=6e-4)


def check_lists(
    configuration: DecoderConfiguration, table: OptionTable, lists: Path, sentences: list[list[str]]
) -> None:
    """Compare the sums of options' values with what Moses' n-best lists say, to six digits."""
    slots = [slot for slot in configuration.slots if slot.kind in STATELESS]
    ends = np.cumsum([len(slot.weights) for slot in slots])
    checked = 0
    for raw in lists.read_bytes().splitlines():
        fields = raw.decode().split(" ||| ")
        words, sentence = fields[1].split(), sentences[int(fields[0])]
        options, features = table.sentence(sentence), parse_features(raw)
        total = np.zeros(options.values.shape[1])
        for segment in fields[4].split():
            source, target = (
                [int(place) for place in (part.split("-") * 2)[:2]] for part in segment.split("=")
            )
            phrase = " ".join(words[target[0] : target[1] + 1])
            total += find_values(table, options, (source[0], source[1] + 1), phrase)
        for slot, end in zip(slots, ends, strict=True):
            if slot.kind != "UnknownWordPenalty":
                found = total[end - len(slot.weights) : end]
                assert found == pytest.approx(features[slot.name], rel=1e-5)
        checked += 1
    assert checked > 5


def find_values(
    table: OptionTable, options: SentenceOptions, span: tuple[int, int], words: str
) -> np.ndarray:
    places = (options.start == span[0]) & (options.end == span[1])
    rows = [int(row) for row in np.flatnonzero(places)]
    (row,) = (row for row in rows if option_words(table, options, row) == words)
    return options.values[row]


@pytest.mark.parametrize("ini", ["example", "moses.tuned.ini"])
def test_options_and_futures_are_those_of_moses(
    repository: Path, ini: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository / "examples/english-french"
    text = folder / "dev.en"
    if ini != "example":
        folder = repository.parent / "shared/data"
        text = folder / "test_2016_flickr.en"
        if not text.exists():
            pytest.skip("needs ../shared/data")
    path = "moses.ini" if ini == "example" else ini
    monkeypatch.chdir(folder)
    lines = text.read_text(encoding="utf-8").split("\n")[:5]
    lines += ["zzyzx the xyzzy2 < a", "a", "unheard", " ".join([lines[0]] * 3)]
    sentences = [line.split() for line in lines]
    printed = run_moses(folder, path, "\n".join(lines) + "\n", tmp_path / "nbest")
    configuration = DecoderConfiguration.read(path)
    model = read_language_models(configuration)
    table = options_of(configuration, model, sentences)
    for sentence, of_moses in zip(sentences, printed, strict=True):
        check_options(table, table.sentence(sentence), of_moses)
    check_lists(configuration, table, tmp_path / "nbest", sentences)
