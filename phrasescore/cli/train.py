"""``phrasescore train``: train a network on a phrase table or on parallel text."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from phrasescore.cli import options
from phrasescore.config.config import Config, preset_names
from phrasescore.config.settings import LANGUAGE_MODELS, MODEL_CONFIGS
from phrasescore.errors import ConfigError, PhrasescoreError

if TYPE_CHECKING:
    from phrasescore.models.checkpoint import CurvePoint
    from phrasescore.progress import Meter
    from phrasescore.training.loop import TrainingProgress
    from phrasescore.training.pair_store_writer import Shortlist
    from phrasescore.training.table_spool import CountedPair

_logger = logging.getLogger(__name__)

# What the settings start from where nothing is named.
DEFAULT_PRESETS = {
    "attention": "attention-small",
    "cslm": "cslm-small",
    "encoder-decoder": "small",
    "grconv": "grconv-small",
    "lstm": "lstm-small",
}
# Kinds of networks that may be trained on a phrase table; all but language models are trained on
# parallel text.
TABLE_KINDS = ("encoder-decoder",)


@click.command()
@click.argument("kind", metavar="KIND", type=click.Choice(sorted(MODEL_CONFIGS)))
@click.argument("inputs", metavar="TABLE|TEXT|SOURCE TARGET", nargs=-1, required=True)
@click.option("-o", "--output", metavar="MODEL", required=True, help="The folder to make.")
@click.option(
    "--preset",
    type=click.Choice(preset_names()),
    show_default="small, lstm-small, attention-small, grconv-small or cslm-small, by KIND",
    help="Settings to start from.",
)
@click.option("--config", "config_file", metavar="FILE", help="A TOML file of settings, instead.")
@click.option(
    "--set",
    "assignments",
    metavar="TABLE.KEY=VALUE",
    multiple=True,
    help="Change a setting, as training.batch_size=32. May be repeated.",
)
@click.option("--reverse", is_flag=True, help="Learn p(source | target).")
@click.option("--updates", type=click.IntRange(min=1), help="Stop after so many batches.")
@click.option("--epochs", type=float, help="Stop after so many passes over the pairs.")
@click.option("--minutes", type=float, help="Stop after so many minutes, all resumptions counted.")
@click.option("--source-corpus", metavar="FILE", help="Take the source shortlist from this text.")
@click.option("--target-corpus", metavar="FILE", help="Take the target shortlist from this text.")
@click.option("--source-vocabulary", metavar="FILE", help="A source.vocab of another model.")
@click.option("--target-vocabulary", metavar="FILE", help="A target.vocab of another model.")
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped or killed.")
@click.option("--work-dir", metavar="DIR", show_default="MODEL.work", help="For the run's state.")
@click.option("--keep-work", is_flag=True, help="Keep that folder, to train further by --resume.")
@options.seed
@options.device
@options.threads
@options.verbosity
@click.pass_context
def train(
    ctx: click.Context,
    kind: str,
    inputs: tuple[str, ...],
    output: str,
    preset: str | None,
    config_file: str | None,
    assignments: tuple[str, ...],
    reverse: bool,
    updates: int | None,
    epochs: float | None,
    minutes: float | None,
    source_corpus: str | None,
    target_corpus: str | None,
    source_vocabulary: str | None,
    target_vocabulary: str | None,
    resume: bool,
    work_dir: str | None,
    keep_work: bool,
    seed: int,
    device: str,
    threads: int | None,
) -> None:
    """Train a network of KIND and write the folder MODEL.

    It learns from parallel text, which is the files SOURCE and TARGET with a tokenised sentence a
    line; an encoder-decoder also from the phrase pairs of the phrase table TABLE. A cslm, which is
    a language model, learns from one file, TEXT; it goes by the options of the target. Files may be
    compressed by gzip, and one of them may be -, which is stdin.

    Training stops at the first limit that is reached, or when the perplexity of held-out pairs
    stops falling. A run that was stopped by Ctrl-C or killed goes on with --resume.
    """
    import torch

    from phrasescore.cli.progress import show_progress
    from phrasescore.devices import choose_device, usable_threads
    from phrasescore.models.checkpoint import CurvePoint
    from phrasescore.progress import Meter
    from phrasescore.training.run import TrainingRun, train_model
    from phrasescore.training.work_folder import default_work, stored_config

    _check_inputs(kind, inputs)
    if kind in LANGUAGE_MODELS and (reverse or source_corpus or source_vocabulary):
        raise click.UsageError(f"{kind} reads no source: it has no reverse and no source shortlist")
    if (*inputs, source_corpus, target_corpus, source_vocabulary, target_vocabulary).count("-") > 1:
        raise click.UsageError("two files cannot share stdin")
    model = Path(os.path.normpath(output))
    if not model.name or output == "-":
        raise PhrasescoreError(f"{output or repr(output)}: expected the name of a folder to make")
    work = Path(work_dir) if work_dir else default_work(model)
    given = {"updates": updates, "epochs": epochs, "minutes": minutes}
    if ctx.get_parameter_source("seed") != ParameterSource.DEFAULT:
        given["seed"] = seed
    stored = stored_config(work) if resume else None
    config = read_settings(kind, preset, config_file, assignments, given, stored)
    if resume and stored is None and not model.exists():
        # With the settings of this command line: an error or Ctrl-C in the text leaves no run.
        _logger.info("%s: holds no run to go on with; a new one begins", work)
    torch.set_num_threads(usable_threads(threads))
    run = TrainingRun(
        inputs=inputs,
        read=lambda: _read_text(inputs[0]) if kind in LANGUAGE_MODELS else _read_pairs(inputs),
        model=model,
        work=work,
        config=config,
        device=choose_device(device),
        reverse=reverse,
        shortlists=_shortlists(
            (source_corpus, source_vocabulary), (target_corpus, target_vocabulary), reverse
        ),
        keep_work=keep_work,
    )
    seen: list[CurvePoint] = []
    with Meter("train", "updates", show_progress) as progress:
        record = train_model(run, resume=resume, report=lambda now: _report(progress, now, seen))
    if isinstance(record, Signals):
        raise click.exceptions.Exit(128 + record)
    best = [
        f"validation perplexity {point.validation_perplexity:.3f} after update {point.update:,}"
        for point in record.curve
        if point.update == record.best_update and point.validation_perplexity is not None
    ]
    _logger.info("%s: %s", output, "; ".join([f"stopped by {record.stopped_by}", *best]))


def _check_inputs(kind: str, inputs: tuple[str, ...]) -> None:
    """Refuse what is not the one file, or two, that this kind learns from."""
    from phrasescore.io.text import same_file

    if kind in LANGUAGE_MODELS:
        if len(inputs) > 1:
            raise click.UsageError(f"{kind} is trained on one text, got {len(inputs)} files")
        return
    if len(inputs) > 2:
        raise click.UsageError(
            f"expected a phrase table or two files of parallel text, got {len(inputs)} files"
        )
    if len(inputs) == 1 and kind not in TABLE_KINDS:
        raise click.UsageError(
            f"{kind} is trained on parallel text: name two files, SOURCE and TARGET"
        )
    if inputs.count("-") > 1:
        raise click.UsageError("only one of SOURCE and TARGET can be -, which is stdin")
    if len(inputs) == 2 and same_file(*inputs):
        raise click.UsageError("SOURCE and TARGET are one file: expected a text and a translation")


def read_settings(
    kind: str,
    preset: str | None,
    config_file: str | None,
    assignments: tuple[str, ...],
    limits: dict[str, int | float | None],
    stored: Config | None = None,
) -> Config:
    """Return the settings that the options of a command ask for.

    :param limits: values of options that are settings of training, by name.
    :param stored: of a run to resume.
    :raises ConfigError: if one is wrong.
    """
    config = _read_config(kind, preset, config_file, stored).override(assignments)
    for name, value in limits.items():
        if value is not None:
            config = config.override([f"training.{name}={value}"], path=f"--{name}")
    return config


def _read_config(
    kind: str, preset: str | None, config_file: str | None, stored: Config | None
) -> Config:
    """Return the settings to start from; of a run to resume its own, where none are named."""
    if preset is not None and config_file is not None:
        raise click.UsageError("--preset and --config exclude one another")
    if config_file is not None:
        config, origin = Config.from_toml(config_file), f"--config {config_file}"
    elif preset is None and stored is not None:
        config, origin = stored, "--resume"
    else:
        preset = preset or DEFAULT_PRESETS[kind]
        config, origin = Config.preset(preset), f"--preset {preset}"
    if config.kind != kind:
        known = f"; presets of {kind}: {', '.join(preset_names(kind))}" if preset else ""
        problem = f"the settings are for {config.kind!r}, not {kind!r}{known}"
        raise ConfigError(origin, "kind", problem)
    return config


def _read_pairs(inputs: tuple[str, ...]) -> "Iterator[CountedPair]":
    """Yield the pairs of a phrase table, or of parallel text, where each line counts 1."""
    from moses_integration.phrase_table import read_phrase_table
    from moses_integration.table_line import joint_count
    from phrasescore.cli.progress import show_progress
    from phrasescore.io.corpora import read_parallel_text
    from phrasescore.progress import Meter
    from phrasescore.training.table_spool import CountedPair

    with Meter("read", "lines", show_progress) as progress:
        if len(inputs) == 1:
            for line in progress.track(read_phrase_table(inputs[0])):
                yield CountedPair(line.raw, line.pair, joint_count(line.raw))
        else:
            for sentence in progress.track(read_parallel_text(*inputs)):
                yield CountedPair(sentence.raw, sentence.pair, 1.0)


def _read_text(path: str) -> "Iterator[CountedPair]":
    """Yield the sentences of a text as pairs without a source, where each line counts 1."""
    from phrasescore.cli.progress import show_progress
    from phrasescore.io.corpora import read_monolingual_text
    from phrasescore.progress import Meter
    from phrasescore.records import PhrasePair
    from phrasescore.training.table_spool import CountedPair

    with Meter("read", "lines", show_progress) as progress:
        for line in progress.track(read_monolingual_text(path)):
            yield CountedPair(line.raw, PhrasePair((), line.words), 1.0)


def _shortlists(
    source: tuple[str | None, str | None], target: tuple[str | None, str | None], reverse: bool
) -> "Callable[[], tuple[Shortlist, Shortlist]]":
    """Return what reads the shortlists of the sides that the network reads and predicts."""
    for name, (corpus, vocabulary) in (("source", source), ("target", target)):
        if corpus is not None and vocabulary is not None:
            raise click.UsageError(f"--{name}-corpus and --{name}-vocabulary exclude one another")

    def read() -> "tuple[Shortlist, Shortlist]":
        from phrasescore.training.pair_store_writer import Shortlist
        from phrasescore.vocabulary import Vocabulary, count_words

        made = []
        for corpus, vocabulary in (target, source) if reverse else (source, target):
            if corpus is not None:
                made.append(Shortlist(f"corpus {corpus}", counts=count_words(corpus)))
            elif vocabulary is not None:
                loaded = Vocabulary.load(vocabulary)
                made.append(Shortlist(f"vocabulary {vocabulary}", vocabulary=loaded))
            else:
                made.append(Shortlist())
        return made[0], made[1]

    return read


def _report(progress: "Meter", now: "TrainingProgress", seen: "list[CurvePoint]") -> None:
    """Move the bar, and log each point of the curve once."""
    left = f", {_duration(now.seconds_left)} left" if now.seconds_left is not None else ""
    note = (
        f"update {now.update:,}, epoch {now.epochs:.2f}, loss {now.loss:.3f}, "
        f"{now.words_per_second:,.0f} words/s{left}"
    )
    progress.update(1, note)
    point = now.latest
    if point is not None and seen[-1:] != [point]:
        # What a resumed run has behind it is not news.
        is_news = bool(seen) or point.update >= now.update - 1
        seen.append(point)
        if is_news and point.validation_perplexity is not None:
            _logger.info(
                "update %s, %.1f minutes: loss %.3f, validation perplexity %.3f",
                f"{point.update:,}",
                point.minutes,
                point.training_loss,
                point.validation_perplexity,
            )


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
