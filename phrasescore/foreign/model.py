"""The folder of a model that CTranslate2 has converted, and computing with it."""

import math
import os
import threading
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from phrasescore.errors import ModelError
from phrasescore.foreign import ForeignText
from phrasescore.foreign.text import PieceText
from phrasescore.io.plain_file import MAX_JSON, check_plain, read_plain
from phrasescore.io.state import digest_file, digest_text
from phrasescore.io.text import shorten
from phrasescore.records import PhrasePair

# Where converters are told to copy models of sentencepiece (--copy_files): those of OPUS-MT for
# each side, and that of M2M-100 and NLLB for both.
_SPM_NAMES = {
    "source": ("source.spm", "sentencepiece.bpe.model"),
    "target": ("target.spm", "sentencepiece.bpe.model"),
}
# Probabilities of a batch, those of all known pieces at each place: 128 MiB for a thread, and still
# large matrix products.
MAX_BATCH = 1 << 25
# Pieces of a translation at most: twice those of its source, and this many.
_MORE_PIECES = 10

_Key = TypeVar("_Key")
Pieces = tuple[str, ...]


class _ConvertedConfig(msgspec.Struct):
    """What a converter says of a model in ``config.json``; other keys do not matter."""

    add_source_eos: bool = False
    decoder_start_token: str | None = None
    eos_token: str = "</s>"


class PieceScore(NamedTuple):
    """log p of a translation, and its pieces."""

    log_prob: float
    # Of source and translation, without given tokens; and those that the model does not know.
    pieces: int
    unknown: int


class _KnownWords:
    """The words of one side of which a foreign model knows all pieces."""

    def __init__(self, text: PieceText, pieces: frozenset[str]) -> None:
        self._text, self._pieces = text, pieces
        self.is_subwords = text.is_subwords

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self._pieces.issuperset(self._text.pieces((word,)))


