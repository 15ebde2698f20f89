"""Check, load and run models converted by CTranslate2; see `generator` for language models."""

import math
import os
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from phrasescore.errors import ModelError
from phrasescore.foreign import ForeignText, PieceText
from phrasescore.io.journal import digest_file, digest_text
from phrasescore.io.plain_file import MAX_JSON, check_plain, read_plain
from phrasescore.io.text import shorten
from phrasescore.records import PhrasePair

# Maximum size of a batch, in probabilities (one per known piece and position): 128 MiB per thread.
MAX_BATCH = 1 << 25
_Key = TypeVar("_Key")
Pieces = tuple[str, ...]


class PieceScore(NamedTuple):
    """log p of a translation, the number of pieces on both sides, and of unknown pieces."""

    log_prob: float
    pieces: int
    unknown: int


class ConvertedConfig(msgspec.Struct):
    """What config.json says of a model."""

    # CTranslate2 does not check that these keys exist. If one is missing, it crashes or uses an
    # arbitrary value.
    bos_token: str | None
    eos_token: str
    unk_token: str


class TranslationConfig(ConvertedConfig):
    """What config.json says of a translation model."""

    add_source_bos: bool
    add_source_eos: bool
    # None if the first token of the target prefix takes its place (mBART-25).
    decoder_start_token: str | None


_Config = TypeVar("_Config", bound=ConvertedConfig)


