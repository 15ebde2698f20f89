"""Networks in the search: a language model or a joint model."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from moses_integration.nbest import NbestList, read_nbest
from phrasescore.features.model import Network
from tests.command_line import check_refusal, column_options, run, succeeded
from tests.doubles import RandomCslm, RandomJoint
from tests.reference_cslm import word_log_probs
from tests.small_system import INI, LM, TEXT

# An unaligned target word, and a pair of phrases whose alignment alone is different.
TABLE = """\
la maison ||| the house ||| 0.25 1 ||| 0-0 1-1
la maison ||| the home ||| 0.25 1 ||| 1-0 0-1
maison ||| home ||| 0.5 1 ||| 0-0
maison ||| house the ||| 0.25 0.5 ||| 0-0
la ||| the ||| 0.5 1 ||| 0-0
bleue maison ||| blue house ||| 0.5 1 ||| 0-0 1-1
"""
OWN = "WordPenalty0= -0.5\nTM0= 1 0\nDistortion0= 1\nLM0= 0.5\n"  # as in moses.ini
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


def write_system(weights: str, *models: str, options: str = "") -> None:
    """Write a system with networks in the search; each weight is ``NAME= VALUE``."""
    rows = ", ".join(f'{{ model = "{model}"{options} }}' for model in models)
    text = f'moses_ini = "moses.ini"\nweights = "weights"\nsearch = [{rows}]\n'
    Path("system.toml").write_text(text)
    Path("weights").write_text(OWN + weights + "\n")


def translate(system: str, *options: str) -> Result:
    usual = ("--tokenized", "--threads", "1", "--device", "cpu", "--workers", "1")
    return run("translate", system, "source", *usual, *options)


def lists_of(system: str, size: int, *options: str) -> list[NbestList]:
    named = ("--nbest", "nbest", "--nbest-size", str(size), "--alignment", "-o", "out")
    succeeded(translate(system, *named, *options))
    return list(read_nbest("nbest"))


KINDS = pytest.mark.parametrize(
    ("make", "kind", "name"), [(cslm, "cslm", "CSLM0"), (joint, "joint", "Joint0")]
)


@KINDS
def test_its_score_is_a_feature_of_every_hypothesis_and_counts(
    make: Callable[[], LogProb], kind: str, name: str
) -> None:
    log_prob = make()
    write_system(f"{name}= 0.5", kind)
    without: dict[tuple[int, bytes], list[float]] = {}
    for found in lists_of("moses.ini", 1000):
        for place, text in enumerate(found.hypotheses):
            without.setdefault((found.id, text), []).append(found.total(place))
    seen: dict[bytes, set[float]] = {}
    for found in lists_of("system.toml", 30):
        for place, text in enumerate(found.hypotheses):
            (score,) = found.features(place)[name]
            assert score == pytest.approx(log_prob(found, place), rel=1e-5)
            totals = [total + 0.5 * score for total in without[found.id, text]]
            assert any(found.total(place) == pytest.approx(total, 1e-5) for total in totals)
            seen.setdefault(text, set()).add(score)
    # For a joint model, the same words by other phrases are something else.
    assert (max(map(len, seen.values())) > 1) == (kind == "joint")
    one = Path("nbest").read_bytes()
    result = translate("system.toml", "--workers", "2", "--nbest", "two", "--nbest-size", "30",
                       "--alignment", "-o", "out")  # fmt: skip
    assert Path("two").read_bytes() == one
    succeeded(result)


@KINDS
def test_the_search_finds_what_is_best_with_it(
    make: Callable[[], LogProb], kind: str, name: str
) -> None:
    log_prob = make()
    best = {}
    for found in lists_of("moses.ini", 100_000):
        scored = [
            (found.total(place) + 2 * log_prob(found, place), text)
            for place, text in enumerate(found.hypotheses)
        ]
        best[found.id] = max(scored)[1].strip().decode()
    write_system(f"{name}= 2", kind)
    limits = ("--set", "limits.stack=0", "--set", "limits.beam-threshold=0")
    assert translate("system.toml", *limits).stdout.splitlines() == list(best.values())
    assert list(best.values()) != Path("out").read_text().splitlines()


def test_networks_are_numbered_by_kind_and_with_weight_0_stand_in_lists_alone() -> None:
    joint()
    cslm()
    RandomCslm(["the"], order=2, seed=5, path=Path("other"))
    write_system("Joint0= 0\nCSLM0= 0\nCSLM1= 0", "joint", "cslm", "other")
    (found, *_) = lists_of("system.toml", 2)
    assert list(found.features(0))[-3:] == ["Joint0", "CSLM0", "CSLM1"]
    assert Path("out").read_text() == translate("moses.ini").stdout


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
    write_system("Joint0= 1", "joint")
    check_refusal(translate("system.toml"), problem)
    assert translate("moses.ini").exit_code == 0


@pytest.mark.parametrize("option", ['backoff_lm = "lm.arpa"', "unnormalized = true"])
def test_unknown_words_are_backed_off_and_log_z_left_out_as_in_rescore(option: str) -> None:
    RandomCslm(TARGET_WORDS, path=Path("cslm"))
    write_system("CSLM0= 0.5", "cslm", options=f", {option}")
    backoff = "lm.arpa" if "lm" in option else None
    column = Network("cslm", backoff_lm=backoff, unnormalized=backoff is None, name="After")
    lists_of("system.toml", 8)
    command = ["rescore", "nbest", "--source", "source", *column_options(column), "--device", "cpu"]
    succeeded(run(*command, "-o", "rescored"))
    write_system("CSLM0= 0.5", "cslm")
    for found, usual in zip(read_nbest("rescored"), lists_of("system.toml", 1), strict=True):
        for place in range(len(found.hypotheses)):
            features = found.features(place)
            assert features["CSLM0"][0] == pytest.approx(features["After"][0], abs=1e-5)
        assert features["CSLM0"] != usual.features(0)["CSLM0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (', backoff_lm = "lm.arpa", unnormalized = true', "cannot be used with"),
        (', backoff_lm = "no.arpa"', "no.arpa: system.toml names it: cannot open: No such file"),
        (', backoff_lm = "source"', "source:1: expected an ARPA file"),
    ],
)
def test_options_of_language_models_that_cannot_be_are_refused(options: str, message: str) -> None:
    RandomCslm(TARGET_WORDS, path=Path("cslm"))
    write_system("CSLM0= 0.5", "cslm", options=options)
    check_refusal(translate("system.toml"), message)
