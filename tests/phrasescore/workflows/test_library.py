"""Promises of all functions of the library: values they refuse, and the settings they leave."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import phrasescore
from phrasescore.arguments import flag
from phrasescore.errors import ArgumentError
from phrasescore.records import HypothesisList
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import grouped
from phrasescore.settings.scoring import Generating, Segmenting
from tests.doubles import RandomCslm, RandomModel
from tests.tiny_runs import write_table

# Calls that are right but for the arguments in question; the files are not there.
CALLS: dict[str, tuple[Any, ...]] = {
    "annotate": ("table", ["model"], "out"),
    "build": ("source", "target", "out"),
    "build_lm": (["text"], "out"),
    "evaluate": (["hypotheses"], ["references"]),
    "generate": ("text", "model", "out"),
    "load_model": ("model",),
    "perplexity": (["text"],),
    "rescore": ("lists", "text", ["model"], "out"),
    "score": ("source", "target", ["model"], "out"),
    "segment": ("text", "model", "out"),
    "select": ("text", "out"),
    "train": ("encoder-decoder", "table", "out"),
}
# The values that each function refuses of a parameter.
REFUSED: dict[str, dict[str, object]] = {
    "build": {"lm_texts": "text", "workers": 0, "max_phrase_length": 0, "tokenize": ("en",)},
    "build_lm": {"texts": "text", "order": 11, "prune": (1, 0)},
    "evaluate": {
        "hypotheses": "h",
        "references": "r",
        "metrics": "bleu",
        "by_length": "source",
        "tokenize": "x",
        "paired": "x",
        "report_format": "x",
    },
    "generate": {"ensemble": "m", "beam": 0, "max_length": 0, "nbest": ("n", 0), "sample": 0}
    | {"seed": -1},
    "perplexity": {"texts": "text"},
    "rescore": {"columns": "model"},
    "score": {"columns": "model"},
    "segment": {"confidence": "x", "segmentation": "x", "max_segment": 0, "beam": 0},
    "select": {"share": 2.0, "lines": 0},
    "train": {"kind": "x", "changes": "training.seed=1", "updates": 0},
}
# Parameters whose options have other names.
SHOWN = {
    "metrics": "--metric",
    "names": "--name",
    "changes": "--set",
    "kind": "KIND",
    "report_format": "--format",
}
ON_NETWORKS = (*("annotate", "generate", "load_model", "perplexity", "rescore", "score"), "segment")
CASES = [
    *((name, *case) for name, values in REFUSED.items() for case in values.items()),
    ("evaluate", "metrics", ["x"]),
    ("evaluate", "by_length", ["x"]),
    ("evaluate", "references", []),
    ("annotate", "columns", "model"),
    ("train", "threads", 0),
]


@pytest.mark.parametrize(("name", "parameter", "value"), CASES)
def test_a_value_that_means_nothing_is_refused_by_its_parameter_before_a_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, parameter: str, value: object
) -> None:
    monkeypatch.chdir(tmp_path)
    function = getattr(phrasescore, name)
    arguments = inspect.signature(function).bind(*CALLS[name]).arguments
    shown = SHOWN.get(parameter, flag(parameter))
    with pytest.raises(ArgumentError, match=f"^({parameter}|{shown}): "):
        function(**arguments | grouped(function, {parameter: value}))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def calls(tmp_path: Path, tiny_table: Path) -> Iterator[dict[str, Callable[[], object]]]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    folder = tmp_path / "files"
    folder.mkdir()
    model = str(RandomModel(folder / "model", "uvw", "abcd", seed=8).path)
    cslm = folder / "cslm"
    RandomCslm("uvw", path=cslm)
    (text := folder / "text").write_text("u v\n")
    (lists := folder / "lists").write_text("0 ||| a b ||| LM0= 1 ||| 1\n")
    training = write_table(folder / "training")
    out = tmp_path / "out"
    yield {
        "annotate": lambda: phrasescore.annotate(tiny_table, [model], out),
        "generate": lambda: phrasescore.generate(
            text, model, out, settings=Generating(max_length=2)
        ),
        "load_model": lambda: score_twice(model),
        "perplexity": lambda: phrasescore.perplexity([text], model=cslm),
        "rescore": lambda: phrasescore.rescore(lists, text, [model], out),
        "score": lambda: phrasescore.score(text, text, [model], out),
        "segment": lambda: phrasescore.segment(
            text, model, out, settings=Segmenting(confidence="forward", beam=2)
        ),
        "train": lambda: phrasescore.train(
            "encoder-decoder",
            training,
            out,
            settings=phrasescore.NewNetwork(changes=["model.hidden_size=6"], updates=1),
        ),
    }
    torch.set_num_threads(before)


def score_twice(path: str) -> None:
    model = phrasescore.load_model(path, compute=Compute(threads=1))
    found = model.score(["u", "v"], ["a", "b"])
    lists = [HypothesisList("u", ["a"]), HypothesisList("v", ["b"])]
    for score, scores in zip(found.tolist(), model.score_lists(lists), strict=True):
        assert [score] == pytest.approx(scores, abs=1e-4)
        assert torch.get_num_threads() == 1


@pytest.mark.parametrize("name", [*ON_NETWORKS, "train"])
def test_torch_has_the_callers_threads_again(
    calls: dict[str, Callable[[], object]], name: str
) -> None:
    calls[name]()
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("lists", lambda: phrasescore.tune("nbest", ["ref"], "start", "out")),
        ("references", lambda: phrasescore.tune(["nbest"], "ref", "start", "out")),
        ("models", lambda: phrasescore.make_report("out", models="model")),
        ("references", lambda: phrasescore.tune_system("moses.ini", "src", "ref", "out")),
    ],
)
def test_a_string_in_place_of_several_is_refused(name: str, call: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError, match=f"{name}: expected a sequence, got the string"):
        call()
