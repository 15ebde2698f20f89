"""A small model of CTranslate2's, written by its own specification, and its scores in numpy.

A Transformer, post-normalised as Marian's are, with random weights.
"""

import copy
import math
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from ctranslate2.specs import TransformerSpec
from numpy.typing import NDArray

Floats = NDArray[np.float32]

HEADS = 2
SYMBOLS = ("<s>", "</s>", "<unk>")


class TinyTranslator:
    """A model in a folder.

    :param pieces: of its shared vocabulary, without the symbols.
    :param start: the token that the decoder begins with.
    :param size: units of a layer.
    :param layers: of each side.
    :param positions: pieces of a side at most.
    :param add_source_eos: whether CTranslate2 adds ``</s>`` to the source, as for models of Marian,
        or the caller does, as for models of transformers.
    """

    def __init__(
        self,
        path: Path,
        pieces: Sequence[str],
        *,
        seed: int = 1,
        add_source_eos: bool = False,
        start: str = "</s>",
        size: int = 8,
        layers: int = 1,
        positions: int = 40,
    ) -> None:
        self.path = path
        self.vocabulary = [*SYMBOLS, *pieces]
        self._numbers = np.random.default_rng(seed)
        self._start = start
        self._adds, self._positions, self._size = add_source_eos, positions, size
        spec = TransformerSpec.from_config((layers, layers), num_heads=HEADS, pre_norm=False)
        self._spec: Any = spec
        self._fill()
        self._spec = copy.deepcopy(spec)  # what is saved has other types
        spec.register_source_vocabulary(self.vocabulary)
        spec.register_target_vocabulary(self.vocabulary)
        spec.config.decoder_start_token = start
        spec.config.add_source_eos = add_source_eos
        spec.validate()
        spec.optimize()
        path.mkdir(parents=True)
        spec.save(str(path))

    def _random(self, *shape: int) -> Floats:
        scale = 2 / math.sqrt(self._size)
        return self._numbers.normal(0, scale, shape).astype(np.float32)

    def _fill(self) -> None:
        encoder, decoder = self._spec.encoder, self._spec.decoder
        words, size = len(self.vocabulary), self._size
        encoder.embeddings[0].weight = self._random(words, size)
        decoder.embeddings.weight = self._random(words, size)
        self._fill_linear(decoder.projection, words, size)
        for side in (encoder, decoder):
            side.position_encodings.encodings = self._random(self._positions, size)
            for layer in side.layer:
                self._fill_attention(layer.self_attention, 3 * size, size)
                self._fill_linear(layer.ffn.linear_0, 2 * size, size)
                self._fill_linear(layer.ffn.linear_1, size, 2 * size)
                self._fill_norm(layer.ffn.layer_norm)
        for layer in decoder.layer:
            self._fill_attention(layer.attention, size, 2 * size, size)

    def _fill_attention(self, attention: Any, *rows: int) -> None:
        for linear, count in zip(attention.linear, rows, strict=True):
            self._fill_linear(linear, count, self._size)
        self._fill_norm(attention.layer_norm)

    def _fill_linear(self, linear: Any, rows: int, columns: int) -> None:
        linear.weight, linear.bias = self._random(rows, columns), self._random(rows)

    def _fill_norm(self, norm: Any) -> None:
        norm.gamma, norm.beta = 1 + 0.1 * self._random(self._size), self._random(self._size)

    def log_probs(self, source: Sequence[str], target: Sequence[str]) -> list[float]:
        """Return log p of each piece of a target and of ``</s>``, in numpy.

        :param source: with ``</s>`` where the caller adds it.
        """
        source = [*source, "</s>"] if self._adds else source
        encoder, decoder = self._spec.encoder, self._spec.decoder
        memory = self._embedded(encoder, encoder.embeddings[0], source)
        for layer in encoder.layer:
            memory = self._attended(layer.self_attention, memory, memory)
            memory = _fed_forward(layer.ffn, memory)
        state = self._embedded(decoder, decoder.embeddings, [self._start, *target])
        for layer in decoder.layer:
            state = self._attended(layer.self_attention, state, state, causal=True)
            state = _fed_forward(layer.ffn, self._attended(layer.attention, state, memory))
        logits = _linear(decoder.projection, state)
        logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        wanted = self._ids([*target, "</s>"])
        return [float(row[number]) for row, number in zip(logs, wanted, strict=True)]

    def _ids(self, pieces: Sequence[str]) -> list[int]:
        unknown = self.vocabulary.index("<unk>")
        known = {piece: number for number, piece in enumerate(self.vocabulary)}
        return [known.get(piece, unknown) for piece in pieces]

    def _embedded(self, side: Any, embeddings: Any, pieces: Sequence[str]) -> Floats:
        found = np.array(embeddings.weight, np.float32)[self._ids(pieces)] * math.sqrt(self._size)
        return found + np.array(side.position_encodings.encodings, np.float32)[: len(pieces)]

    def _attended(
        self, attention: Any, state: Floats, memory: Floats, *, causal: bool = False
    ) -> Floats:
        if len(attention.linear) == 2:
            queries, keys, values = np.split(_linear(attention.linear[0], state), 3, 1)
        else:
            queries = _linear(attention.linear[0], state)
            keys, values = np.split(_linear(attention.linear[1], memory), 2, 1)
        read = attended(queries, keys, values, causal=causal)
        return _normed(attention.layer_norm, state + _linear(attention.linear[-1], read))