class ConvertedModel(ABC, Generic[_Key]):
    """A converted model on one device, checked but not loaded, which any thread may use.

    The batch changes a value by no more than float32 rounding, and the number of threads does not
    change it. All items in a batch have the same numbers of pieces, so nothing is padded.
    A batch has at least two items, because a single row is multiplied differently. CTranslate2 does
    not promise that products have the same bits for any number of rows: on one AMD they differ.

    :cvar kind: the class of CTranslate2 that runs the model.
    :ivar known: the pieces that the model can predict.
    """

    kind: ClassVar[str]
    known: frozenset[str]

    def __init__(self, folder: str, device: str = "cpu", threads: int = 1) -> None:
        self.folder = folder
        if find_spec("ctranslate2") is None:
            raise ModelError(f"{folder}: needs CTranslate2: pip install 'phrasescore[ctranslate2]'")
        with self.reading():
            # CTranslate2 opens all files itself, and would wait at a pipe forever.
            self.files = sorted(entry.name for entry in os.scandir(folder) if not entry.is_dir())
            for name in self.files:
                check_plain(os.path.join(folder, name))
            if "config.json" not in self.files:
                problem = "not a model that CTranslate2 has converted: config.json is missing"
                raise ModelError(f"{folder}: {problem}")
        self._device, self._threads = device, threads
        self._lock = threading.Lock()
        self._loaded: Any = None

    @contextmanager
    def reading(self, name: str = "") -> Iterator[None]:
        """Translate errors while the file with this name, or any file, is read."""
        path = os.path.join(self.folder, name)
        try:
            yield
        except OSError as error:
            raise ModelError(f"{error.filename or path}: cannot open: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            form = "a vocabulary" if name.endswith(".txt") else "the JSON"
            problem = f"expected {form} of a model that CTranslate2 has converted"
            raise ModelError(f"{path}: {problem}: {error}") from error

    def read_config(self, kind: type[_Config]) -> _Config:
        """Return the content of config.json, which must have the keys of this kind."""
        with self.reading("config.json"):
            return msgspec.json.decode(self.read("config.json"), type=kind)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self.reading(name):
            return read_plain(os.path.join(self.folder, name), MAX_JSON)

    def vocabulary(self, *names: str) -> frozenset[str]:
        """Return the pieces in the first vocabulary that exists."""
        for name in (f"{name}.{ending}" for name in names for ending in ("json", "txt")):
            if name in self.files:
                break
        else:
            problem = "expected a model that CTranslate2 has converted, with a"
            raise ModelError(f"{self.folder}: {problem} {names[0].replace('_', ' ')}")
        data = self.read(name)
        with self.reading(name):
            if name.endswith("json"):
                return frozenset(msgspec.json.decode(data, type=list[str]))
            return frozenset(data.decode().removesuffix("\n").split("\n"))

    def digest(self, *settings: str) -> str:
        """Return a digest of the files on which scores depend, and of the given settings."""
        names = ("model.bin", "config.json", "vmap.txt")
        read = [name for name in self.files if name in names or "vocabulary." in name]
        with self.reading():
            digests = [f"{name} {digest_file(Path(self.folder, name))}" for name in read]
        return digest_text(
            "\n".join((*digests, *settings, f"ctranslate2 {version('ctranslate2')}"))
        )

    @property
    def loaded(self) -> Any:
        """The loaded model; it is loaded on first use, because its threads survive no fork."""
        import ctranslate2

        device, _, index = self._device.partition(":")
        with self._lock:
            try:
                self._loaded = self._loaded or getattr(ctranslate2, self.kind)(
                    self.folder,
                    device=device,
                    device_index=int(index or 0),
                    inter_threads=self._threads,
                    intra_threads=1,
                )
            except (RuntimeError, ValueError, IndexError, MemoryError) as error:
                raise self.refused(error) from error
        return self._loaded

    def score_items(
        self, items: Sequence[_Key], lengths: Callable[[_Key], tuple[int, ...]]
    ) -> list[PieceScore]:
        """Return the score of each item; equal items are scored once.

        :param lengths: returns the item's numbers of pieces; the last one is the predicted side's.
        """
        groups: dict[tuple[int, ...], dict[_Key, None]] = defaultdict(dict)
        for item in items:
            groups[lengths(item)][item] = None
        scores: dict[_Key, PieceScore] = {}
        for sizes in sorted(groups):
            for batch in _batches(list(groups[sizes]), len(self.known) * (sizes[-1] + 2)):
                scores.update(zip(batch, self.score_batch(batch), strict=False))
        return [scores[item] for item in items]

    @abstractmethod
    def score_batch(self, batch: list[_Key]) -> Iterator[PieceScore]:
        """Yield the scores of at least two items with equal lengths."""

    def log_prob(self, values: Iterable[float], text: str) -> float:
        """Return the sum of log-probabilities, at most 0, after checking it."""
        value = math.fsum(values)
        if not math.isfinite(value):
            problem = f"the log-probability of {shorten(text)} is {value}"
            raise ModelError(f"{self.folder}: {problem}")
        return min(value, 0.0)

    def refused(self, error: Exception, text: str = "") -> ModelError:
        """Return the error for an exception from CTranslate2."""
        where = f", at {shorten(text)}" if text else ""
        reason = str(error).partition("\n")[0]
        return ModelError(f"{self.folder}: CTranslate2 says{where}: {reason}")


class ForeignModel(ConvertedModel[tuple[Pieces, Pieces]]):
    """A translation model."""

    kind = "Translator"

    def __init__(
        self, folder: str, text: ForeignText, device: str = "cpu", threads: int = 1
    ) -> None:
        super().__init__(folder, device, threads)
        if text.prompt is not None:
            problem = "prompt is for language models, and this is a translation model"
            raise ModelError(f"{folder}: {problem}")
        self.config = self.read_config(TranslationConfig)
        self._known_source, self.known = (
            self.vocabulary(f"{side}_vocabulary", "shared_vocabulary")
            for side in ("source", "target")
        )
        piece_text = partial(PieceText, moses_tokens=text.moses_tokens, detruecase=text.detruecase)
        source, target = self._spm("source", text.source_spm), self._spm("target", text.target_spm)
        self.source = piece_text(source, text.source_language)
        self.target = piece_text(target, text.target_language)
        suffix = text.source_suffix
        if suffix is None:
            # The converter for transformers leaves it to their tokenizers to add </s>; other
            # converters add it themselves. Decoders that begin with </s> know it.
            config = self.config
            adds = not config.add_source_eos and config.decoder_start_token == config.eos_token
            suffix = config.eos_token if adds else ""
        self.before, self.after = tuple(text.source_prefix.split()), tuple(suffix.split())
        self.prefix = tuple(text.target_prefix.split())
        has_start = self.config.decoder_start_token is None
        if has_start and not self.prefix:
            problem = "decoder_start_token is null: target_prefix must begin with the start symbol"
            raise ModelError(f"{folder}/config.json: {problem}")
        # The number of prefix tokens that CTranslate2 scores: all but a start symbol.
        self.num_scored = len(self.prefix) - has_start

    @cached_property
    def fingerprint(self) -> str:
        """Everything on which scores depend besides the pairs and the device, as text."""
        tokens = " ".join((*self.before, "...", *self.after, ">", *self.prefix))
        return self.digest(self.source.fingerprint, self.target.fingerprint, tokens)

    def frame(self) -> str:
        """Return the tokens around a source and a target, for display."""
        return " ".join((*self.before, "source", *self.after, ">", *self.prefix, "target"))

    @property
    def frames_sources(self) -> bool:
        """Whether CTranslate2 adds a begin or end symbol to each source."""
        return self.config.add_source_bos or self.config.add_source_eos

    def count_unknown(self, source: Iterable[str], target: Iterable[str]) -> int:
        """Return the number of pieces that the model does not know."""
        unknown = sum(piece not in self._known_source for piece in source)
        return unknown + sum(piece not in self.known for piece in target)

    def _spm(self, side: str, path: str | None) -> str | None:
        # Converters copy the model of a side (OPUS-MT) or of both sides (M2M-100 and NLLB).
        names = (f"{side}.spm", "sentencepiece.bpe.model")
        candidates = (os.path.join(self.folder, name) for name in names)
        return path or next(filter(os.path.isfile, candidates), None)

    def score(self, pairs: Sequence[PhrasePair]) -> list[PieceScore]:
        """Return log p(target ``</s>`` | source) of each pair, with counts.

        Values are natural logarithms, summed over all pieces and the end symbol, and not divided
        by length. Unknown pieces are scored as the model's ``<unk>``. If the encoder has nothing to
        read, not even ``</s>``, CTranslate2 computes nothing, and the value is 0.
        """
        sources = {words: tuple(self.source.pieces(words)) for words, _ in pairs}
        targets = {words: tuple(self.target.pieces(words)) for _, words in pairs}
        pieces = [(sources[source], targets[target]) for source, target in pairs]
        return self.score_items(pieces, lambda pair: (len(pair[0]), len(pair[1])))

    def score_batch(self, batch: list[tuple[Pieces, Pieces]]) -> Iterator[PieceScore]:
        """Yield the scores of at least two pairs with equal lengths."""
        sources = [[*self.before, *source, *self.after] for source, _ in batch]
        targets = [[*self.prefix, *target] for _, target in batch]
        if not sources[0] and not self.frames_sources:
            yield from (PieceScore(0.0, len(target), 0) for _, target in batch)
            return
        try:
            results = self.loaded.score_batch(sources, targets, max_input_length=0)
        except (RuntimeError, ValueError) as error:
            raise self.refused(error, "".join(batch[0][1])) from error
        for (source, target), result in zip(batch, results, strict=True):
            value = self.log_prob(result.log_probs[self.num_scored :], "".join(target))
            pieces, unknown = len(source) + len(target), self.count_unknown(source, target)
            yield PieceScore(value, pieces, unknown)


def _batches(items: list[_Key], size: int) -> Iterator[list[_Key]]:
    """Yield batches of items with ``size`` probabilities each; a single item is repeated."""
    count = max(MAX_BATCH // size, 2)
    for start in range(0, len(items), count):
        batch = items[start : start + count]
        yield batch * 2 if len(batch) == 1 else batch
