"""The Transformer: training against torch's own, and scores of lists against CTranslate2's.

Both sides have the same weights and one thread, and seconds are of the processor.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import ctranslate2
import numpy as np
import torch
from ctranslate2.specs import TransformerSpec
from torch import Tensor, nn
from torch.nn import functional

from phrasescore.io.corpora import read_parallel_text
from phrasescore.models.checkpoint import (
    Checkpoint,
    TrainingRecord,
    empty_network,
    load_checkpoint,
)
from phrasescore.models.transformer import MultiHeadAttention, TransformerNetwork, sinusoids
from phrasescore.records import HypothesisList
from phrasescore.settings.compute import Compute
from phrasescore.settings.config import Config
from phrasescore.training.pair_store_writer import CountedPair, Shortlist, write_pair_store
from phrasescore.vocabulary import Vocabulary
from tests.benchmarks.machine import torch_threads
from tests.benchmarks.material import padded_vocabularies
from tests.benchmarks.plain_torch import IdPair
from tests.benchmarks.rescoring import LINE_STEP, read_lists
from tests.benchmarks.results import Report, Row, quotients
from tests.benchmarks.training import Contest
from tests.sentence_scores import SentenceScores

CHUNK = 5
PADDING = -100  # what cross_entropy ignores
POSITIONS = 512
BATCH_SIZES = (16, 32, 64, 128, 256)
# What CTranslate2's decoder begins with: ours begins with a zero vector.
START = "<start>"
Result = TypeVar("Result")


@dataclass(frozen=True)
class TransformerOptions:
    source: str
    reference: str
    nbest: str
    nbest_source: str
    lists: int
    # The folder of a model; None for start weights of the configured sizes, over words.
    model: str | None
    config: Config
    # Of training, and of scoring.
    turns: int
    scoring_turns: int


def measure_transformer(options: TransformerOptions) -> Report:
    checkpoint = load_checkpoint(options.model) if options.model else random_transformer(options)
    with tempfile.TemporaryDirectory() as name, torch_threads(1):
        rows = [*_measure_scoring(options, checkpoint, Path(name))]
        rows += _measure_training(options, checkpoint, Path(name))
    sizes = checkpoint.config.model
    what = (
        f"{options.model or 'start weights'}: {sizes.layers} layers of {sizes.hidden_size} units, "
        f"vocabularies of {len(checkpoint.source_vocabulary):,} and "
        f"{len(checkpoint.target_vocabulary):,}; {options.lists} lists of {options.nbest}; "
        f"training on {options.source}, {options.turns} turns of {CHUNK} updates; one thread"
    )
    return Report("transformer", what, rows)


def random_transformer(options: TransformerOptions) -> Checkpoint:
    size = options.config.vocabulary.subwords
    sizes = (f"vocabulary.{side}_size={size}" for side in ("source", "target"))
    config = options.config.override(["vocabulary.subwords=0", *sizes])
    pairs = (line.pair for line in read_parallel_text(options.source, options.reference))
    source, target = padded_vocabularies(pairs, config)
    network = empty_network(config, len(source), len(target)).to_empty(device="cpu")
    network.initialize(torch.Generator().manual_seed(1))
    return Checkpoint(network.eval(), config, source, target, TrainingRecord())


# Training


class PlainTransformer(nn.Module):
    """``torch.nn.Transformer`` with the weights of a network; padded, and with dropout as ours."""

    def __init__(self, network: TransformerNetwork) -> None:
        super().__init__()
        config = network.config
        self._size, self._dropout = config.hidden_size, config.dropout
        self.source = nn.Parameter(network.source_embedding.detach().clone())
        self.target = nn.Parameter(network.target_embedding.detach().clone())
        self.weight = self.target
        if not config.tied_embeddings:
            self.weight = nn.Parameter(network.output_weight.detach().clone())
        self.bias = nn.Parameter(network.output_bias.detach().clone())
        sizes = (config.hidden_size, config.heads)
        inner = (config.feed_forward_size, config.dropout)
        form: Any = {"batch_first": True, "norm_first": config.norm == "pre"}
        # As nn.Transformer makes it, but without a warning about nested tensors.
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(*sizes, *inner, **form),
            config.layers,
            nn.LayerNorm(config.hidden_size),
            enable_nested_tensor=False,
        )
        self.layers = nn.Transformer(
            *sizes, config.layers, config.layers, *inner, custom_encoder=encoder, **form
        )
        for module in self.layers.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0  # of the inner units of the feed-forward network
        with torch.no_grad():
            self._copy(network)

    def _copy(self, network: TransformerNetwork) -> None:
        encoder, decoder = self.layers.encoder, self.layers.decoder
        if network.config.norm == "pre":
            _copy(encoder.norm, *_weights(network.encoder_norm))
            _copy(decoder.norm, *_weights(network.decoder_norm))
        else:
            encoder.norm = decoder.norm = None
        layers = [*zip(encoder.layers, network.encoder, strict=True)]
        for theirs, ours in chain(layers, zip(decoder.layers, network.decoder, strict=True)):
            _copy_attention(theirs.self_attn, ours.attention)
            _copy(theirs.norm1, *_weights(ours.attention_norm))
            _copy(theirs.linear1, *_weights(ours.feed_forward.inner))
            _copy(theirs.linear2, *_weights(ours.feed_forward.outer))
            last = getattr(theirs, "norm3", theirs.norm2)
            _copy(last, *_weights(ours.feed_forward_norm))
        for theirs, ours in zip(decoder.layers, network.decoder, strict=True):
            _copy_attention(theirs.multihead_attn, ours.source_attention)
            _copy(theirs.norm2, *_weights(ours.source_norm))

    def loss(self, pairs: Sequence[IdPair], smoothing: float) -> Tensor:
        """Return the sum over all pairs."""
        sources = _pad([[*source, Vocabulary.END] for source, _ in pairs])
        targets = _pad([[*target, Vocabulary.END] for _, target in pairs])
        hidden = sources == PADDING
        words = functional.embedding(targets[:, :-1].clamp(min=0), self.target)
        future = nn.Transformer.generate_square_subsequent_mask(targets.shape[1])
        rows = self.layers(
            self._embed(functional.embedding(sources.clamp(min=0), self.source)),
            self._embed(functional.pad(words, (0, 0, 1, 0))),
            tgt_mask=future,
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
            tgt_is_causal=True,
        )
        real = targets != PADDING
        logits = functional.linear(rows[real], self.weight, self.bias)
        return functional.cross_entropy(
            logits, targets[real], reduction="sum", label_smoothing=smoothing
        )

    def _embed(self, words: Tensor) -> Tensor:
        positions = sinusoids(torch.arange(words.shape[1]), self._size).float()
        rows = words * math.sqrt(self._size) + positions
        return functional.dropout(rows, self._dropout, self.training)


def _measure_training(
    options: TransformerOptions, checkpoint: Checkpoint, folder: Path
) -> Iterator[Row]:
    vocabularies = (checkpoint.source_vocabulary, checkpoint.target_vocabulary)
    store = write_pair_store(
        folder / "pairs",
        (
            CountedPair(line.raw, line.pair, 1.0)
            for line in read_parallel_text(options.source, options.reference)
        ),
        checkpoint.config.vocabulary,
        max_length=checkpoint.config.training.max_length,
        shortlists=(Shortlist("model", vocabularies[0]), Shortlist("model", vocabularies[1])),
    )
    for softmax in ("sampled", "full"):
        config = checkpoint.config.override([f"training.softmax={softmax}"])
        training = config.training
        network = empty_network(config, *map(len, vocabularies)).to_empty(device="cpu")
        assert isinstance(network, TransformerNetwork)
        network.load_state_dict(checkpoint.model.state_dict())
        plain = PlainTransformer(network).train()
        optimizer = torch.optim.Adam(
            plain.parameters(),
            training.learning_rate,
            (training.beta1, training.beta2),
            training.epsilon,
            fused=True,
        )
        train = _plain_steps(plain, optimizer, training.label_smoothing, training.clip_norm)
        contest = Contest(store, train, options.turns, CHUNK, clock=time.process_time)
        times = contest.run(config, network.train(), folder / softmax)
        label = f"training, softmax {softmax}"
        yield Row(f"{label}: torch.nn.Transformer", times.plain, "words/s", 0)
        yield Row(f"{label}: phrasescore", times.ours, "words/s", 0)
        yield Row(f"{label}: phrasescore / torch", quotients(times.ours, times.plain))


def _plain_steps(
    plain: PlainTransformer, optimizer: torch.optim.Optimizer, smoothing: float, clip: float
) -> Callable[[Sequence[IdPair], Iterable[Sequence[int]]], None]:
    def train(pairs: Sequence[IdPair], batches: Iterable[Sequence[int]]) -> None:
        for indices in batches:
            optimizer.zero_grad()
            loss = plain.loss([pairs[index] for index in indices], smoothing)
            (loss / len(indices)).backward()
            nn.utils.clip_grad_norm_(plain.parameters(), clip or math.inf)
            optimizer.step()

    return train


def _weights(module: nn.Module) -> tuple[Tensor, Tensor]:
    assert isinstance(module.weight, Tensor)
    assert isinstance(module.bias, Tensor)
    return module.weight, module.bias


def _copy(module: Any, weight: Tensor, bias: Tensor) -> None:
    module.weight.copy_(weight)
    module.bias.copy_(bias)


def _copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    parts = [_weights(part) for part in (ours.query, ours.key, ours.value)]
    theirs.in_proj_weight.copy_(torch.cat([weight for weight, _ in parts]))
    theirs.in_proj_bias.copy_(torch.cat([bias for _, bias in parts]))
    _copy(theirs.out_proj, *_weights(ours.output))


def _pad(rows: Sequence[Sequence[int]]) -> Tensor:
    parts = [torch.tensor(row) for row in rows]
    return nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=PADDING)


# Scores


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
    spec.register_source_vocabulary(_tokens(checkpoint.source_vocabulary))
    spec.register_target_vocabulary([*_tokens(checkpoint.target_vocabulary), START])
    spec.config.decoder_start_token = START
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))


def _measure_scoring(
    options: TransformerOptions, checkpoint: Checkpoint, folder: Path
) -> Iterator[Row]:
    lists = read_lists(options.nbest, options.nbest_source, options.lists)
    lines = sum(len(item.hypotheses) for item in lists)
    distinct = [HypothesisList(item.source, list(dict.fromkeys(item.hypotheses))) for item in lists]
    write_ctranslate2(checkpoint, folder / "ctranslate2")
    theirs = _Foreign(checkpoint, folder / "ctranslate2")
    pairs, sample = theirs.pairs(distinct), theirs.pairs(lists)[::LINE_STEP]
    ours = SentenceScores([checkpoint], torch.device("cpu"), engine=Compute(workers=1))
    list(ours.values(distinct[:1]))  # compiles
    size = min(BATCH_SIZES, key=lambda size: _timed(lambda: theirs.score(sample, size))[0])
    seconds: dict[str, list[float]] = {"ours": [], "distinct": [], "lines": []}
    for _ in range(options.scoring_turns):
        spent, values = _timed(lambda: list(ours.values(lists)))
        seconds["ours"].append(spent)
        spent, wanted = _timed(lambda: theirs.score(pairs, size))
        seconds["distinct"].append(spent)
        seconds["lines"].append(_timed(lambda: theirs.score(sample, size))[0] * LINE_STEP)
    found = []
    for item, each, scores in zip(lists, distinct, values, strict=True):
        by_hypothesis = dict(zip(item.hypotheses, scores.columns[0].tolist(), strict=True))
        found += [by_hypothesis[hypothesis] for hypothesis in each.hypotheses]
    for label, count, who in (
        ("scores: CTranslate2, distinct hypotheses", len(pairs), "distinct"),
        ("scores: phrasescore, distinct hypotheses", len(pairs), "ours"),
        ("scores: CTranslate2, lines", lines, "lines"),
        ("scores: phrasescore, lines", lines, "ours"),
    ):
        speed = quotients([count] * options.scoring_turns, seconds[who])
        yield Row(label, speed, "hypotheses/s", 0)
    for who in ("distinct", "lines"):
        ratio = quotients(seconds[who], seconds["ours"])
        yield Row(f"scores: phrasescore / CTranslate2, {who}", ratio)
    yield Row("scores: CTranslate2's best number of pairs in a batch", [size], digits=0)
    difference = float(np.abs(np.subtract(found, wanted)).max())
    yield Row("scores: largest difference in log", [difference], digits=7)


class _Foreign:
    """CTranslate2, given the pieces of the words."""

    def __init__(self, checkpoint: Checkpoint, folder: Path) -> None:
        self._checkpoint = checkpoint
        self._translator = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1)

    def pairs(self, lists: Sequence[HypothesisList]) -> list[tuple[list[str], list[str]]]:
        source, target = self._checkpoint.source_vocabulary, self._checkpoint.target_vocabulary
        return [
            ([*_pieces(source, item.source), Vocabulary.SYMBOLS[0]], _pieces(target, hypothesis))
            for item in lists
            for hypothesis in item.hypotheses
        ]

    def score(self, pairs: Sequence[tuple[list[str], list[str]]], batch_size: int) -> list[float]:
        order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
        results = self._translator.score_batch(
            [pairs[i][0] for i in order], [pairs[i][1] for i in order], max_batch_size=batch_size
        )
        values = [0.0] * len(pairs)
        for place, result in zip(order, results, strict=True):
            values[place] = math.fsum(result.log_probs)
        return values


def _pieces(vocabulary: Vocabulary, words: Sequence[str]) -> list[str]:
    return [vocabulary.word(number) for number in vocabulary.ids(words)]


def _tokens(vocabulary: Vocabulary) -> list[str]:
    return [vocabulary.word(number) for number in range(len(vocabulary))]


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().numpy()


def _set(linear: Any, *parts: nn.Linear) -> None:
    linear.weight = _array(torch.cat([part.weight for part in parts]))
    linear.bias = _array(torch.cat([part.bias for part in parts]))


def _set_norm(norm: Any, ours: nn.Module) -> None:
    norm.gamma, norm.beta = map(_array, _weights(ours))