def attended(queries: Floats, keys: Floats, values: Floats, *, causal: bool) -> Floats:
    """Return what each query reads of the values, with the weights of `HEADS` heads."""
    parts, width = [], queries.shape[1] // HEADS
    for head in range(HEADS):
        part = slice(head * width, (head + 1) * width)
        scores = queries[:, part] @ keys[:, part].T / math.sqrt(width)
        if causal:
            scores[~np.tri(len(scores), dtype=bool)] = -np.inf
        weights = np.exp(scores - scores.max(1, keepdims=True))
        parts.append(weights / weights.sum(1, keepdims=True) @ values[:, part])
    return np.concatenate(parts, 1)


def _linear(linear: Any, rows: Floats) -> Floats:
    found: Floats = rows @ np.array(linear.weight).T + np.array(linear.bias)
    return found


def _normed(norm: Any, rows: Floats) -> Floats:
    centred = rows - rows.mean(1, keepdims=True)
    scale = np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    return centred / scale * np.array(norm.gamma) + np.array(norm.beta)


def _fed_forward(feed_forward: Any, rows: Floats) -> Floats:
    hidden = np.maximum(_linear(feed_forward.linear_0, rows), 0)
    return _normed(feed_forward.layer_norm, rows + _linear(feed_forward.linear_1, hidden))


def train_pieces(path: Path, *, seed: int = 1) -> list[str]:
    """Train a model of sentencepiece on made-up text, and return its pieces."""
    generator = random.Random(seed)
    words = ["l'eau", "maison", "the", "house", "This", "is", "Amy", "x&y.", "it's", "no."]
    lines = (" ".join(generator.choices(words, k=6)) for _ in range(200))
    with path.open("wb") as stream:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=stream,
            vocab_size=30,
            minloglevel=2,
            num_threads=1,
        )
    found = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces = [found.id_to_piece(number) for number in range(found.get_piece_size())]
    return [piece for piece in pieces if piece not in SYMBOLS]


def tiny_translator(path: Path, **settings: Any) -> TinyTranslator:
    """Return a model whose folder has its model of sentencepiece, for both sides."""
    spm = path.with_suffix(".spm")
    made = TinyTranslator(path, train_pieces(spm), **settings)
    shutil.copy(spm, path / "target.spm")
    spm.rename(path / "source.spm")
    return made
