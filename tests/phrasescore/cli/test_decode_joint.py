"""``phrasescore decode --feature joint``: a joint model in the search."""

from pathlib import Path

import pytest
from click.testing import Result

from moses_integration.nbest import NbestList, read_nbest
from tests.command_line import check_refusal, run, succeeded
from tests.doubles import RandomCslm, RandomJoint
from tests.phrasescore.cli.test_decode import INI, LM

# An unaligned target word, and a pair of phrases whose alignment alone is different.
TABLE = """\
la maison ||| the house ||| 0.25 1 ||| 0-0 1-1
la maison ||| the home ||| 0.25 1 ||| 1-0 0-1
maison ||| home ||| 0.5 1 ||| 0-0
maison ||| house the ||| 0.25 0.5 ||| 0-0
la ||| the ||| 0.5 1 ||| 0-0
bleue maison ||| blue house ||| 0.5 1 ||| 0-0 1-1
"""
TEXT = "la maison\n\nmaison xyz la bleue maison\nla la maison bleue\n"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RandomJoint:
    monkeypatch.chdir(tmp_path)
    for name, text in {"table": TABLE, "lm.arpa": LM, "moses.ini": INI, "source": TEXT}.items():
        (tmp_path / name).write_text(text)
    words = ["the", "house", "home"]
    return RandomJoint(["la", "maison"], words, path=tmp_path / "model")


def decode(*options: str, model: bool = True) -> Result:
    arguments = ["decode", "source", "--config", "moses.ini", "--threads", "1", "--device", "cpu"]
    arguments += ["--feature", "joint", "--model", "model"] if model else []
    arguments += [] if "--processes" in options else ["--processes", "1"]
    return run(*arguments, *options)


def read(path: str) -> list[NbestList]:
    return list(read_nbest(path))


def log_prob(model: RandomJoint, found: NbestList, place: int) -> float:
    """Return log p of a hypothesis; in this table an unaligned word is the second of its phrase."""
    links: dict[int, int] = {}
    for link in found.raws[place].decode().rsplit("|||", 1)[1].split():
        of_source, _, of_target = link.partition("-")
        links[int(of_target)] = int(of_source)
    words = found.hypotheses[place].decode().split()
    affiliations = [links[at] if at in links else links[at - 1] for at in range(len(words))]
    return model.log_prob(TEXT.splitlines()[found.id].split(), words, affiliations)


def test_its_score_is_a_feature_of_every_hypothesis(model: RandomJoint) -> None:
    options = ["--alignment", "--feature-weight", "Joint0=0.5", "-o", "out"]
    result = succeeded(decode(*options, "--nbest", "nbest", "30"))
    assert "the networks scored " in result.stderr
    seen: dict[bytes, set[float]] = {}
    for found in read("nbest"):
        for place, text in enumerate(found.hypotheses):
            expected = log_prob(model, found, place)
            assert found.features(place)["Joint0"][0] == pytest.approx(expected, rel=1e-5)
            seen.setdefault(text, set()).add(found.features(place)["Joint0"][0])
    assert max(map(len, seen.values())) > 1  # the same words by other phrases


def test_the_search_finds_what_is_best_with_it(model: RandomJoint) -> None:
    decode("--nbest", "all", "100000", "--alignment", "-o", "plain.out", model=False)
    best = {}
    for found in read("all"):
        scored = [
            (found.total(place) + 2 * log_prob(model, found, place), text)
            for place, text in enumerate(found.hypotheses)
        ]
        best[found.id] = max(scored)[1].strip().decode()
    options = ["--feature-weight", "Joint0=2", "--stack", "0", "--beam-threshold", "0"]
    result = decode(*options)
    assert result.stdout.splitlines() == list(best.values())
    assert result.stdout != Path("plain.out").read_text()


@pytest.mark.parametrize("other", [["--buffer-size", "3"], ["--processes", "2"]])
@pytest.mark.usefixtures("model")
def test_neither_buffers_nor_processes_change_a_byte(other: list[str]) -> None:
    options = ["--feature-weight", "Joint0=0.5", "-o", "out", "--nbest"]
    decode(*options, "one", "20")
    assert decode(*options, "two", "20", *other).exit_code == 0
    assert Path("one").read_bytes() == Path("two").read_bytes()


@pytest.mark.usefixtures("model")
def test_it_goes_beside_a_language_model() -> None:
    RandomCslm(["the"], order=2, path=Path("cslm"))
    succeeded(decode("--feature", "cslm", "--model", "cslm", "--nbest", "nbest", "2", "-o", "out"))
    assert list(read("nbest")[0].features(0))[-2:] == ["Joint0", "CSLM0"]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (TABLE.replace("||| 0-0 1-1", "|||"), "table:1: expected a word alignment in the fourth"),
        (TABLE.replace(" ||| 0-0\n", "\n"), "table:3: expected a word alignment in the fourth"),
        (TABLE.replace("1-0 0-1", "1-0 0-2"), "table:2: the alignment link 0-2"),
    ],
)
@pytest.mark.usefixtures("model")
def test_a_table_without_alignments_is_refused(table: str, problem: str) -> None:
    Path("table").write_text(table)
    check_refusal(decode(), problem)
    assert decode(model=False).exit_code == 0
