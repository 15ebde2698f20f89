"""``phrasescore init``: the file that it writes, what it finds, and what it refuses."""

import re
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from phrasescore.errors import PhrasescoreError
from phrasescore.systems.folder import write_system
from phrasescore.systems.system import read_system
from phrasescore.workflows.experiment import choice
from phrasescore.workflows.experiment.choice import (
    PLANS,
    NetworkChoice,
    TuningPlan,
    choose_networks,
    divide_time,
    rows_of,
    total_seconds,
)
from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.plan import build_plan
from phrasescore.workflows.experiment.rows import STANDARD, Row
from phrasescore.workflows.experiment.steps import Step
from tests.command_line import check_refusal, run, succeeded
from tests.phrasescore.workflows.experiment.tiny_language import write_language
from tests.tiny_bitext import sentence_pairs

TEXTS = "--train train.s train.t --dev dev.s dev.t --test test.s test.t"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small language, with enough text for a joint model."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    write_language(home, 1_200)
    lengths = [len(line.split()) for line in (home / "train.s").read_text().splitlines()]
    links = (" ".join(f"{at}-{at}" for at in range(length)) for length in lengths)
    (home / "aligned.grow-diag-final-and").write_text("".join(f"{line}\n" for line in links))
    return home


def init(texts: str = TEXTS, options: str = "", ini: str = "moses.ini") -> Result:
    return run("init", ini, *texts.split(), *options.split(), "-o", "new.toml")


def values(path: str = "new.toml") -> dict[str, Any]:
    return tomllib.loads(Path(path).read_text())


def kept(choices: Sequence[NetworkChoice]) -> list[str]:
    return [each.model for each in choices if not each.problem]


@pytest.mark.parametrize(
    ("pairs", "models"),
    [
        (999, []),
        (1_500, ["joint", "rnnsearch", "encoder-decoder", "backward"]),
        (9_200, ["joint", "rnnsearch", "encoder-decoder", "backward"]),
        (29_000, ["joint", "rnnsearch", "encoder-decoder", "backward"]),
        (1_000_000, ["joint", "rnnsearch", "encoder-decoder", "backward"]),
    ],
)
def test_more_text_has_more_networks(pairs: int, models: list[str]) -> None:
    assert kept(choose_networks(pairs)) == models
    without = ["cslm" if model == "joint" else model for model in models]
    assert kept(choose_networks(pairs, has_alignment=False)) == without


@pytest.mark.parametrize(
    ("pairs", "perplexity", "models"),
    [
        (4_071, 371, ["rnnsearch", "backward"]),
        (4_071, 60, ["joint", "rnnsearch", "encoder-decoder", "backward"]),
        (29_000, 371, ["joint", "rnnsearch", "encoder-decoder", "backward"]),
    ],
)
def test_few_sentences_of_varied_text_have_networks_on_lists(
    pairs: int, perplexity: int, models: list[str]
) -> None:
    choices = choose_networks(pairs, perplexity)
    assert kept(choices) == models
    keys = next(each.keys for each in choices if each.model == "rnnsearch")
    few = {'preset = "rnnsearch-few"', 'preset = "rnnsearch-small"'}
    wanted = {371: 'preset = "rnnsearch-few"', 60: 'preset = "rnnsearch-small"'}
    assert few & {*keys} == ({wanted[perplexity]} if pairs < 15_000 else set())
    problem = "4,071 sentence pairs of varied text are too few for it: the n-gram model has a perpl"
    assert any(each.problem.startswith(problem) for each in choices) == ("joint" not in models)


def test_characters_have_only_networks_that_read_the_lists_words() -> None:
    choices = choose_networks(29_000, characters=True)
    assert kept(choices) == ["rnnsearch", "backward"]
    assert all("set.vocabulary.subwords = 1" in each.keys for each in choices)


