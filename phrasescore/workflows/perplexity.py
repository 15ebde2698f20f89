"""Measure how well language models predict texts."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import torch

from phrasescore.config.settings import LANGUAGE_MODELS
from phrasescore.devices import choose_device, usable_threads
from phrasescore.errors import ArgumentError, ModelError, shown_path
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.kernels.precision import Precision, PrecisionName
from phrasescore.language_models.perplexity import (
    Perplexity,
    TextScores,
    measure,
    mixture,
    mixture_weight,
    score_with_kenlm,
    score_with_network,
)
from phrasescore.language_models.word_scorer import WordScorer
from phrasescore.models.checkpoint import load_checkpoint

_Sentences = list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ModelPerplexity:
    """The perplexities of a text under one model."""

    model: str
    found: Perplexity
    # The network's share, 0 to 1, where the model is a mixture.
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class LogZ:
    """The log normalizer of a network over a text, a natural logarithm; 0 for probabilities."""

    mean: float
    deviation: float
    # The largest absolute value.
    largest: float


@dataclass(frozen=True, slots=True)
class TextPerplexities:
    """The perplexities of one text."""

    text: str
    sentences: int
    models: tuple[ModelPerplexity, ...]
    # None where it was not asked for.
    log_z: LogZ | None

    def to_text(self) -> str:
        """Return lines for a person, without a line end after the last."""
        width = max(len("model"), *(len(each.model) for each in self.models))
        tokens = self.models[0].found.tokens
        name = shown_path(self.text)
        lines = [
            f"{name}: {self.sentences:,} sentences, {tokens:,} tokens (words and </s>)",
            f"{'model':<{width}}  {'unknown':>8}  {'perplexity':>11}   without unknown words",
        ]
        lines += [
            f"{each.model:<{width}}  {each.found.unknown:>8,}  "
            f"{each.found.including_unknown:>11.4f}  {each.found.excluding_unknown:>22.4f}"
            for each in self.models
        ]
        if self.log_z is not None:
            lines.append(
                f"log Z of the network: mean {self.log_z.mean:.4f}, standard deviation "
                f"{self.log_z.deviation:.4f}, at most {self.log_z.largest:.4f} from 0"
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """Return what a JSON object holds; a perplexity of no known token is None."""
        models: list[dict[str, object]] = []
        for each in self.models:
            values = {"model": each.model, "weight": each.weight, **asdict(each.found)}
            if each.found.unknown == each.found.tokens:
                values["excluding_unknown"] = None  # JSON has no NaN
            models.append(values)
        log_z = None if self.log_z is None else asdict(self.log_z)
        return {"text": self.text, "sentences": self.sentences, "models": models, "log_z": log_z}


def perplexity(
    texts: Sequence[str | os.PathLike[str]],
    *,
    model: str | os.PathLike[str] | None = None,
    language_model: str | os.PathLike[str] | None = None,
    mix_on: str | os.PathLike[str] | None = None,
    log_z: bool = False,
    precision: PrecisionName = "float32",
    device: str = "auto",
    threads: int | None = None,
) -> list[TextPerplexities]:
    """Return the perplexities of each text under language models.

    Words and the end of each sentence are predicted. Unknown words are counted with the probability
    of ``<unk>``, and left out, as by KenLM's query. A network alone has one ``<unk>`` for all words
    outside its shortlist, which makes its perplexity low; with ``language_model`` it shares their
    probability out by the n-gram model, and both predict the same words.

    :param texts: files of a tokenised sentence per line; ``-`` is stdin.
    :param model: the folder of a trained language model, of the kind cslm.
    :param language_model: an n-gram model, ARPA (.gz, too) or a KenLM binary.
    :param mix_on: a text on which the weight of a mixture of both models is chosen.
    :param log_z: whether to tell how far the network's log Z is from 0.
    :raises ArgumentError: if arguments do not go together.
    :raises DataError: if a text or the n-gram model is not what it should be.
    :raises ModelError: if the network cannot be loaded.
    """
    if model is None and language_model is None:
        raise ArgumentError("nothing to measure: give `model`, `language_model`, or both")
    if mix_on is not None and (model is None or language_model is None):
        raise ArgumentError("`mix_on` needs `model` and `language_model`: it mixes both")
    if log_z and model is None:
        raise ArgumentError("`log_z` needs `model`")
    if [*texts, mix_on].count("-") > 1:
        raise ArgumentError("only one text can be -, which is stdin")
    torch.set_num_threads(usable_threads(threads))
    models = _Models(
        None if model is None else os.fspath(model),
        None if language_model is None else os.fspath(language_model),
        precision,
        device,
    )
    weight = None if mix_on is None else models.mixture_weight(_read(os.fspath(mix_on)))
    found = []
    for path in texts:
        text = os.fspath(path)
        sentences = _read(text)
        rows = tuple(models.measure(sentences, weight))
        of_network = models.log_z(sentences) if log_z else None
        found.append(TextPerplexities(text, len(sentences), rows, of_network))
    return found


def _read(path: str) -> _Sentences:
    return [line.words for line in read_monolingual_text(path)]


class _Models:
    """The models that measure; those of a mixture predict the same words."""

    def __init__(
        self,
        model: str | None,
        language_model: str | None,
        precision: PrecisionName,
        device: str,
    ) -> None:
        self._language_model = language_model
        self._alone: WordScorer | None = None
        self._backed_off: WordScorer | None = None
        self._raw: WordScorer | None = None
        if model is None:
            return
        checkpoint, place = load_checkpoint(model), choose_device(device)
        if checkpoint.config.kind not in LANGUAGE_MODELS:
            problem = f"expected a model of kind cslm, found one of {checkpoint.config.kind}"
            raise ModelError(f"{model}: {problem}")
        exact = Precision(precision, place)
        self._alone = WordScorer(checkpoint, place, exact)
        self._raw = WordScorer(checkpoint, place, exact, normalized=False)
        if language_model is not None:
            self._backed_off = WordScorer(checkpoint, place, exact, backoff=language_model)

    def measure(self, sentences: _Sentences, weight: float | None) -> Iterable[ModelPerplexity]:
        """Yield the perplexities under each model, and under the mixture with this weight."""
        if self._language_model is not None:
            of_ngrams = score_with_kenlm(self._language_model, sentences)
            yield ModelPerplexity(os.path.basename(self._language_model), measure(of_ngrams))
        if self._alone is not None:
            scores = score_with_network(self._alone, sentences)
            yield ModelPerplexity("network, <unk>", measure(scores))
        if self._backed_off is not None:
            scores = score_with_network(self._backed_off, sentences)
            yield ModelPerplexity("network, backed off", measure(scores))
            if weight is not None:
                mixed = mixture(scores.log_probs, of_ngrams.log_probs, weight)
                found = measure(TextScores(mixed, scores.unknown))
                yield ModelPerplexity(f"mixture, {weight:.4f} of the network", found, weight)

    def mixture_weight(self, sentences: _Sentences) -> float:
        """Return the network's weight under which a text is most probable."""
        assert self._backed_off is not None
        assert self._language_model is not None
        of_network = score_with_network(self._backed_off, sentences)
        of_ngrams = score_with_kenlm(self._language_model, sentences)
        return mixture_weight(of_network.log_probs, of_ngrams.log_probs)

    def log_z(self, sentences: _Sentences) -> LogZ:
        """Return how far log Z is from 0 in a text."""
        assert self._alone is not None
        assert self._raw is not None
        logits, log_probs = (
            score_with_network(scorer, sentences).log_probs for scorer in (self._raw, self._alone)
        )
        values = logits - log_probs
        return LogZ(float(values.mean()), float(values.std()), float(abs(values).max()))
