"""The networks of ``phrasescore rescore``: loaded, with their device, threads and cache."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from phrasescore.config.config import Config
    from phrasescore.features.score_cache import ScoreCache
    from phrasescore.features.sentences import SentenceScores
    from phrasescore.models.checkpoint import Checkpoint

_logger = logging.getLogger(__name__)


def load_models(models: Sequence[str], device: str) -> "list[Checkpoint]":
    """Return the trained models, when it is known that there is a device for them."""
    if not models:
        return []
    from phrasescore.devices import choose_device
    from phrasescore.models.checkpoint import load_checkpoint

    choose_device(device)
    return [load_checkpoint(path) for path in models]


def check_cslm(configs: "Sequence[Config]", backoff_lm: str | None, *, unnormalized: bool) -> None:
    """Check the options of the models of the kind cslm.

    :param configs: of all models.
    :raises click.UsageError: if there is no such model, or the two exclude one another.
    """
    if backoff_lm is not None and unnormalized:
        raise click.UsageError("--backoff-lm divides probabilities: not with --unnormalized")
    models = [config for config in configs if config.kind == "cslm"]
    for option, is_given in (
        ("--backoff-lm", backoff_lm is not None),
        ("--unnormalized", unnormalized),
    ):
        if is_given and not models:
            raise click.UsageError(f"{option} is of a --model of the kind cslm, and there is none")
    for config in models if unnormalized else ():
        if not config.model.self_normalization:  # type: ignore[union-attr]
            _logger.warning(
                "--unnormalized: a cslm was trained without self_normalization: its scores without "
                "log Z mean little"
            )


def open_cache(
    stack: ExitStack, cache_file: str | None, cache_size: int, word_scores: str | None
) -> "ScoreCache | None":
    """Return the cache, open as long as the stack; None where none is wanted or of use.

    :raises PhrasescoreError: if the file is no cache, or cannot be one.
    """
    from phrasescore.features.score_cache import ScoreCache

    if cache_file is None:
        return None
    if word_scores is not None:
        _logger.warning("--word-scores computes every score: the cache is not used")
        return None
    return stack.enter_context(ScoreCache(cache_file, limit=cache_size))


def network_scores(
    checkpoints: "list[Checkpoint]",
    device: str,
    cache: "ScoreCache | None",
    *,
    precision: str,
    threads: int | None,
    ensemble: bool,
    words: bool,
    backoff_lm: str | None = None,
    unnormalized: bool = False,
) -> "SentenceScores":
    """Return what scores lists, on the device and with the threads that there are.

    :param backoff_lm: of the models of the kind cslm, as is ``unnormalized``.
    :raises ModelError: if the models cannot be an ensemble, or hold what is not finite.
    """
    import torch

    from phrasescore.devices import choose_device, usable_threads
    from phrasescore.features.cslm import CslmOptions
    from phrasescore.features.sentences import SentenceScores

    torch.set_num_threads(1)  # scoring has threads of its own
    scores = SentenceScores(
        checkpoints,
        choose_device(device),
        precision=precision,  # type: ignore[arg-type]
        threads=usable_threads(threads),
        ensemble=ensemble,
        words=words,
        cache=cache,
        cslm=CslmOptions(normalized=not unnormalized, backoff=backoff_lm),
    )
    if ensemble:
        _warn_of_shortlists(checkpoints)
    return scores


def _warn_of_shortlists(checkpoints: "Sequence[Checkpoint]") -> None:
    """Say that an ensemble's models predict other words than one another, if so."""
    vocabularies = [checkpoint.target_vocabulary for checkpoint in checkpoints]
    if any(vocabulary != vocabularies[0] for vocabulary in vocabularies):
        _logger.warning(
            "--ensemble: the models predict words of different shortlists (of %s words): a smaller "
            "one gives <unk> more probability than the others give any one rare word",
            ", ".join(f"{len(vocabulary):,}" for vocabulary in vocabularies),
        )