@pytest.mark.parametrize("pairs", [1_000, 1_500, 9_200, 29_000])
def test_the_epochs_leave_networks_of_text_enough_updates(pairs: int) -> None:
    # The batches of the presets
    rnnsearch = 32 if pairs < 4_000 else 64
    sizes = {"joint": 32, "cslm": 32, "rnnsearch": rnnsearch, "backward": rnnsearch}
    for each in choose_networks(pairs):
        if each.model in sizes:
            assert each.epochs * pairs / sizes[each.model] >= 3_000, each.model


def test_a_column_of_little_text_has_only_the_epochs_of_its_preset() -> None:
    # 2 and 5 epochs; more of the first ones lose BLEU (encoder-decoder-few.toml).
    for pairs, epochs in ((9_200, 2), (29_000, 4 * 5)):
        found = {each.model: each.epochs for each in choose_networks(pairs)}
        assert found["encoder-decoder"] == epochs


def time_of(choices: Sequence[NetworkChoice], plan: TuningPlan) -> float:
    """A minute for each round of each row with 1,000 sentences, and training one after another."""
    searching = [each for each in choices if each.model in ("joint", "cslm")]
    rounds = plan.search_rounds * len(searching)
    rounds += plan.rounds * (1 + len(choices) - len(searching))
    return 60 * (rounds * (plan.sentences or 1_200) / 1_000 + sum(each.minutes for each in choices))


@pytest.mark.parametrize(
    ("minutes", "models", "plan"),
    [
        # Rounds and sentences are saved until the networks have half of 16, 30, 24 and 30 minutes,
        # 50. Rows: 30 rounds of 1.2 minutes, 36.
        (86, ["joint", "rnnsearch", "encoder-decoder", "backward"], TuningPlan(6, 6)),
        # 4 x 3 and 5 rounds of 1.2 minutes, 20.4; of 1 minute; of half a minute.
        (85, ["joint", "rnnsearch", "encoder-decoder", "backward"], TuningPlan(3, 5)),
        (71, ["joint", "rnnsearch", "encoder-decoder", "backward"], TuningPlan(3, 5)),
        (70, ["joint", "rnnsearch", "encoder-decoder", "backward"], TuningPlan(3, 5, 1_000)),
        (66, ["joint", "rnnsearch", "encoder-decoder", "backward"], TuningPlan(3, 5, 500)),
        # They have at least 3, 8, 4 and 12 minutes.
        (36, ["joint", "rnnsearch", "encoder-decoder", "backward"], TuningPlan(3, 5, 500)),
        (35, ["joint", "rnnsearch", "encoder-decoder"], TuningPlan(3, 5, 500)),
        # 8 rounds of half a minute, and 3 minutes.
        (7, ["joint"], TuningPlan(3, 5, 500)),
    ],
)
def test_the_time_is_divided_until_it_is_used(
    minutes: int, models: list[str], plan: TuningPlan
) -> None:
    choices, found = divide_time(choose_networks(29_000), time_of, minutes)
    assert (kept(choices), found) == (models, plan)
    used = time_of([each for each in choices if not each.problem], found) / 60
    # Minutes are rounded down to 0.1.
    assert minutes - 0.1 * len(models) <= used <= minutes
    problems = {each.problem for each in choices if each.model not in (*models, "cslm")}
    assert problems <= {f"there is no time for it in {minutes} minutes"}


def test_a_network_in_the_search_has_at_least_five_rounds() -> None:
    # With 2 rounds a joint model gained 0.03 BLEU on a real task, with 6 rounds 0.70.
    assert all(plan.search_rounds >= 5 for plan in PLANS)


def test_too_little_time_says_how_many_minutes_a_network_needs() -> None:
    # 3 + 5 rounds of half a minute and 3 minutes of the joint model, and a tenth more.
    with pytest.raises(PhrasescoreError, match="no network fits into 5 minutes: needs --minutes 8"):
        divide_time(choose_networks(29_000), time_of, 5)
    choices, _ = divide_time(choose_networks(29_000), time_of, 8)
    assert kept(choices)


def test_without_a_time_every_network_has_its_usual_one() -> None:
    choices, plan = divide_time(choose_networks(29_000), time_of, None)
    minutes = {each.model: each.minutes for each in choices if not each.problem}
    assert minutes == {"joint": 16, "rnnsearch": 30, "encoder-decoder": 24, "backward": 30}
    assert plan == PLANS[0]


