"""What runs on a CUDA device, command by command, against the same on the CPU.

``python -m pytest -m gpu``; without a GPU with ``-p tests.pretend_cuda``, as test_pretend_cuda.py
does.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from phrasescore.cli import main
from phrasescore.features.feature import BLOCK_SIZE
from phrasescore.features.networks import SentenceScore
from phrasescore.models.batches import batch_pairs
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.scoring import products
from phrasescore.settings.config import OptimizerName, TrainingConfig
from phrasescore.training.optimizers import build_optimizer
from tests.command_line import succeeded
from tests.random_lists import features
from tests.small_system import INI, LM, OWN_WEIGHTS, TABLE
from tests.tiny_lists import ListTask

pytestmark = pytest.mark.gpu

KINDS = ("encoder-decoder", "lstm", "rnnsearch", "transformer", "grconv", "cslm", "joint")
# What a GPU's products may change of a log-probability of some words, or of a perplexity, as a
# share.
ERRORS = {"float32": 1e-4, "tf32": 0.01, "bfloat16": 0.05}
EVERY_PRECISION = pytest.mark.parametrize("precision", ERRORS)
SIZES = ("--set=model.hidden_size=12", "--set=model.embedding_size=8")
TRANSFORMER = ("--set=model.hidden_size=12", "--set=model.heads=2", "--set=vocabulary.subwords=0")
# A GPU drops other units.
TRAINING = (
    "--set=training.batch_size=16",
    "--set=training.validation_share=0.2",
    "--set=model.dropout=0",
    "--threads=1",
)
FLOAT32 = "--set=training.precision=float32"  # auto depends on the processor
UPDATES = "--updates=5"
WORDS = {
    "en": ["the", "house", "street", "is", "blue", "red", "!", "x"],
    "fr": ["la", "maison", "rue", "est", "bleue", "!"],
}


def run(*arguments: object) -> str:
    result = succeeded(CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False))
    return result.stdout


def train(kind: str, folder: Path, model: Path, *options: object) -> None:
    texts = [folder / "fr"] if kind == "cslm" else [folder / "en", folder / "fr"]
    aligned = ("--alignments", folder / "links") if kind == "joint" else ()
    sizes = TRANSFORMER if kind == "transformer" else SIZES
    run("train", kind, *texts, "-o", model, *aligned, *sizes, *TRAINING, *options)


@pytest.fixture(scope="module", name="folder")
def written_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parallel text, an n-best list, a table, and a model of each kind, trained on the CPU."""
    folder = tmp_path_factory.mktemp("cuda")
    numbers = np.random.default_rng(4)
    texts = {}
    for side, words in WORDS.items():
        # With a word that no model knows.
        texts[side] = [" ".join(numbers.choice([*words, "rare"], 1 + i % 6)) for i in range(200)]
        (folder / side).write_text("".join(f"{line}\n" for line in texts[side]))
    (folder / "links").write_text("0-0\n" * 200)
    few = {"en": [*texts["en"][:11], ""], "fr": texts["fr"][:12]}
    for side, lines in few.items():
        (folder / f"few.{side}").write_text("".join(f"{line}\n" for line in lines))
    with (folder / "nbest").open("w") as nbest, (folder / "table").open("w") as table:
        for i in range(60):
            nbest.write(f"{i // 5} ||| {texts['fr'][i]} ||| LM0= -{i} ||| -{i}\n")
            table.write(f"{texts['en'][i]} ||| {texts['fr'][i]} ||| 0.5 ||| ||| 1 1 1\n")
    # The last list is of an empty sentence, with which no word can be aligned.
    lines = (folder / "nbest").read_text().splitlines()[:55]
    (folder / "nbest.aligned").write_text("".join(f"{line} ||| 0-0\n" for line in lines))
    for kind in KINDS:
        train(kind, folder, folder / kind, UPDATES, "--device=cpu", FLOAT32)
    return folder


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BLOCK_SIZE, "cuda", 16)
    monkeypatch.setitem(products.LEVEL_ROWS, "cuda", 7)
    monkeypatch.setitem(SentenceScore.group_size, "cuda", 16)


def on_both(folder: Path, *arguments: object) -> tuple[Path, Path]:
    outputs = folder / "on-cpu", folder / "on-cuda"
    cpu = [each for each in arguments if not str(each).startswith("--precision")]
    run(*cpu, "-o", outputs[0], "--device=cpu", "--threads=1")
    run(*arguments, "-o", outputs[1], "--device=cuda")
    return outputs


