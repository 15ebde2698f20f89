"""Promises of training with subwords, and of what other verbs make of such models."""

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import phrasescore
from moses_integration.nbest import read_nbest
from phrasescore.errors import ArgumentError, ModelError, PhrasescoreError
from phrasescore.models.attention import attention_weights
from phrasescore.models.batches import PairBatch
from phrasescore.models.checkpoint import load_checkpoint
from phrasescore.models.feed_forward import CslmNetwork
from phrasescore.models.layers import PairNetwork
from phrasescore.models.rnnsearch import RnnsearchNetwork
from phrasescore.models.summary import model_report
from phrasescore.progress import Progress
from phrasescore.records import HypothesisList
from phrasescore.settings.compute import Compute
from phrasescore.settings.declaration import grouped
from phrasescore.settings.scoring import Generating
from phrasescore.settings.training import ListTraining, NewNetwork
from phrasescore.training.stores import PairStore
from phrasescore.workflows.fine_tune import fine_tune
from tests.reference_subwords import COUNTS
from tests.sentence_scores import SentenceScores
from tests.tiny_arpa import TINY_ARPA
from tests.tiny_runs import write_table

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = Compute(device="cpu", threads=1)

WORDS = sorted(COUNTS)
SIZES = {
    "rnnsearch": ("hidden_size=6", "embedding_size=5", "maxout_size=4", "alignment_size=4"),
    "cslm": ("order=3", "hidden_size=6", "embedding_size=5", "upper_size=4"),
    "encoder-decoder": ("hidden_size=6", "embedding_size=5", "maxout_size=4"),
    "grconv": ("hidden_size=6", "encoder_size=6", "embedding_size=5", "maxout_size=4"),
    "lstm": ("layers=1", "hidden_size=6", "embedding_size=5"),
}