def test_steps_wait_for_their_inputs() -> None:
    # With two jobs: a and b from 0, c from 4 (after a), d from 5 (after b and a free place).
    steps = [
        Step(name, name, {}, tuple(map(Path, reads)), (Path(name),))
        for name, reads in (("a", ""), ("b", ""), ("c", "a"), ("d", "b"))
    ]
    seconds = {"a": 4.0, "b": 5.0, "c": 10.0, "d": 3.0}
    times = {step: seconds[step.name] for step in steps}
    assert total_seconds(times, 2) == 14
    assert total_seconds(times, 1) == 22


@pytest.mark.usefixtures("folder")
def test_the_file_is_an_experiment_that_says_what_is_in_it() -> None:
    result = succeeded(init(options="--minutes 3"))
    assert "dev.s: 0 of " in result.stderr
    assert re.search(r"^ *\d+:\d\d  train joint$", result.stdout, re.MULTILINE)
    total = re.search(r"^In all: (\d):(\d\d)$", result.stdout, re.MULTILINE)
    assert total is not None
    assert 60 * int(total[1]) + int(total[2]) <= 180
    assert "Without cslm: a joint model gains more" in result.stdout
    shown = succeeded(run("experiment", "new.toml", "-o", "out", "--dry-run")).stdout
    assert "tune +joint seed 1" in shown
    found = values()
    assert found["data"]["alignments"] == "aligned.grow-diag-final-and"
    assert found["data"]["test"] == {"test": {"source": "test.s", "references": ["test.t"]}}
    assert found["models"]["joint"]["unnormalized"] is True


def test_no_experiment_is_written_if_no_network_fits_into_the_time(folder: Path) -> None:
    result = init(options="--minutes 0.01")
    check_refusal(result, "no network fits into 0.01 minutes: needs --minutes ")
    needed = re.search(r"needs --minutes (\d+)", result.stderr)
    assert needed is not None
    assert not list(folder.glob("new*"))


def test_little_time_is_saved_on_rounds_and_sentences_and_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "PLANS", (PLANS[0], TuningPlan(2, 5, sentences=4)))
    monkeypatch.setattr(
        "phrasescore.workflows.experiment.init.measure_search", lambda *_: (0.0, 5.0)
    )
    for end in "st":
        (folder / f"dev.{end}").write_text("".join(f"{end}{n}\n" for n in range(12)))
    monkeypatch.setattr(
        "phrasescore.workflows.experiment.texts.SystemText._check_words", lambda *_: None
    )
    # Baseline and joint: 2 and 5 rounds of 4 sentences of 5 seconds, and 16 in trials.
    result = succeeded(init(options="--minutes 9"))
    saved = [
        "2 rounds of tuning in place of 6, 5 for rows with a network in the search",
        "tuning on 4 of the 12 sentences of dev",
    ]
    assert re.findall("Saved: (.*)", result.stdout) == saved
    assert re.findall("# To save time: (.*)[.]", (folder / "new.toml").read_text()) == saved
    found = values()
    assert found["engine"]["iterations"] == 2
    assert {"name": "+joint", "search": ["joint"], "iterations": 5} in found["systems"]
    assert found["data"]["dev"] == {
        "source": "new.text/dev.sample.source",
        "references": ["new.text/dev.sample.target0"],
    }
    assert (folder / "new.text" / "dev.sample.source").read_text() == "s0\ns3\ns6\ns9\n"
    assert (folder / "new.text" / "dev.sample.target0").read_text() == "t0\nt3\nt6\nt9\n"
    wanted = read_experiment("new.toml")
    assert {row.name: row.iterations for row in wanted.systems}["+joint"] == 5


