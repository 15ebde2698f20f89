"""Columns of real tables and lists of Moses, which hold what small ones may not."""

import gzip
import itertools
import math
import random
from collections import Counter
from pathlib import Path

import pytest

from moses_integration.nbest_lines import parse_features
from moses_integration.phrase_table import read_phrase_table
from phrasescore.vocabulary import Vocabulary
from tests.command_line import run, succeeded
from tests.doubles import RandomModel
from tests.table_lines import remove_scores

NUM_LINES = 20_000
NUM_SAMPLES = 500


@pytest.fixture(scope="module")
def table(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines from the middle of the real table, where sources have several targets."""
    path = tmp_path_factory.mktemp("real") / "table.gz"
    with gzip.open(shared_data / "phrase-table.gz") as lines:
        path.write_bytes(
            gzip.compress(b"".join(itertools.islice(lines, 50_000, 50_000 + NUM_LINES)))
        )
    return path


@pytest.fixture(scope="module")
def model(table: Path) -> RandomModel:
    counts = Counter[str](), Counter[str]()
    for line in read_phrase_table(str(table)):
        counts[0].update(line.pair.source)
        counts[1].update(line.pair.target)
    shortlists = [[word for word, _ in count.most_common(1500)] for count in counts]
    return RandomModel(table.parent / "model", *shortlists)


def test_the_values_of_a_sample_are_the_reference_s_and_the_rest_is_untouched(
    table: Path, model: RandomModel, tmp_path: Path
) -> None:
    out = tmp_path / "out.gz"
    succeeded(run("annotate", table, "--model", model.path, "-o", out))
    annotated = gzip.decompress(out.read_bytes()).split(b"\n")[:-1]
    stripped = b"".join(remove_scores(line, 1) + b"\n" for line in annotated)
    assert stripped == gzip.decompress(table.read_bytes())
    lines = list(read_phrase_table(str(out)))
    unknown = 0
    for line in random.Random(1).sample(lines, NUM_SAMPLES):
        value = math.log(float(line.raw.split(b" ||| ")[2].split()[-1]))
        expected = max(model.log_prob(*line.pair), -100.0)
        assert value == pytest.approx(expected, abs=1e-4), line.raw
        unknown += Vocabulary.UNKNOWN in model.vocabularies[1].ids(line.pair.target)
    assert unknown > 10


NUM_HYPOTHESES = 3000  # three sentences


@pytest.fixture(scope="module")
def rescored(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("real")
    with gzip.open(shared_data / "val.1000best.gz") as lines:
        (folder / "nbest").write_bytes(b"".join(itertools.islice(lines, NUM_HYPOTHESES)))
    source = (shared_data / "val.en").read_bytes().split(b"\n")[:3]
    (folder / "source").write_bytes(b"\n".join(source) + b"\n")
    options = ["--source", folder / "source", "--lm", shared_data / "lm.fr.arpa.gz"]
    arguments = [*options, "--feature", "target_length", "-o", folder / "out"]
    succeeded(run("rescore", folder / "nbest", *arguments))
    return (folder / "out").read_bytes().split(b"\n")[:-1]


def test_the_language_model_says_what_moses_says_with_the_same_file(rescored: list[bytes]) -> None:
    features = [parse_features(raw) for raw in rescored]
    assert len(features) == NUM_HYPOTHESES
    # Moses prints six digits.
    for line in features:
        assert line["KenLM0"] == pytest.approx(line["LM0"], rel=2e-5)


def test_moses_word_penalty_is_minus_the_length(rescored: list[bytes]) -> None:
    for line in map(parse_features, rescored):
        assert line["TargetLength0"][0] == -line["WordPenalty0"][0]
