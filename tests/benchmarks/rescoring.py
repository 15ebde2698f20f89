"""Rescoring: ``rescore`` against plain torch and CTranslate2.

Seconds are of the processor, without loading; both sides have one thread.
"""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from ctranslate2.specs import TransformerSpec
from torch import Tensor, nn
from torch.nn import functional

from phrasescore.models.checkpoint import Checkpoint, save_checkpoint
from phrasescore.models.lstm import LstmNetwork
from phrasescore.models.rnnsearch import RnnsearchNetwork
from phrasescore.models.transformer import TransformerNetwork, sinusoids
from phrasescore.records import HypothesisList
from phrasescore.settings.config import Config
from phrasescore.vocabulary import Vocabulary
from tests.benchmarks.commands import ALONE, PHRASESCORE, measure_work
from tests.benchmarks.material import (
    last_values,
    pairs_of,
    start_checkpoint,
    torch_threads,
    write_lists,
)
from tests.benchmarks.plain_torch import IdPair, plain_lstm, plain_rnnsearch
from tests.benchmarks.results import Report, Row, quotients
from tests.benchmarks.settings import Settings

PRESETS = ("lstm-small", "rnnsearch-small")
TRANSFORMER = "transformer-small"
TURNS = 3
BATCH_SIZE = 64
# The other side scores one line in ten of the decoder's lists, and its time is multiplied by ten,
# because all lines would take it minutes.
LINE_STEP = 10
POSITIONS = 512
# Among these, CTranslate2's fastest number of pairs in a batch is taken.
BATCH_SIZES = (16, 32, 64, 128, 256)
# What CTranslate2's decoder begins with: ours begins with a zero vector.
START = "<start>"
# Source and target of pairs, to scores.
Score = Callable[[Sequence[Any]], list[float]]


def measure_rescoring(settings: Settings) -> Report:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name, torch_threads(1):
        folder = Path(name)
        lists = write_lists(*settings.nbest, settings.lists, folder)
        for preset in PRESETS:
            checkpoint = start_checkpoint(Config.preset(preset), pairs_of(lists))
            model = checkpoint.model
            assert isinstance(model, LstmNetwork | RnnsearchNetwork)
            plain = plain_lstm(model) if isinstance(model, LstmNetwork) else plain_rnnsearch(model)

            def score(pairs: Sequence[IdPair], plain: Any = plain) -> list[float]:
                found: list[float] = plain.score(pairs, BATCH_SIZE)
                return found

            pairs = _ids(checkpoint, lists)
            rows += _compare(checkpoint, lists, pairs, "plain", score, folder)
    return Report("rescoring", f"{_what(settings, lists)}; {', '.join(PRESETS)}", rows)


def measure_transformer(settings: Settings) -> Report:
    config = Config.preset(TRANSFORMER)
    size = config.vocabulary.subwords
    words = (f"vocabulary.{side}_size={size}" for side in ("source", "target"))
    config = config.override(["vocabulary.subwords=0", *words])
    with tempfile.TemporaryDirectory() as name, torch_threads(1):
        folder = Path(name)
        lists = write_lists(*settings.nbest, settings.lists, folder)
        checkpoint = start_checkpoint(config, pairs_of(lists))
        write_ctranslate2(checkpoint, folder / "ctranslate2")
        translator = ctranslate2.Translator(
            str(folder / "ctranslate2"), inter_threads=1, intra_threads=1
        )
        pairs = [
            ([*_tokens(checkpoint.source_vocabulary, source), "</s>"], target)
            for source, target in (
                (source, _tokens(checkpoint.target_vocabulary, ids))
                for source, ids in _ids(checkpoint, lists)
            )
        ]

        def score(pairs: Sequence[Any], size: int = BATCH_SIZE) -> list[float]:
            order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
            results = translator.score_batch(
                *([pairs[i][side] for i in order] for side in (0, 1)), max_batch_size=size
            )
            values = [0.0] * len(pairs)
            for place, result in zip(order, results, strict=True):
                values[place] = math.fsum(result.log_probs)
            return values

        sample = pairs[::LINE_STEP]
        best = min(BATCH_SIZES, key=lambda size: _timed(lambda each: score(each, size), sample)[0])
        rows = _compare(
            checkpoint, lists, pairs, "CTranslate2", lambda each: score(each, best), folder
        )
    return Report("transformer", f"{_what(settings, lists)}; {TRANSFORMER}, words", rows)


def _what(settings: Settings, lists: Sequence[HypothesisList]) -> str:
    lines = sum(len(item.hypotheses) for item in lists)
    distinct = sum(len(set(item.hypotheses)) for item in lists)
    return (
        f"{len(lists)} lists of {settings.nbest[0]}, {lines:,} lines, {distinct:,} distinct "
        "hypotheses; random weights"
    )


def _ids(checkpoint: Checkpoint, lists: Sequence[HypothesisList]) -> list[IdPair]:
    sources, targets = checkpoint.source_vocabulary, checkpoint.target_vocabulary
    return [
        (sources.ids(item.source), targets.ids(hypothesis))
        for item in lists
        for hypothesis in item.hypotheses
    ]