def test_paths_in_the_folder_move_with_it_and_others_are_absolute(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move(folder / "test.s", folder.parent / "test.s")
    succeeded(init(TEXTS.replace("test.s", "../test.s")))
    assert values()["data"]["test"]["test"]["source"] == str(folder.parent / "test.s")
    assert values()["data"]["moses_ini"] == "moses.ini"
    moved = folder.rename(folder.parent / "moved")
    monkeypatch.chdir(folder.parent)
    succeeded(run("experiment", moved / "new.toml", "-o", "out", "--dry-run"))


def test_paths_in_a_moses_ini_may_start_in_the_working_folder(folder: Path) -> None:
    (folder / "model").mkdir()
    shutil.move(folder / "moses.ini", folder / "model" / "moses.ini")
    succeeded(init(ini="model/moses.ini"))
    assert values()["data"]["paths_from"] == "."
    succeeded(run("experiment", "new.toml", "-o", "out", "--dry-run"))


@pytest.mark.usefixtures("folder")
def test_a_system_is_a_folder() -> None:
    write_system(read_system("moses.ini"), Path("model"))
    succeeded(init(ini="model"))
    assert values()["data"]["moses_ini"] == "model/moses.ini"


def test_all_that_is_switched_off_can_be_switched_on(folder: Path) -> None:
    succeeded(init())
    text = (folder / "new.toml").read_text()
    switched = re.sub(r"^# (?=\[models|set\.|(kind|minutes|epochs|right_to_left|"
                      r"seed|unnormalized) = )", "", text, flags=re.MULTILINE)  # fmt: skip
    (folder / "all.toml").write_text(switched)
    wanted = read_experiment("all.toml")
    assert {"joint", "cslm", "rnnsearch", "encoder-decoder", "backward"} == set(wanted.models)
    build_plan(wanted, folder / "out")


def test_there_is_a_row_for_each_place_and_one_with_all_networks() -> None:
    for chosen, shown in (
        ("", []),
        ("rnnsearch", ["+RNNsearch"]),
        ("rnnsearch backward", ["+RNNsearch both ways"]),
        ("cslm rnnsearch", ["+CSLM", "+RNNsearch", "+CSLM+RNNsearch"]),
        (
            "joint rnnsearch encoder-decoder backward",
            ["+joint", "+RNN", "+RNNsearch both ways", "+joint+RNN+RNNsearch both ways"],
        ),
    ):
        choices = [each for each in choose_networks(29_000) if each.model in chosen.split()]
        first, *rows = rows_of(choices, TuningPlan(3, 5))
        assert first == Row("Baseline")
        assert [row.name for row in rows] == shown
        for row in rows:
            assert (row.iterations == 5) == bool(row.search)
            assert {name for _, name in row.features()} <= set(chosen.split())
            if row.name in STANDARD:
                assert replace(row, iterations=None) == STANDARD[row.name]
        assert not rows or {name for _, name in rows[-1].features()} == set(chosen.split())


def test_a_table_that_cannot_be_built_again_has_a_network_that_is_not_trained_for_bleu() -> None:
    for cross_fits in (True, False):
        (column,) = (
            each
            for each in choose_networks(29_000, cross_fits=cross_fits)
            if each.model == "encoder-decoder"
        )
        assert ('objective = "bleu"' in column.keys) == cross_fits


def test_a_name_stands_for_numbered_references(folder: Path) -> None:
    for number in range(2):
        shutil.copy(folder / "dev.t", folder / f"dev.ref{number}")
    succeeded(init(TEXTS.replace("dev.t", "dev.ref")))
    assert values()["data"]["dev"]["references"] == ["dev.ref0", "dev.ref1"]


def test_text_is_prepared_as_the_system_s_own_text(folder: Path) -> None:
    ini = (folder / "moses.ini").read_text()
    (folder / "moses.ini").write_text(f"# phrasescore: lowercase = true\n{ini}")
    for name in ("dev.s", "dev.t"):
        (folder / name).write_text((folder / name).read_text().upper())
    plain = (folder / "dev.s").read_text().lower()
    result = succeeded(init())
    assert "dev.s: 0 of " in result.stderr
    assert values()["data"]["dev"]["source"] == "new.text/dev.source"
    assert (folder / "new.text" / "dev.source").read_text() == plain
    assert values()["data"]["test"]["test"]["references"] == ["new.text/test.test.target0"]


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (TEXTS.replace("dev.s", "no"), "no: expected a file, found none"),
        (TEXTS.replace("train.s train.t", "train.t train.s"), "are source and translation"),
        (TEXTS.replace("dev.s dev.t", "dev.t dev.s"), "dev.t: "),
        (TEXTS.replace("train.t", "short"), "short:1200: expected as many lines as train.s has"),
        (TEXTS.replace("dev.t", "short"), "dev.s:13: expected as many lines as short has"),
        (TEXTS.replace("train.t", "train.s"), "in the model's language"),
        (TEXTS + " --alignments dev.t", "expected as many lines as "),
    ],
)
def test_texts_that_cannot_be_right_are_refused(folder: Path, texts: str, problem: str) -> None:
    lines = (folder / "train.t").read_text().splitlines(keepends=True)
    (folder / "short").write_text("".join(lines[:-1]))
    check_refusal(init(texts), problem)
    assert not list(folder.glob("new*"))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[weight]", "[search-algorithm]\n3\n[weight]", "[search-algorithm] : expected 0 (stacks)"),
        ("path=table", "path=none", "moses.ini:4: [feature] TM0: cannot open"),
        ("[feature]", "[weight-l]\n0.5\n[feature]", "expected weights only in [weight]"),
        ("Distortion\n", "Distortion\nSRILM name=LM1 path=lm.arpa\n", "does not support SRILM"),
    ],
)
def test_a_system_that_the_search_does_not_support_is_refused(
    folder: Path, old: str, new: str, problem: str
) -> None:
    ini = (folder / "moses.ini").read_text()
    (folder / "moses.ini").write_text(ini.replace(old, new))
    check_refusal(init(), problem)
    assert not (folder / "new.toml").exists()


