"""Columns of real n-best lists against what Moses itself wrote there."""

import gzip
import itertools
from pathlib import Path

import pytest

from moses_integration.nbest_lines import parse_features
from tests.command_line import run, succeeded

NUM_LINES = 3000  # three sentences


@pytest.fixture(scope="module")
def rescored(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("real")
    with gzip.open(shared_data / "val.1000best.gz") as lines:
        (folder / "nbest").write_bytes(b"".join(itertools.islice(lines, NUM_LINES)))
    source = (shared_data / "val.en").read_bytes().split(b"\n")[:3]
    (folder / "source").write_bytes(b"\n".join(source) + b"\n")
    options = ["--source", folder / "source", "--lm", shared_data / "lm.fr.arpa.gz"]
    arguments = [*options, "--feature", "target_length", "-o", folder / "out"]
    succeeded(run("rescore", folder / "nbest", *arguments))
    return (folder / "out").read_bytes().split(b"\n")[:-1]


def test_the_language_model_says_what_moses_says_with_the_same_file(rescored: list[bytes]) -> None:
    features = [parse_features(raw) for raw in rescored]
    assert len(features) == NUM_LINES
    # Moses prints six digits.
    for line in features:
        assert line["KenLM0"] == pytest.approx(line["LM0"], rel=2e-5)


def test_moses_word_penalty_is_minus_the_length(rescored: list[bytes]) -> None:
    for line in map(parse_features, rescored):
        assert line["TargetLength0"][0] == -line["WordPenalty0"][0]