class ForeignModel:
    """A model of CTranslate2 in a folder, checked and not loaded.

    Its files are plain files, and none of them is run.

    :raises ModelError: if a file is missing or not what it should be, or CTranslate2 is missing.
    """

    def __init__(self, folder: str, text: ForeignText, truecase_model: str | None = None) -> None:
        self.folder = folder
        if find_spec("ctranslate2") is None:
            problem = "needs CTranslate2: pip install 'phrasescore[ctranslate2]'"
            raise ModelError(f"{folder}: {problem}")
        try:
            # CTranslate2 opens them itself, and waits at a pipe for ever.
            self._files = sorted(each.name for each in os.scandir(folder) if not each.is_dir())
            for name in self._files:
                check_plain(os.path.join(folder, name))
            if "config.json" not in self._files:
                problem = "not a model that CTranslate2 has converted: config.json is missing"
                raise ModelError(f"{folder}: {problem}")
            self._config = msgspec.json.decode(self._read("config.json"), type=_ConvertedConfig)
            sides = {side: self._vocabulary(side) for side in ("source", "target")}
        except OSError as error:
            where = error.filename or folder
            raise ModelError(f"{where}: cannot open: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem = "expected the JSON of a model that CTranslate2 has converted"
            raise ModelError(f"{folder}: {problem}: {error}") from error
        self._known_source, self._known_target = sides["source"], sides["target"]
        self.source = PieceText(
            self._spm("source", text.source_spm),
            text.source_language,
            moses_tokens=text.moses_tokens,
            detruecase=text.detruecase,
        )
        self.target = PieceText(
            self._spm("target", text.target_spm),
            text.target_language,
            moses_tokens=text.moses_tokens,
            detruecase=text.detruecase,
            truecase_model=truecase_model,
        )
        suffix = text.source_suffix
        if suffix is None:
            # Converters of transformers leave it to their tokenizers to add </s>, and the other
            # ones do it themselves. The decoders that begin with </s> are those that know it.
            config = self._config
            adds = not config.add_source_eos and config.decoder_start_token == config.eos_token
            suffix = config.eos_token if adds else ""
        self.before, self.after = tuple(text.source_prefix.split()), tuple(suffix.split())
        self.given = tuple(text.target_prefix.split())

    @cached_property
    def fingerprint(self) -> str:
        """Everything that scores depend on besides the pairs and the device, as text."""
        names = ("model.bin", "config.json", "vmap.txt")
        read = [name for name in self._files if name in names or "vocabulary." in name]
        try:
            digests = [f"{name} {digest_file(Path(self.folder, name))}" for name in read]
        except OSError as error:
            raise ModelError(f"{error.filename}: cannot open: {error.strerror}") from error
        tokens = " ".join((*self.before, "...", *self.after, ">", *self.given))
        texts = (self.source.fingerprint, self.target.fingerprint)
        if self.ends_sources:
            tokens += ", ended"  # up to version 0.2 its empty sources were not scored
        parts = (*digests, *texts, tokens, f"ctranslate2 {version('ctranslate2')}")
        return digest_text("\n".join(parts))

    def frame(self) -> str:
        """Return how a source and a target are given to the model, for a user."""
        shown = (*self.before, "source", *self.after, ">", *self.given, "target")
        return " ".join(shown)

    @property
    def ends_sources(self) -> bool:
        """Whether CTranslate2 itself adds the end symbol to each source."""
        return self._config.add_source_eos

    @property
    def known_words(self) -> tuple[Container[str], Container[str]]:
        """The words of the source, and of the target, of which the model knows all pieces."""
        return (
            _KnownWords(self.source, self._known_source),
            _KnownWords(self.target, self._known_target),
        )

    @property
    def num_known(self) -> int:
        """The number of pieces that a target may have at each place."""
        return len(self._known_target)

    def count_unknown(self, source: Iterable[str], target: Iterable[str]) -> int:
        """Return how many pieces the model does not know."""
        unknown = sum(piece not in self._known_source for piece in source)
        return unknown + sum(piece not in self._known_target for piece in target)

    def _spm(self, side: str, given: str | None) -> str | None:
        there = (os.path.join(self.folder, name) for name in _SPM_NAMES[side])
        return given or next(filter(os.path.isfile, there), None)

    def _vocabulary(self, side: str) -> frozenset[str]:
        """Return the pieces that one side of the model knows."""
        for name in (f"{side}_vocabulary", "shared_vocabulary"):
            if f"{name}.json" in self._files:
                return frozenset(msgspec.json.decode(self._read(f"{name}.json"), type=list[str]))
            if f"{name}.txt" in self._files:
                return frozenset(self._read(f"{name}.txt").decode().split("\n"))
        problem = (
            f"expected a model that CTranslate2 has converted, with a vocabulary of the {side}"
        )
        raise ModelError(f"{self.folder}: {problem}")

    def _read(self, name: str) -> bytes:
        return read_plain(os.path.join(self.folder, name), MAX_JSON)


class ForeignNetwork:
    """A foreign model that is loaded, on one device.

    Values do not depend on what is computed together, nor on the number of threads, as far as
    CTranslate2's products do not: pairs of a batch have the same numbers of pieces, so that none is
    padded, and there are always two or more, because the product of a single row is another one.
    Tried with its products in float32 and int8 on an AMD; on a GPU last digits may differ.

    :param threads: how many callers may compute at the same time.
    :raises ModelError: if CTranslate2 refuses the model.
    """

    def __init__(self, model: ForeignModel, device: str = "cpu", threads: int = 1) -> None:
        import ctranslate2

        self._model = model
        place, _, index = device.partition(":")
        try:
            self._translator: Any = ctranslate2.Translator(
                model.folder,
                device=place,
                device_index=int(index or 0),
                inter_threads=threads,
                intra_threads=1,
            )
        except (RuntimeError, ValueError, IndexError, MemoryError) as error:
            raise self._refused(error) from error

    def score(self, pairs: Sequence[PhrasePair]) -> list[PieceScore]:
        """Return the score of each pair: log p(target ``</s>`` | source).

        A natural logarithm, of all pieces and the end symbol, not divided by length. Pieces that
        the model does not know are scored as its ``<unk>``. CTranslate2 computes nothing where its
        encoder reads nothing, not even a ``</s>``: the value of an empty source is then 0.

        :raises ModelError: if CTranslate2 cannot score a pair, or a value is not finite.
        """
        sources = {words: tuple(self._model.source.pieces(words)) for words, _ in pairs}
        targets = {words: tuple(self._model.target.pieces(words)) for _, words in pairs}
        divided = [(sources[source], targets[target]) for source, target in pairs]
        groups: dict[tuple[int, int], dict[tuple[Pieces, Pieces], None]] = defaultdict(dict)
        for pair in divided:
            groups[len(pair[0]), len(pair[1])][pair] = None
        found: dict[tuple[Pieces, Pieces], PieceScore] = {}
        for lengths in sorted(groups):
            for batch in _batches(list(groups[lengths]), self._model.num_known * (lengths[1] + 2)):
                found.update(zip(batch, self._score(batch), strict=False))
        return [found[pair] for pair in divided]

    def _score(self, batch: list[tuple[Pieces, Pieces]]) -> Iterator[PieceScore]:
        """Yield the scores of pairs of the same lengths, two or more."""
        model = self._model
        sources = [[*model.before, *source, *model.after] for source, _ in batch]
        targets = [[*model.given, *target] for _, target in batch]
        if not sources[0] and not model.ends_sources:
            yield from (PieceScore(0.0, len(target), 0) for _, target in batch)
            return
        try:
            results = self._translator.score_batch(sources, targets, max_input_length=0)
        except (RuntimeError, ValueError) as error:
            raise self._refused(error, "".join(batch[0][1])) from error
        for (source, target), result in zip(batch, results, strict=True):
            value = math.fsum(result.log_probs[len(model.given) :])
            if not math.isfinite(value):
                text = shorten("".join(target))
                raise ModelError(f"{model.folder}: the log-probability of {text} is {value}")
            pieces, unknown = len(source) + len(target), model.count_unknown(source, target)
            yield PieceScore(min(value, 0.0), pieces, unknown)

    def translate(
        self, sources: Sequence[tuple[str, ...]], beam: int, num_best: int
    ) -> list[list[tuple[str, ...]]]:
        """Return the best translations of each source by log p, the first one the best, as words.

        Different pieces may be the same words, which are there once. An empty source has the empty
        translation.

        :raises ModelError: if CTranslate2 cannot translate a source.
        """
        pieces = {words: tuple(self._model.source.pieces(words)) for words in sources}
        groups: dict[int, list[Pieces]] = defaultdict(list)
        for source in dict.fromkeys(pieces.values()):
            groups[len(source)].append(source)
        found: dict[Pieces, list[tuple[str, ...]]] = {(): [()]}
        for length, group in groups.items():
            for batch in _batches(group, self._model.num_known * beam) if length else ():
                found.update(zip(batch, self._translate(batch, beam, num_best), strict=False))
        return [found[pieces[words]] for words in sources]

    def _translate(
        self, batch: list[Pieces], beam: int, num_best: int
    ) -> Iterator[list[tuple[str, ...]]]:
        model = self._model
        longest = 2 * len(batch[0]) + _MORE_PIECES
        try:
            results = self._translator.translate_batch(
                [[*model.before, *source, *model.after] for source in batch],
                target_prefix=[list(model.given)] * len(batch) if model.given else None,
                beam_size=beam,
                num_hypotheses=num_best,
                length_penalty=0,
                max_input_length=0,
                max_decoding_length=longest + len(model.given),
            )
        except (RuntimeError, ValueError) as error:
            raise self._refused(error, "".join(batch[0])) from error
        for result in results:
            texts = (model.target.words(each[len(model.given) :]) for each in result.hypotheses)
            yield list(dict.fromkeys(texts))

    def _refused(self, error: Exception, text: str = "") -> ModelError:
        where = f", at {shorten(text)}" if text else ""
        reason = str(error).partition("\n")[0]
        return ModelError(f"{self._model.folder}: CTranslate2 says{where}: {reason}")


def _batches(items: list[_Key], size: int) -> Iterator[list[_Key]]:
    """Yield some items at a time: never one alone, which comes twice.

    :param size: of each item, in probabilities.
    """
    count = max(MAX_BATCH // size, 2)
    for start in range(0, len(items), count):
        batch = items[start : start + count]
        yield batch * 2 if len(batch) == 1 else batch


@dataclass(frozen=True)
class ForeignFolder:
    """Where a worker finds a foreign model, and how it computes with it."""

    path: str
    text: ForeignText
    device: str = "cpu"
    # Callers in the worker's process.
    threads: int = 1
    # Of the model that it must be; None where the folder is this machine's.
    fingerprint: str | None = None
    # For `ForeignNetwork.translate`.
    truecase_model: str | None = None

    def load(self) -> ForeignNetwork:
        """Load the model.

        :raises ModelError: if it is not there, or another one.
        """
        model = ForeignModel(self.path, self.text, self.truecase_model)
        if self.fingerprint not in (None, model.fingerprint):
            raise ModelError(f"{self.path}: there is another model where a worker runs")
        return ForeignNetwork(model, self.device, self.threads)


class LazyNetwork:
    """A model that is loaded when it is first needed: CTranslate2's threads outlive no fork."""

    def __init__(self, folder: ForeignFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._network: ForeignNetwork | None = None

    def network(self) -> ForeignNetwork:
        """Return the network, for any thread.

        :raises ModelError: see :meth:`ForeignFolder.load`.
        """
        with self._lock:
            if self._network is None:
                self._network = self._folder.load()
        return self._network