def test_a_file_is_never_overwritten(folder: Path) -> None:
    (folder / "new.toml").write_text("mine")
    check_refusal(init(), "new.toml: expected the name of a new file")
    assert (folder / "new.toml").read_text() == "mine"
    check_refusal(run("init", "moses.ini", *TEXTS.split(), "-o", "-"), "the name of a new file")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--tokenize en fr --truecase", "--characters"])
def test_from_raw_text_to_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = sentence_pairs(1_200)
    if how == "--characters":
        pairs = [(source.split()[1], target.split()[2]) for source, target in pairs]
    else:
        pairs = [(f"{one.capitalize()}.", f"{two.capitalize()}.") for one, two in pairs]
        pairs[7] = ("", "")  # left out by build
    for name, part in (("train", pairs[:1_100]), ("dev", pairs[1100:1120]), ("test", pairs[1150:])):
        for side, end in enumerate("st"):
            (tmp_path / f"{name}.{end}").write_text("".join(f"{pair[side]}\n" for pair in part))
    succeeded(run("build", "train.s", "train.t", "-o", "model", *how.split(), "--workers", "1"))
    result = succeeded(init(ini="model/moses.ini", options="--minutes 2"))
    found = values()
    text = (tmp_path / "new.toml").read_text()
    if how == "--characters":
        assert found["tuning"]["metric"] == "word_accuracy"
        assert found["data"]["train"] == ["train.s", "train.t"]
    else:
        assert "new.text has the prepared texts" in result.stderr
        assert found["data"]["train"] == ["model/corpus.source.gz", "model/corpus.target.gz"]
        assert found["data"]["alignments"] == "model/aligned.grow-diag-final-and"
        text = re.sub(r"^minutes = .*", "minutes = 0.02", text, flags=re.MULTILINE)
        text = text.replace("iterations = 6", "iterations = 2").replace('"+RNN",', "")
        assert '"+joint"' in text
    (tmp_path / "new.toml").write_text(text)
    succeeded(run("experiment", "new.toml", "-o", "out"))
    rows = values("out/table.toml")["row"]
    assert rows[0]["scores"]["test"]["mean"] > 80
