"""``phrasescore train --objective bleu --system``: a column, trained in one command."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result

import phrasescore
from moses_integration.nbest_values import read_lists
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.records import WeightPair
from phrasescore.settings.training import ListTraining
from phrasescore.workflows import bleu_training, column_training, fold_lists
from tests.command_line import check_refusal, run, succeeded, suggested_commands
from tests.tiny_bitext import build_bitext, sentence_pairs
from tests.tiny_runs import KilledError

PAIRS = sentence_pairs(40)
SMALL = ("--updates=5", "--set=model.hidden_size=8", "--device=cpu", "--threads=1")
TEXT = ("--text", "s", "t")


@pytest.fixture(scope="module", name="built")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bitext(tmp_path_factory.mktemp("built"), PAIRS)


@pytest.fixture(autouse=True, name="folder")
def copy(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fold_lists, "_FEWEST", 40)
    folder = shutil.copytree(built, tmp_path / "folder")
    monkeypatch.chdir(folder)
    return folder


def train(*words: object, kind: str = "encoder-decoder", start: tuple[str, ...] = SMALL) -> Result:
    system = ("--objective", "bleu", "--system", "model", "-o", "new")
    return run("train", kind, *system, *start, *words)


def fingerprint(folder: str) -> str:
    return load_checkpoint(folder).fingerprint


def test_a_column_is_trained_for_likelihood_and_then_on_lists_of_the_text() -> None:
    result = succeeded(train(*TEXT, "--keep-work"))
    assert suggested_commands(result) == ["phrasescore annotate SYSTEM --model new -o new-system"]
    made = load_checkpoint("new")
    tuning = made.record.fine_tuning
    assert tuning is not None
    assert (tuning.lists, tuning.held_out_lists) == (36, 4)
    assert tuning.feature == "TranslationModel0_4"
    words = ("model/phrase-table.gz", "-o", "start", *SMALL)
    succeeded(run("train", "encoder-decoder", *words))
    assert fingerprint("start") == tuning.start_fingerprint
    assert fingerprint("start") != made.fingerprint


def test_all_weights_are_tuned_with_the_values_of_the_network(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeeded(train(*TEXT, "--keep-work"))
    seen: dict[str, Any] = {}

    def tune(lists: list[Path], references: list[Path], start: Any, **_more: Any) -> Any:
        seen.update(lists=read_lists(lists[0]), references=references[0].read_bytes(), start=start)
        weights = {**start, "LM0": (0.7,), "Column0": (0.25,)}
        return SimpleNamespace(weights=WeightPair(weights, weights))

    monkeypatch.setattr(column_training, "tune", tune)
    monkeypatch.setattr(column_training, "_TUNED", 3)
    done = column_training.fine_tune_column(
        "new.work/start", folder / "new.work/lists", folder / "s", folder / "t", "again",
        settings=ListTraining(feature="TranslationModel0_4", updates=1),
    )  # fmt: skip
    assert done.fine_tuning is not None
    assert done.fine_tuning.weight == 0.25
    assert seen["start"]["Column0"] == (0.0,)
    assert seen["references"] == b"".join((folder / "t").read_bytes().splitlines(keepends=True)[:3])
    assert len(seen["lists"]) == 3
    model = phrasescore.load_model("new.work/start")
    for hypotheses, (source, _) in zip(seen["lists"], PAIRS, strict=False):
        for hypothesis in hypotheses:
            # "0=0 1-2=1": words of the source and of the hypothesis.
            parts = [part.split("=") for part in hypothesis.extra.split("|||")[0].split()]
            spans = [[[int(word) for word in side.split("-")] for side in part] for part in parts]
            phrases = [
                [" ".join(words[span[0] : span[-1] + 1]) for words, span in zip(
                    (source.split(), hypothesis.words), pair, strict=True)]
                for pair in spans
            ]  # fmt: skip
            value = sum(model.score([one], [other])[0] for one, other in phrases)
            assert hypothesis.features["Column0"][0] == pytest.approx(value, abs=1e-4)


def test_a_stopped_run_goes_on_with_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    succeeded(train(*TEXT))
    shutil.move("new", "whole")
    assert not Path("new.work").exists()

    def stop(*_given: Any, **_more: Any) -> None:
        raise KilledError

    for name in ("write_fold_lists", "fine_tune_column"):
        with monkeypatch.context() as patched:
            patched.setattr(bleu_training, name, stop)
            resume = ("--resume",) if name == "fine_tune_column" else ()
            with pytest.raises(KilledError):
                train(*TEXT, *resume)
    assert not Path("new").exists()
    check_refusal(train(*TEXT), "new.work: holds an unfinished run; continue it with --resume")
    problem = "was started with another value for the settings ("
    check_refusal(train(*TEXT, "--resume", "--seed=2"), problem)
    Path("other").write_text(Path("t").read_text("utf-8").replace("rouge", "verte"), "utf-8")
    problem = "new.work: the run was started with another value for the text ("
    check_refusal(train("--text", "s", "other", "--resume"), problem)
    monkeypatch.setattr(bleu_training, "train", stop)
    monkeypatch.setattr(bleu_training, "write_fold_lists", stop)
    succeeded(train(*TEXT, "--resume"))
    assert fingerprint("new") == fingerprint("whole")
    assert not Path("new.work").exists()


def test_a_trained_network_is_trained_further() -> None:
    words = ("model/phrase-table.gz", "-o", "start", *SMALL)
    succeeded(run("train", "encoder-decoder", *words))
    succeeded(train(*TEXT, "--from", "start", start=SMALL[2:]))
    tuning = load_checkpoint("new").record.fine_tuning
    assert tuning is not None
    assert tuning.start_fingerprint == fingerprint("start")


def test_raw_text_is_prepared_as_the_system_was(folder: Path) -> None:
    for name in "st":
        lines = (folder / name).read_text("utf-8").splitlines()
        (folder / name).write_text("".join(f"{line.capitalize()}.\n" for line in lines), "utf-8")
    shutil.rmtree("model")
    more = ("--tokenize", "en", "fr", "--lowercase", "--aligner", "fast-align", "--workers", "1")
    succeeded(run("build", "s", "t", "-o", "model", "--lm-order", "2", *more))
    for path in Path("model").glob("corpus.*"):
        path.unlink()
    succeeded(train(*TEXT, "--keep-work"))
    prepared = Path("new.work/text/train.source").read_text().splitlines()
    assert prepared == [f"{source} ." for source, _ in PAIRS]


def test_a_mistake_is_refused_at_once_and_leaves_nothing(folder: Path) -> None:
    succeeded(run("train", "lstm", "s", "t", "-o", "lstm", "--updates=1", *SMALL[1:]))
    before = sorted(path.name for path in folder.iterdir())
    for words, problem, code in (
        ((), "--system requires --text SOURCE TARGET", 2),
        (
            (*TEXT, "s"),
            "TABLE|TEXT...|SOURCE TARGET cannot be used with --objective bleu and --sys",
            2,
        ),
        ((*TEXT, "--lists", "s"), "--lists cannot be used with --objective bleu and --system", 2),
        (
            (*TEXT, "--from", "lstm"),
            "--updates, --set cannot be used with --from, a network that is trained further",
            2,
        ),
        ((*TEXT, "--alignments", "no"), "no: cannot open: No such file", 1),
        ((*TEXT, "--alignments", "s"), "s:1: expected a word alignment, as", 1),
        (("--text", "t", "s"), "are source and translation swapped?", 1),
        ((*TEXT, "-o", "lstm"), "lstm: already exists; remove it or choose another --output", 1),
    ):
        check_refusal(train(*words), problem, code)
    problem = "--system: expected a network for phrase tables, got a lstm"
    check_refusal(train(*TEXT, kind="lstm"), problem, 2)
    check_refusal(train(*TEXT, "--from", "lstm", start=SMALL[2:]), problem, 2)
    Path("model/aligned.grow-diag-final-and").unlink()
    check_refusal(train(*TEXT), "--alignments is missing: found no file aligned.* of the text", 2)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_wrong_setting_leaves_no_folder() -> None:
    check_refusal(train(*TEXT, "--set", "model.hidden=8"), "hidden")
    check_refusal(train(*TEXT, "--preset", "rnnsearch-small"), "rnnsearch-small")
    assert not Path("new.work").exists()
