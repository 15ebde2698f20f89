"""``phrasescore decode --feature``: a language model or a joint model in the search."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from moses_integration.nbest import NbestList, read_nbest
from tests.command_line import check_refusal, run, succeeded
from tests.doubles import RandomCslm, RandomJoint
from tests.phrasescore.cli.test_decode import INI, LM
from tests.reference_cslm import word_log_probs

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
TARGET_WORDS = ["the", "house", "home"]

LogProb = Callable[[NbestList, int], float]  # log p of a hypothesis of a list


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"table": TABLE, "lm.arpa": LM, "moses.ini": INI, "source": TEXT}.items():
        (tmp_path / name).write_text(text)


def cslm() -> LogProb:
    model = RandomCslm(TARGET_WORDS, order=3, path=Path("cslm"))

    def log_prob(found: NbestList, place: int) -> float:
        ids = model.vocabulary.ids(found.hypotheses[place].decode().split())
        return sum(word_log_probs(model.parameters, 3, ids))

    return log_prob


def joint() -> LogProb:
    model = RandomJoint(["la", "maison"], TARGET_WORDS, path=Path("joint"))

    def log_prob(found: NbestList, place: int) -> float:
        # In this table an unaligned word is the second of its phrase.
        links: dict[int, int] = {}
        for link in found.raws[place].decode().rsplit("|||", 1)[1].split():
            of_source, _, of_target = link.partition("-")
            links[int(of_target)] = int(of_source)
        words = found.hypotheses[place].decode().split()
        affiliations = [links[at] if at in links else links[at - 1] for at in range(len(words))]
        return model.log_prob(TEXT.splitlines()[found.id].split(), words, affiliations)

    return log_prob


def decode(kind: str, *options: str) -> Result:
    arguments = ["decode", "source", "--config", "moses.ini", "--threads", "1", "--device", "cpu"]
    arguments += ["--feature", kind, "--model", kind] if kind else []
    arguments += [] if "--processes" in options else ["--processes", "1"]
    return run(*arguments, *options)


def weighted(name: str, weight: float) -> list[str]:
    Path("weights").write_text(f"{name}= {weight}\n")
    return ["--weights", "weights"]


def read(path: str) -> list[NbestList]:
    return list(read_nbest(path))


KINDS = pytest.mark.parametrize(
    ("make", "kind", "name"), [(cslm, "cslm", "CSLM0"), (joint, "joint", "Joint0")]
)


@KINDS
def test_its_score_is_a_feature_of_every_hypothesis_and_counts(
    make: Callable[[], LogProb], kind: str, name: str
) -> None:
    log_prob = make()
    options = ["--alignment", *weighted(name, 0.5), "-o", "out"]
    result = succeeded(decode(kind, *options, "--nbest", "nbest", "--nbest-size", "30"))
    assert "the networks scored " in result.stderr
    decode("", "--nbest", "plain", "--nbest-size", "1000", "-o", "plain.out")
    without: dict[tuple[int, bytes], list[float]] = {}
    for found in read("plain"):
        for place, text in enumerate(found.hypotheses):
            without.setdefault((found.id, text), []).append(found.total(place))
    seen: dict[bytes, set[float]] = {}
    for found in read("nbest"):
        for place, text in enumerate(found.hypotheses):
            (score,) = found.features(place)[name]
            assert score == pytest.approx(log_prob(found, place), rel=1e-5)
            totals = [total + 0.5 * score for total in without[found.id, text]]
            assert any(found.total(place) == pytest.approx(total, 1e-5) for total in totals)
            seen.setdefault(text, set()).add(score)
    # For a joint model, the same words by other phrases are something else.
    assert (max(map(len, seen.values())) > 1) == (kind == "joint")


@KINDS
def test_the_search_finds_what_is_best_with_it(
    make: Callable[[], LogProb], kind: str, name: str
) -> None:
    log_prob = make()
    decode("", "--nbest", "all", "--nbest-size", "100000", "--alignment", "-o", "plain.out")
    best = {}
    for found in read("all"):
        scored = [
            (found.total(place) + 2 * log_prob(found, place), text)
            for place, text in enumerate(found.hypotheses)
        ]
        best[found.id] = max(scored)[1].strip().decode()
    options = [*weighted(name, 2), "--stack", "0", "--beam-threshold", "0"]
    result = decode(kind, *options)
    assert result.stdout.splitlines() == list(best.values())
    assert result.stdout != Path("plain.out").read_text()


@KINDS
@pytest.mark.parametrize("other", [["--buffer-size", "3"], ["--processes", "2"]])
def test_neither_buffers_nor_processes_change_a_byte(
    make: Callable[[], LogProb], kind: str, name: str, other: list[str]
) -> None:
    make()
    options = [*weighted(name, 0.5), "-o", "out", "--alignment", "--nbest-size", "20"]
    decode(kind, *options, "--nbest", "one")
    succeeded(decode(kind, *options, "--nbest", "two", *other))
    assert Path("one").read_bytes() == Path("two").read_bytes()


def test_a_joint_model_goes_beside_a_language_model() -> None:
    joint()
    cslm()
    succeeded(
        decode(
            "joint",
            "--feature",
            "cslm",
            "--model",
            "cslm",
            "--nbest",
            "nbest",
            "--nbest-size",
            "2",
            "-o",
            "out",
        )
    )
    assert list(read("nbest")[0].features(0))[-2:] == ["Joint0", "CSLM0"]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (TABLE.replace("||| 0-0 1-1", "|||"), "table:1: expected a word alignment in the fourth"),
        (TABLE.replace(" ||| 0-0\n", "\n"), "table:3: expected a word alignment in the fourth"),
        (TABLE.replace("1-0 0-1", "1-0 0-2"), "table:2: the alignment link 0-2"),
    ],
)
def test_a_table_without_alignments_is_refused(table: str, problem: str) -> None:
    joint()
    Path("table").write_text(table)
    check_refusal(decode("joint"), problem)
    assert decode("").exit_code == 0
