"""Measure how well language models predict texts."""

import os
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial

from phrasescore.arguments import StrPath, check_sequences
from phrasescore.devices import choose_device, torch_threads, usable_threads
from phrasescore.errors import ArgumentError, ModelError, shown_path
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.io.output import check_files, optional_path
from phrasescore.io.text_table import text_table
from phrasescore.language_models import perplexity as measures
from phrasescore.language_models.kenlm_scorer import load_for_text
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.systems.text_checks import UnknownWordCheck


@dataclass(frozen=True, slots=True)
class TextPerplexities:
    """The perplexities of one text."""

    text: str
    sentences: int
    models: dict[str, measures.Perplexity]  # by the model's title, such as the n-gram model's file

    def to_text(self) -> str:
        """Return the perplexities as text, without a newline at the end."""
        tokens = next(iter(self.models.values())).tokens
        name = shown_path(self.text)
        rows = [["model", "unknown", "perplexity", "without unknown words"]]
        for model, found in self.models.items():
            including, excluding = found.including_unknown, found.excluding_unknown
            rows.append([model, f"{found.unknown:,}", f"{including:.4f}", f"{excluding:.4f}"])
        head = f"{name}: {self.sentences:,} sentences, {tokens:,} tokens (words and </s>)"
        return "\n".join([head, *text_table(rows)])

    __repr__ = to_text

    def to_dict(self) -> dict[str, object]:
        """Return the content of a JSON object; a perplexity is None if no token is known."""
        models: list[dict[str, object]] = []
        for model, found in self.models.items():
            values = {"model": model, **asdict(found)}
            if found.unknown == found.tokens:
                values["excluding_unknown"] = None  # JSON has no NaN
            models.append(values)
        return {"text": self.text, "sentences": self.sentences, "models": models}


def perplexity(
    texts: Sequence[StrPath],
    *,
    model: StrPath | None = None,
    lm: StrPath | None = None,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> list[TextPerplexities]:
    """Compute the perplexities of each text under language models.

    Words and the end of each sentence are predicted. As in KenLM's query, one perplexity includes
    unknown words, scored as ``<unk>``, and one excludes them. By itself, a network scores all words
    outside its shortlist as ``<unk>``, which makes its perplexity low; with ``lm``, the n-gram
    model divides this probability among these words, and both models predict the same words.
    A network of subwords predicts every word, except new characters, as the product of its pieces'
    probabilities.

    :param texts: files with one tokenised sentence per line.
    :param model: the folder of a language model, of the kind cslm.
    :param lm: an n-gram model, ARPA (also .gz) or a KenLM binary.
    """
    check_sequences(texts=texts)
    compute.check_only("precision", "device", "threads")
    if model is None and lm is None:
        raise ArgumentError("nothing to measure: give --model, --lm, or both")
    paths = [os.fspath(path) for path in texts]
    check_files(paths, ())
    found = []
    with (
        nullcontext() if model is None else torch_threads(usable_threads(compute.threads)),
        Meter("perplexity", "sentence scores", progress) as meter,
    ):
        models = _Models(optional_path(model), optional_path(lm), compute, meter)
        for path in paths:
            words = (line.words for line in read_monolingual_text(path))
            sentences = list(UnknownWordCheck(path, models.known_words).counted(words))
            found.append(TextPerplexities(path, len(sentences), models.measure(sentences)))
    return found


class _Models:
    def __init__(self, model: str | None, lm: str | None, compute: Compute, meter: Meter) -> None:
        self._meter = meter
        # The words that a model knows, by the model's path, and the models by their titles: the
        # n-gram model, the network, and the network with the n-gram model for unknown words.
        self.known_words: dict[str, Container[str]] = {}
        self._models: dict[str, Callable[[Iterable[Sequence[str]]], measures.TextScores]] = {}
        if lm is not None:
            self.known_words[lm] = ngrams = load_for_text(lm)
            self._models[os.path.basename(lm)] = partial(measures.score_with_ngrams, ngrams)
        if model is None:
            return
        from phrasescore.kernels.precision import Precision  # imports torch
        from phrasescore.language_models.word_scorer import WordScorer
        from phrasescore.models.checkpoint import load_checkpoint

        checkpoint, device = load_checkpoint(model), choose_device(compute.device)
        if checkpoint.config.network.reads_source:
            kind = checkpoint.config.kind
            verb = "rescore" if checkpoint.config.network.is_aligned else "score"
            problem = f"{model}: expected a model of the kind cslm, found one of the kind {kind};"
            raise ModelError(f"{problem} use `{verb}` for networks that read a source")
        precision = Precision(compute.precision, device)
        self.known_words[model] = checkpoint.target_vocabulary
        has_subwords = checkpoint.target_vocabulary.is_subwords
        title = "network, subwords" if has_subwords else "network, <unk>"
        score, network = measures.score_with_network, partial(WordScorer, checkpoint)
        self._models[title] = partial(score, network(device, precision))
        if lm is not None and not has_subwords:
            backed_off = network(device, precision, backoff=lm)
            self._models["network, backed off"] = partial(score, backed_off)

    def measure(self, sentences: Sequence[tuple[str, ...]]) -> dict[str, measures.Perplexity]:
        return {
            title: measures.measure(score(self._meter.track(sentences)))
            for title, score in self._models.items()
        }