# The device itself: these are what a pretended one has to be like, too.


def test_devices_do_not_mix() -> None:
    here, there = torch.ones(3), torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="same device"):
        here + there
    with pytest.raises(TypeError, match="can't convert cuda"):
        there.numpy()
    assert (there + there).cpu().tolist() == [2.0, 2.0, 2.0]


@pytest.fixture
def waiting_is_an_error() -> Iterator[None]:
    try:
        torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.usefixtures("waiting_is_an_error")
def test_waiting_is_seen() -> None:
    there = torch.ones(3, device="cuda")

    def set_by_places() -> None:
        there[torch.zeros(1, dtype=torch.int64).pin_memory().to("cuda", non_blocking=True)] = 0

    waits = (there.sum().item, there.cpu, there.nonzero, lambda: there[there > 0], set_by_places)
    for wait in waits:
        with pytest.raises(RuntimeError, match="synchronizing"):
            wait()


# Training


@EVERY_PRECISION
@pytest.mark.parametrize("kind", KINDS)
def test_training_goes_as_on_the_cpu(
    folder: Path, tmp_path: Path, kind: str, precision: str
) -> None:
    options = (UPDATES, "--device=cuda", f"--set=training.precision={precision}")
    train(kind, folder, tmp_path / "model", *options)
    cuda, cpu = load_checkpoint(tmp_path / "model"), load_checkpoint(folder / kind)
    assert cuda.record.device == "cuda"
    assert cuda.record.curve[-1].validation_perplexity == pytest.approx(
        cpu.record.curve[-1].validation_perplexity, rel=ERRORS[precision]
    )
    if precision == "float32":
        trained = dict(cpu.model.named_parameters())
        for name, weight in cuda.model.named_parameters():
            assert torch.allclose(weight, trained[name], rtol=0.01, atol=1e-3), name


@pytest.mark.parametrize("kind", ["cslm", "encoder-decoder"])
def test_training_from_lists_goes_as_on_the_cpu(tmp_path: Path, kind: str) -> None:
    task = ListTask(tmp_path, kind, sentences=20)
    records = []
    for device in ("cpu", "cuda"):
        limits = ("--updates=4", "--set=training.validation_updates=2")
        run(*task.arguments(kind, device), *limits, f"--device={device}")
        records.append(load_checkpoint(tmp_path / device).record)
    curves = [[point.expected_bleu for point in record.curve] for record in records]
    assert len(curves[0]) == 3
    assert curves[1] == pytest.approx(curves[0], rel=1e-3)
    assert records[1].device == "cuda"