@pytest.fixture(name="texts", scope="module")
def written_texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Sentences that share words, and translations that are their words turned round."""
    folder = tmp_path_factory.mktemp("texts")
    sentences = [
        [WORDS[(number * 7 + place * number) % len(WORDS)] for place in range(1 + number % 5)]
        for number in range(80)
    ]
    source, target = folder / "source", folder / "target"
    source.write_text("".join(" ".join(words) + "\n" for words in sentences))
    target.write_text("".join(" ".join(words[::-1]) + " la\n" for words in sentences))
    return source, target


def train(
    kind: str, texts: tuple[Path, Path], output: Path, more: Sequence[str] = (), **options: object
) -> None:
    changes = [f"model.{size}" for size in SIZES[kind]]
    changes += ["training.batch_size=8", "training.validation_share=0.1", *more]
    defaults = {"updates": 12, "subwords": 40, "compute": CPU}
    inputs = texts[1:] if kind == "cslm" else texts
    given = defaults | {"changes": changes} | options
    phrasescore.train(kind, inputs, output, **grouped(phrasescore.train, given))


@pytest.mark.parametrize("kind", sorted(SIZES))
def test_every_kind_learns_from_pieces(kind: str, texts: tuple[Path, Path], tmp_path: Path) -> None:
    train(kind, texts, tmp_path / "model", updates=3)
    model = load_checkpoint(tmp_path / "model")
    assert model.target_vocabulary.is_subwords
    assert model.source_vocabulary.is_subwords == (kind != "cslm")
    assert len(model.target_vocabulary) == 42
    assert model.record.target_coverage == 1.0
    assert model.config.vocabulary.subwords == 40
    assert (tmp_path / "model" / "target.spm").exists()
    assert "40 subwords, 100.00% of the" in model_report(tmp_path / "model").to_text()


@pytest.mark.parametrize("kind", sorted(SIZES))
def test_every_kind_learns_from_characters(
    kind: str, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    train(kind, texts, tmp_path / "model", updates=1, subwords=None, characters=True)
    model = load_checkpoint(tmp_path / "model")
    known = model.target_vocabulary
    letters = set(texts[1].read_text()) - {" ", "\n"}
    assert {*map(known.word, range(2, len(known)))} == letters | {"▁"}
    (pieces,) = known.split(["la"])
    assert pieces == ("▁", "l", "a")
    assert known.join([*pieces, *pieces]) == ("la", "la")


@pytest.mark.parametrize(
    ("kind", "network"), [("rnnsearch", RnnsearchNetwork), ("cslm", CslmNetwork)]
)
def test_updates_have_other_pieces_and_validation_has_the_usual_ones(
    kind: str,
    network: type[PairNetwork],
    texts: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Predicted pieces with </s>, in updates and in validation.
    seen: dict[bool, Counter[tuple[int, ...]]] = {True: Counter(), False: Counter()}
    forward = network.forward

    def spy(self: PairNetwork, batch: PairBatch) -> torch.Tensor:
        for ids in batch.target.ids.split((batch.target.lengths + 1).tolist()):
            seen[self.training][tuple(ids.tolist())] += 1
        return forward(self, batch)

    monkeypatch.setattr(network, "forward", spy)
    train(kind, texts, tmp_path / "model", more=["training.subword_dropout=0.5"], updates=40)
    known = load_checkpoint(tmp_path / "model").target_vocabulary
    usual = {(*known.ids(line.split()), 0) for line in texts[1].read_text().splitlines()}
    assert set(seen[False]) <= usual
    assert len(set(seen[True]) - usual) > 100
    spelt = {known.join([known.word(number) for number in row[:-1]]) for row in seen[True]}
    assert spelt <= {tuple(line.split()) for line in texts[1].read_text().splitlines()}


@pytest.mark.parametrize("right_to_left", [False, True])
def test_pairs_are_stored_as_the_pieces_of_their_words(
    texts: tuple[Path, Path], tmp_path: Path, right_to_left: bool
) -> None:
    train("lstm", texts, tmp_path / "model", right_to_left=right_to_left, keep_work=True)
    store = PairStore(tmp_path / "model.work" / "pairs")
    store.check()
    lines = [path.read_text().splitlines() for path in texts]
    distinct = list(dict.fromkeys(zip(*lines, strict=True)))
    assert len(store) == len(distinct)
    for number, pair in enumerate(distinct):
        source, target = (
            vocabulary.ids(text.split())
            for vocabulary, text in zip(
                (store.source_vocabulary, store.target_vocabulary), pair, strict=True
            )
        )
        assert len(target) > len(pair[1].split()) or number > 3
        batch = store.batch(torch.tensor([number]).numpy())
        assert batch.source.ids.tolist() == [*source, 0]
        assert batch.target.ids.tolist() == [*target[:: -1 if right_to_left else 1], 0]


def test_pairs_of_too_many_pieces_are_left_out(texts: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text(texts[0].read_text() + "rustigrustigrustigrustig\n")
    target.write_text(texts[1].read_text() + "la\n")
    train("lstm", (source, target), tmp_path / "model")
    whole = load_checkpoint(tmp_path / "model").record
    settings = ["training.max_length=9", *(f"model.{size}" for size in SIZES["lstm"])]
    done = phrasescore.train(
        *("lstm", (source, target), tmp_path / "short"),
        settings=NewNetwork(changes=settings, subwords=40, updates=1),
        compute=CPU,
    )
    assert whole.too_long == 0
    assert done.too_long > 0
    assert done.training_pairs < whole.training_pairs
    settings[0] = "training.max_length=1"  # there are such pairs of words, and none of pieces
    with pytest.raises(PhrasescoreError, match="no pair to train on: 81 lines, none with at most"):
        phrasescore.train(
            *("lstm", (source, target), tmp_path / "none"),
            settings=NewNetwork(changes=settings, subwords=20),
        )


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_resumed_run_ends_with_the_same_model(
    texts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dropout: float
) -> None:
    changes = [f"training.subword_dropout={dropout}"]
    train("rnnsearch", texts, tmp_path / "whole", more=changes)

    def stop(now: Progress) -> None:
        if now.task == "train" and now.skipped + now.done == 7:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("phrasescore.progress.INTERVAL", 0.0)
    with pytest.raises(phrasescore.StoppedError, match="stopped after update 7"):
        train("rnnsearch", texts, tmp_path / "model", more=changes, progress=stop)
    train("rnnsearch", texts, tmp_path / "model", resume=True, subwords=None)
    for name in ("model.safetensors", "source.spm", "target.spm", "target.vocab"):
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert load_checkpoint(tmp_path / "model").fingerprint == (
        load_checkpoint(tmp_path / "whole").fingerprint
    )


def test_a_run_of_other_subwords_is_not_resumed(texts: tuple[Path, Path], tmp_path: Path) -> None:
    train("lstm", texts, tmp_path / "model", keep_work=True)
    with pytest.raises(
        PhrasescoreError, match=r"\[vocabulary\] subwords: the run to resume has 40"
    ):
        train("lstm", texts, tmp_path / "model", resume=True, subwords=50, updates=14)


def test_the_table_of_an_encoder_decoder_has_pieces(tmp_path: Path) -> None:
    table = write_table(tmp_path / "table")
    phrasescore.train(
        *("encoder-decoder", table, tmp_path / "model"),
        settings=NewNetwork(
            changes=[f"model.{size}" for size in SIZES["encoder-decoder"]], subwords=30, updates=3
        ),
        compute=CPU,
    )
    done = phrasescore.annotate(
        *(table, [str(tmp_path / "model")], tmp_path / "annotated"), compute=CPU
    )
    assert done.lines == 60


@pytest.fixture(name="models", scope="module")
def trained_models(
    texts: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    torch.set_num_threads(1)
    for kind in ("rnnsearch", "cslm"):
        train(kind, texts, folder / kind, updates=40)
    train("rnnsearch", texts, folder / "other", subwords=60, updates=2)
    train("rnnsearch", texts, folder / "backwards", right_to_left=True, updates=40)
    return {path.name: path for path in folder.iterdir() if path.is_dir()}


@pytest.mark.parametrize("name", ["rnnsearch", "backwards"])
def test_generate_writes_words_with_the_scores_of_rescore(
    name: str, models: dict[str, Path], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_text("la maison\n\nles grandes rueettes\nlaxyz\n")
    phrasescore.generate(
        *(source, models[name], tmp_path / "out"),
        settings=Generating(beam=4),
        nbest=(tmp_path / "nbest", 4),
        compute=CPU,
    )
    sentences = [tuple(line.split()) for line in source.read_text().splitlines()]
    scores = SentenceScores([load_checkpoint(models[name])], torch.device("cpu"))
    several = 0
    for nbest in read_nbest(str(tmp_path / "nbest")):
        if not sentences[nbest.id]:
            continue
        words = [tuple(text.decode().split()) for text in nbest.hypotheses]
        several += len(words)
        assert len(set(words)) == len(words)
        assert not any("▁" in word or "<unk>" in word for each in words for word in each)
        (found,) = scores.values([HypothesisList(sentences[nbest.id], words)])
        (feature,) = nbest.features(0)
        values = [nbest.features(place)[feature][0] for place in range(len(words))]
        assert values == pytest.approx(found.columns[0].tolist(), abs=1e-3)
    assert several > 4


def test_samples_are_words_with_the_scores_of_rescore(
    models: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "source").write_text("la maison\n")
    phrasescore.generate(
        *(tmp_path / "source", models["rnnsearch"], tmp_path / "out"),
        settings=Generating(sample=30),
        compute=CPU,
    )
    rows = [line.split(" ||| ") for line in (tmp_path / "out").read_text().splitlines()]
    words = [tuple(row[1].split()) for row in rows]
    assert len(rows) > 2
    scores = SentenceScores([load_checkpoint(models["rnnsearch"])], torch.device("cpu"))
    (found,) = scores.values([HypothesisList(("la", "maison"), words)])
    assert [float(row[2]) for row in rows] == pytest.approx(found.columns[0].tolist(), abs=1e-3)


def test_what_makes_no_sense_with_subwords_is_refused(
    models: dict[str, Path], texts: tuple[Path, Path], tmp_path: Path
) -> None:
    source, rnnsearch, out = texts[0], models["rnnsearch"], tmp_path / "out"
    with pytest.raises(ModelError, match="predict words, but this one predicts subwords"):
        phrasescore.export(models["cslm"], out)
    with pytest.raises(ModelError, match="with the same subwords; rescore accepts any"):
        phrasescore.generate(
            *(source, rnnsearch, out),
            settings=Generating(ensemble=[models["other"]]),
            compute=Compute(threads=1),
        )
    links = tmp_path / "links"
    links.write_text("0-0\n" * 80)
    with pytest.raises(ArgumentError, match="--subwords: joint predicts aligned words"):
        phrasescore.train("joint", texts, out, alignments=links, settings=NewNetwork(subwords=40))
    dropout = NewNetwork(changes=["training.subword_dropout=0.1"])
    with pytest.raises(ArgumentError, match=r"training.subword_dropout needs --subwords"):
        phrasescore.train("lstm", texts, out, settings=dropout)
    with pytest.raises(ArgumentError, match=r"training.subword_dropout needs --subwords"):
        phrasescore.train("joint", texts, out, alignments=links, settings=dropout)
    assert not out.exists()


def test_perplexities_stand_beside_those_of_an_n_gram_model(
    models: dict[str, Path], texts: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "lm").write_text(TINY_ARPA)
    (found,) = phrasescore.perplexity(
        [texts[1]], model=models["cslm"], lm=tmp_path / "lm", compute=CPU
    )
    of_ngrams, of_network = found.models["lm"], found.models["network, subwords"]
    # The same words of Moses, of which one model knows two and the other all.
    assert of_network.tokens == of_ngrams.tokens
    assert of_ngrams.unknown > of_network.unknown == 0


@pytest.mark.parametrize("name", ["target.spm", "source.spm"])
def test_a_changed_missing_or_foreign_model_of_sentencepiece_is_refused(
    name: str, models: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(models["rnnsearch"], folder)
    shutil.copy(models["other"] / name, folder / name)
    with pytest.raises(ModelError, match=f"{name}: the sentencepiece model changed: expected"):
        load_checkpoint(folder)
    (folder / name).unlink()
    with pytest.raises(ModelError, match=f"not a whole model: {name} is missing"):
        load_checkpoint(folder)
    # A record that knows nothing of it.
    record = json.loads((folder / "training.json").read_text())
    del record["fingerprints"][name]
    (folder / "training.json").write_text(json.dumps(record))
    with pytest.raises(ModelError, match="recorded direction does not fit the fingerprint"):
        load_checkpoint(folder)


def test_a_model_of_words_is_not_given_pieces(texts: tuple[Path, Path], tmp_path: Path) -> None:
    train("lstm", texts, tmp_path / "words", subwords=None)
    train("lstm", texts, tmp_path / "pieces")
    shutil.copy(tmp_path / "pieces" / "target.spm", tmp_path / "words")
    with pytest.raises(ModelError, match=r"target.spm: the sentencepiece model changed"):
        load_checkpoint(tmp_path / "words")


def test_attention_is_per_word(models: dict[str, Path]) -> None:
    for name in ("rnnsearch", "backwards"):
        model = load_checkpoint(models[name])
        read, predicted = ("les", "maisonettes", "xyz"), ("la", "rustig")
        rows = attention_weights(model, read, predicted)
        assert [len(row) for row in rows] == [len(read) + 1] * (len(predicted) + 1)
        assert [sum(row) for row in rows] == pytest.approx([1.0] * 3, abs=1e-4)


def test_a_network_of_pieces_learns_from_lists(
    models: dict[str, Path], texts: tuple[Path, Path], tmp_path: Path
) -> None:
    lines = [path.read_text().splitlines() for path in texts]
    with (tmp_path / "nbest").open("w") as file:
        for number, target in enumerate(lines[1]):
            for text in (target, f"{target} maisonette", "la rues"):
                file.write(f"{number} ||| {text} ||| LM0= -{len(text)} ||| -{len(text)}\n")
    (tmp_path / "weights").write_text("LM0= 0.5\nRNNsearch0= 0.5\n")
    done = fine_tune(
        model=models["rnnsearch"],
        output=tmp_path / "tuned",
        lists=[tmp_path / "nbest"],
        source=texts[0],
        references=[texts[1]],
        weights=tmp_path / "weights",
        settings=ListTraining(updates=3),
        compute=CPU,
    )
    assert done.updates == 3
    tuned, before = (load_checkpoint(path) for path in (tmp_path / "tuned", models["rnnsearch"]))
    assert tuned.target_vocabulary == before.target_vocabulary
    assert tuned.fingerprint != before.fingerprint


def test_too_few_pieces_for_the_characters_leave_no_run(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(PhrasescoreError, match="different characters, each of which is a piece"):
        train("lstm", texts, tmp_path / "model", subwords=5)
    assert list(tmp_path.iterdir()) == []