def _compare(
    checkpoint: Checkpoint,
    lists: Sequence[HypothesisList],
    pairs: Sequence[Any],
    other: str,
    score: Score,
    folder: Path,
) -> list[Row]:
    """Let ``rescore`` and another scorer take turns.

    :param pairs: what the other one scores, for each line of the lists.
    """
    save_checkpoint(folder / "model", checkpoint)
    tail = ["--source", "source", "--model", "model", *ALONE, "--output"]
    whole = [*PHRASESCORE, "rescore", "lists.gz", *tail, "out.gz"]
    little = [*PHRASESCORE, "rescore", "little.gz", "--allow-missing", *tail, "little.out"]
    places: dict[tuple[int, tuple[str, ...]], int] = {}
    for number, item in enumerate(lists):
        for words in item.hypotheses:
            places.setdefault((number, words), len(places))
    lines = [(number, words) for number, item in enumerate(lists) for words in item.hypotheses]
    first = {places[line]: place for place, line in reversed(list(enumerate(lines)))}
    distinct = [pairs[first[place]] for place in range(len(places))]
    sample = pairs[::LINE_STEP]
    score(distinct[: 2 * BATCH_SIZE])
    ours: list[float] = []
    of_distinct: list[float] = []
    of_lines: list[float] = []
    for _ in range(TURNS):
        seconds, wanted = _timed(score, distinct)
        of_distinct.append(seconds)
        ours.append(measure_work(whole, little, folder, "cpu"))
        of_lines.append(_timed(score, sample)[0] * LINE_STEP)
    found = last_values(folder / "out.gz")
    difference = [
        abs(value - wanted[places[line]]) for value, line in zip(found, lines, strict=True)
    ]
    name = checkpoint.config.kind
    count = [len(distinct)] * TURNS
    return [
        Row(f"{name}: phrasescore, distinct hypotheses", quotients(count, ours), "/s", 0),
        Row(f"{name}: {other}, distinct hypotheses", quotients(count, of_distinct), "/s", 0),
        Row(f"{name}: against {other}, distinct", quotients(of_distinct, ours)),
        Row(f"{name}: against {other}, every line", quotients(of_lines, ours)),
        Row(f"{name}: largest difference in log", [max(difference)], digits=7),
    ]


def _timed(score: Score, pairs: Sequence[Any]) -> tuple[float, list[float]]:
    start = time.process_time()
    values = score(pairs)
    return time.process_time() - start, values


def write_ctranslate2(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a model of CTranslate2's, by its own specification."""
    network = checkpoint.model
    assert isinstance(network, TransformerNetwork)
    config = network.config
    spec: Any = TransformerSpec.from_config(
        (config.layers, config.layers), config.heads, pre_norm=config.norm == "pre"
    )
    encoder, decoder = spec.encoder, spec.decoder
    encoder.embeddings[0].weight = _array(network.source_embedding)
    decoder.embeddings.weight = _array(functional.pad(network.target_embedding, (0, 0, 0, 1)))
    # The start is never predicted.
    decoder.projection.weight = _array(functional.pad(network.output.weight, (0, 0, 0, 1)))
    decoder.projection.bias = _array(functional.pad(network.output.bias, (0, 1), value=-1e4))
    for side in (encoder, decoder):
        positions = sinusoids(torch.arange(POSITIONS), config.hidden_size)
        side.position_encodings.encodings = _array(positions)
    for theirs, ours in chain(
        zip(encoder.layer, network.encoder, strict=True),
        zip(decoder.layer, network.decoder, strict=True),
    ):
        attention = ours.attention
        _set(theirs.self_attention.linear[0], attention.query, attention.key, attention.value)
        _set(theirs.self_attention.linear[1], attention.output)
        _set_norm(theirs.self_attention.layer_norm, ours.attention_norm)
        _set(theirs.ffn.linear_0, ours.feed_forward.inner)
        _set(theirs.ffn.linear_1, ours.feed_forward.outer)
        _set_norm(theirs.ffn.layer_norm, ours.feed_forward_norm)
    for theirs, layer in zip(decoder.layer, network.decoder, strict=True):
        attention = layer.source_attention
        _set(theirs.attention.linear[0], attention.query)
        _set(theirs.attention.linear[1], attention.key, attention.value)
        _set(theirs.attention.linear[2], attention.output)
        _set_norm(theirs.attention.layer_norm, layer.source_norm)
    if config.norm == "pre":
        _set_norm(encoder.layer_norm, network.encoder_norm)
        _set_norm(decoder.layer_norm, network.decoder_norm)
    source, target = checkpoint.source_vocabulary, checkpoint.target_vocabulary
    spec.register_source_vocabulary(_tokens(source, range(len(source))))
    spec.register_target_vocabulary([*_tokens(target, range(len(target))), START])
    spec.config.decoder_start_token = START
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))


def _tokens(vocabulary: Vocabulary, ids: Sequence[int]) -> list[str]:
    return [vocabulary.word(number) for number in ids]


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().numpy()


def _set(linear: Any, *parts: nn.Linear) -> None:
    linear.weight = _array(torch.cat([part.weight for part in parts]))
    linear.bias = _array(torch.cat([part.bias for part in parts]))


def _set_norm(norm: Any, ours: nn.Module) -> None:
    assert isinstance(ours.weight, Tensor)
    assert isinstance(ours.bias, Tensor)
    norm.gamma, norm.beta = _array(ours.weight), _array(ours.bias)