@pytest.mark.parametrize("optimizer", ["adadelta", "adam", "sgd"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_update_waits_for_nothing(
    folder: Path, kind: str, optimizer: OptimizerName, request: pytest.FixtureRequest
) -> None:
    device = torch.device("cuda")
    network = load_checkpoint(folder / kind).model.train().to(device)
    steps = build_optimizer(network, TrainingConfig(optimizer=optimizer))
    # One without words on each side.
    pairs = [([2, 3, 1], [3, 2]), ([], [3]), ([2], []), ([3], [2, 4, 3, 2])]
    batch = batch_pairs(pairs, [[0, 2], [0], [], [0, 0, 0, 1]])
    batch = batch.pin_memory()
    network(batch.to(device)).sum().backward()
    steps.step(0.001, 1.0)  # optimizers make their state at the first step
    request.getfixturevalue("waiting_is_an_error")
    (-network(batch.to(device))).sum().backward()
    steps.step(0.001, 1.0)


@pytest.mark.parametrize("optimizer", ["adadelta", "adam"])
def test_a_run_goes_on_where_it_was(folder: Path, tmp_path: Path, optimizer: OptimizerName) -> None:
    kind = "encoder-decoder"
    settings = (f"--set=training.optimizer={optimizer}", "--set=training.schedule=constant")
    every = (*settings, "--keep-work", "--device=cuda")
    for name, updates in {"whole": 5, "parts": 3}.items():
        train(kind, folder, tmp_path / name, *every, f"--updates={updates}")
    train(kind, folder, tmp_path / "parts", *every, "--updates=5", "--resume")
    whole, parts = (load_checkpoint(tmp_path / name) for name in ("whole", "parts"))
    assert parts.record.updates == 5
    assert parts.record.curve[-1].validation_perplexity == pytest.approx(
        whole.record.curve[-1].validation_perplexity, rel=1e-4
    )


# Scores


@EVERY_PRECISION
def test_a_table_gets_the_scores_of_the_cpu(folder: Path, precision: str) -> None:
    model = ("--model", folder / "encoder-decoder", f"--precision={precision}")
    cpu, cuda = on_both(folder, "annotate", folder / "table", *model)
    values = [
        [math.log(float(fields[2].split()[-1])) for fields in _lines(path)] for path in (cpu, cuda)
    ]
    assert values[1] == pytest.approx(values[0], rel=ERRORS[precision])


@EVERY_PRECISION
@pytest.mark.parametrize("kind", KINDS)
def test_hypotheses_get_the_scores_of_the_cpu(folder: Path, kind: str, precision: str) -> None:
    lists = folder / ("nbest.aligned" if kind == "joint" else "nbest")
    column = f'model = "{folder / kind}", name = "N0"'
    rescore = ("rescore", lists, "--source", folder / "few.en", "--column", column)
    options = ("--allow-missing", f"--precision={precision}")
    values = [
        [each["N0"][0] for each in features(path)] for path in on_both(folder, *rescore, *options)
    ]
    assert values[1] == pytest.approx(values[0], rel=ERRORS[precision])


def test_perplexities_are_those_of_the_cpu(folder: Path) -> None:
    command = ("perplexity", folder / "few.fr", "--model", folder / "cslm", "--format=json")
    cpu, cuda = (json.loads(run(*command, f"--device={name}")) for name in ("cpu", "cuda"))
    assert _numbers(cuda) == pytest.approx(_numbers(cpu), rel=1e-4)


# What is made of scores


@EVERY_PRECISION
@pytest.mark.parametrize("kind", KINDS[:4])
def test_what_is_generated_is_as_probable_as_on_the_cpu(
    folder: Path, kind: str, precision: str
) -> None:
    lists = []
    for device in ("cpu", "cuda"):
        where = ("--nbest", folder / f"{device}.nbest", "--nbest-size", 2, "-o", folder / device)
        options = ("--beam=3", "--max-length=6", f"--device={device}")
        exact = () if device == "cpu" else (f"--precision={precision}",)
        run("generate", folder / kind, folder / "few.en", *where, *options, *exact)
        read = features(folder / f"{device}.nbest")
        lists.append([value for each in read for (value,) in each.values()])
    assert lists[1] == pytest.approx(lists[0], rel=ERRORS[precision])


@pytest.mark.parametrize("kind", KINDS[:4])
def test_samples_are_those_of_the_cpu(folder: Path, kind: str) -> None:
    command = ("generate", folder / kind, folder / "few.en", "--sample=4", "--max-length=6")
    texts = [[line[:2] for line in _lines(path)] for path in on_both(folder, *command)]
    assert texts[0]
    # A draw may fall on the line between two words.
    assert sum(here != there for here, there in zip(*texts, strict=False)) <= len(texts[0]) // 10


def test_segments_are_those_of_the_cpu(folder: Path) -> None:
    model = ("--model", folder / "rnnsearch", "--confidence=forward")
    command = ("segment", folder / "few.en", *model, "--max-segment=3", "--beam=2")
    cpu, cuda = on_both(folder, *command)
    assert cuda.read_bytes() == cpu.read_bytes()


@pytest.mark.parametrize(("kind", "name"), [("cslm", "CSLM0"), ("joint", "Joint0")])
def test_a_search_asks_a_network_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"table": TABLE, "lm.arpa": LM, "moses.ini": INI, "source": "la maison\nla bleue\n" * 3}
    files["weights"] = f"{OWN_WEIGHTS}{name}= 0.3\n"
    files["system.toml"] = 'moses_ini = "moses.ini"\nweights = "weights"\n'
    files["system.toml"] += f'search = [{{ model = "{folder / kind}" }}]\n'
    for name, text in files.items():
        Path(name).write_text(text)
    # One process: this one has used the device, and cannot be forked any more.
    command = ("translate", "system.toml", "source", "--tokenized", "--workers=1")
    cpu, cuda = on_both(tmp_path, *command)
    assert cuda.read_bytes() == cpu.read_bytes()


def _numbers(found: object) -> list[float]:
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        return [number for part in found for number in _numbers(part)]
    return [float(found)] if isinstance(found, int | float) else []


def _lines(path: Path) -> list[list[bytes]]:
    return [line.split(b" ||| ") for line in path.read_bytes().split(b"\n")[:-1]]
