"""``phrasescore perplexity``: how well language models predict a text."""

import dataclasses
import json
import os
from typing import TYPE_CHECKING, NamedTuple

import click

from phrasescore.cli import options
from phrasescore.errors import ModelError, shown_path

if TYPE_CHECKING:
    from phrasescore.language_models.perplexity import Perplexity, TextScores
    from phrasescore.language_models.word_scorer import WordScorer

_Sentences = list[tuple[str, ...]]


class _Row(NamedTuple):
    """A line of the report."""

    model: str
    found: "Perplexity"
    # The network's share in a mixture.
    weight: float | None = None


@click.command()
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@click.option("--model", metavar="MODEL", help="A trained language model: of the kind cslm.")
@click.option(
    "--lm",
    "language_model",
    metavar="FILE",
    help="An n-gram model, ARPA (.gz, too) or a KenLM binary; with --model also the one that the "
    "words outside its shortlist are backed off to.",
)
@click.option(
    "--mix-on",
    metavar="DEV",
    help="One more line: the two models' mixture, by the weight that suits this text best.",
)
@click.option(
    "--log-z",
    is_flag=True,
    help="Say how far the network's log Z is from 0, which --unnormalized scoring leaves out.",
)
@options.report_format
@options.precision
@options.device
@options.threads
@options.verbosity
def perplexity(
    texts: tuple[str, ...],
    model: str | None,
    language_model: str | None,
    mix_on: str | None,
    log_z: bool,
    report_format: str,
    precision: str,
    device: str,
    threads: int | None,
) -> None:
    """Print the perplexity of each TEXT, a tokenised sentence a line, under language models.

    Words and the end of each sentence are predicted; unknown words are counted with the probability
    of <unk>, and left out, as KenLM's query does. A network alone has one <unk> for all words
    outside its shortlist, which makes its perplexity low; with --lm it divides the probability with
    the n-gram model, and both predict the same words: those figures can be compared.
    """
    if model is None and language_model is None:
        raise click.UsageError("nothing to measure: give a --model, an --lm, or both")
    if mix_on is not None and (model is None or language_model is None):
        raise click.UsageError("--mix-on mixes a --model and an --lm")
    if log_z and model is None:
        raise click.UsageError("--log-z is of a --model")
    if [*texts, mix_on].count("-") > 1:
        raise click.UsageError("only one text can be -, which is stdin")
    import torch

    from phrasescore.devices import usable_threads

    torch.set_num_threads(usable_threads(threads))
    models = _Models(model, language_model, precision, device)
    weight = None if mix_on is None else models.mixture_weight(_read(mix_on))
    reports = []
    for path in texts:
        sentences = _read(path)
        rows = models.measure(sentences, weight)
        reports.append((path, len(sentences), rows, models.log_z(sentences) if log_z else None))
    if report_format == "json":
        click.echo(json.dumps([_values(*report) for report in reports], indent=1))
    else:
        click.echo("\n\n".join(_text(*report) for report in reports))


def _read(path: str) -> _Sentences:
    from phrasescore.io.corpora import read_monolingual_text

    return [line.words for line in read_monolingual_text(path)]


class _Models:
    """The models of a report; those of a mixture predict the same words."""

    _alone: "WordScorer | None"
    _backed_off: "WordScorer | None"
    _raw: "WordScorer | None"

    def __init__(
        self, model: str | None, language_model: str | None, precision: str, device: str
    ) -> None:
        self._language_model = language_model
        self._alone, self._backed_off, self._raw = None, None, None
        if model is not None:
            self._load(model, precision, device)

    def _load(self, model: str, precision: str, device: str) -> None:
        from phrasescore.config.settings import LANGUAGE_MODELS
        from phrasescore.devices import choose_device
        from phrasescore.kernels.precision import Precision
        from phrasescore.language_models.word_scorer import WordScorer
        from phrasescore.models.checkpoint import load_checkpoint

        checkpoint, place = load_checkpoint(model), choose_device(device)
        if checkpoint.config.kind not in LANGUAGE_MODELS:
            kinds = f"found one of {checkpoint.config.kind}"
            raise ModelError(f"{model}: expected a model of kind cslm, {kinds}")
        exact = Precision(precision, place)  # type: ignore[arg-type]
        self._alone = WordScorer(checkpoint, place, exact)
        self._raw = WordScorer(checkpoint, place, exact, normalized=False)
        if self._language_model is not None:
            self._backed_off = WordScorer(checkpoint, place, exact, backoff=self._language_model)

    def measure(self, sentences: _Sentences, weight: float | None) -> list[_Row]:
        """Return a line for each model, and for the mixture with this weight."""
        from phrasescore.language_models.perplexity import TextScores, mixture, perplexity
        from phrasescore.language_models.perplexity import score_with_network as score

        rows = []
        if self._language_model is not None:
            of_ngrams = self._score_ngrams(sentences)
            rows.append(_Row(os.path.basename(self._language_model), perplexity(of_ngrams)))
        if self._alone is not None:
            rows.append(_Row("network, <unk>", perplexity(score(self._alone, sentences))))
        if self._backed_off is not None:
            of_network = score(self._backed_off, sentences)
            rows.append(_Row("network, backed off", perplexity(of_network)))
            if weight is not None:
                mixed = mixture(of_network.log_probs, of_ngrams.log_probs, weight)
                found = perplexity(TextScores(mixed, of_network.unknown))
                rows.append(_Row(f"mixture, {weight:.4f} of the network", found, weight))
        return rows

    def mixture_weight(self, sentences: _Sentences) -> float:
        """Return the network's weight that suits a text best."""
        from phrasescore.language_models.perplexity import mixture_weight, score_with_network

        assert self._backed_off is not None
        of_network = score_with_network(self._backed_off, sentences)
        return mixture_weight(of_network.log_probs, self._score_ngrams(sentences).log_probs)

    def log_z(self, sentences: _Sentences) -> dict[str, float]:
        """Return mean, standard deviation and largest absolute value of log Z in a text."""
        from phrasescore.language_models.perplexity import score_with_network

        assert self._alone is not None
        assert self._raw is not None
        logits, log_probs = (
            score_with_network(scorer, sentences).log_probs for scorer in (self._raw, self._alone)
        )
        values = logits - log_probs
        found = (values.mean(), values.std(), abs(values).max())
        return dict(zip(("mean", "deviation", "largest"), map(float, found), strict=True))

    def _score_ngrams(self, sentences: _Sentences) -> "TextScores":
        from phrasescore.language_models.perplexity import score_with_kenlm

        assert self._language_model is not None
        return score_with_kenlm(self._language_model, sentences)


def _text(path: str, sentences: int, rows: list[_Row], log_z: dict[str, float] | None) -> str:
    name = shown_path(path)
    width = max(len("model"), *(len(row.model) for row in rows))
    tokens = rows[0].found.tokens
    lines = [
        f"{name}: {sentences:,} sentences, {tokens:,} tokens (words and </s>)",
        f"{'model':<{width}}  {'unknown':>8}  {'perplexity':>11}  {'without unknown words':>22}",
    ]
    lines += [
        f"{row.model:<{width}}  {row.found.unknown:>8,}  {row.found.including_unknown:>11.4f}  "
        f"{row.found.excluding_unknown:>22.4f}"
        for row in rows
    ]
    if log_z is not None:
        lines.append(
            f"log Z of the network: mean {log_z['mean']:.4f}, standard deviation "
            f"{log_z['deviation']:.4f}, at most {log_z['largest']:.4f} from 0"
        )
    return "\n".join(lines)


def _values(
    path: str, sentences: int, rows: list[_Row], log_z: dict[str, float] | None
) -> dict[str, object]:
    models: list[dict[str, object]] = [
        {"model": row.model, "weight": row.weight, **dataclasses.asdict(row.found)} for row in rows
    ]
    for values in models:
        # JSON has no NaN: no token is known.
        if values["unknown"] == values["tokens"]:
            values["excluding_unknown"] = None
    return {"text": path, "sentences": sentences, "models": models, "log_z": log_z}
