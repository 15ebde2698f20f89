"""The options of ``phrasescore generate``, and which of them go together."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import click

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

# Hypotheses in the beam: as in Cho et al. (2014b).
USUAL_WIDTH = 10
# Of --augment.
USUAL_TARGETS = 3
USUAL_PHRASE_LENGTH = 7

_COUNT = click.IntRange(min=1)
_SEARCH = ("beam", "nbest", "normalize", "copy_unknown", "name")
_SAMPLING = ("temperature", "top")
_AUGMENT = (
    *("num_targets", "min_probability", "min_count", "only_sources", "max_phrase_length"),
    *("reverse_model", "lexicon", "reverse_lexicon", "scores", "no_indicator"),
    *("moses_ini", "moses_ini_out", "resume"),
)
# What --augment decides by itself.
_NOT_OF_TABLES = (
    "normalize",
    "copy_unknown",
    "nbest",
    "name",
    "no_unknown",
    "max_length",
    "sample",
)


@dataclass(frozen=True)
class GenerateOptions:
    """What is generated, with what."""

    model: str
    source: str
    ensemble: tuple[str, ...]
    beam: int
    nbest: tuple[str, int] | None
    name: str | None
    normalize: bool
    no_unknown: bool
    copy_unknown: bool
    max_length: int | None
    sample: int | None
    temperature: float
    top: int | None
    seed: int
    output: str
    precision: str
    device: str
    threads: int | None

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return the options of a command line."""
        own = {field.name: values[field.name] for field in dataclasses.fields(cls)}
        if own["beam"] is None:
            wanted = values["nbest"][1] if values["nbest"] else values["num_targets"]
            own["beam"] = max(USUAL_WIDTH, wanted)
        return cls(**own)

    @property
    def models(self) -> tuple[str, ...]:
        """All models, the first one first."""
        return (self.model, *self.ensemble)


@dataclass(frozen=True)
class AugmentOptions:
    """How a phrase table is augmented."""

    augment: str
    num_targets: int
    min_probability: float
    min_count: float | None
    only_sources: str | None
    max_phrase_length: int
    reverse_model: str | None
    lexicon: str | None
    reverse_lexicon: str | None
    scores: str | None
    no_indicator: bool
    moses_ini: str | None
    moses_ini_out: str | None
    resume: bool

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self | None:
        """Return the options of a command line; None if it augments nothing."""
        if values["augment"] is None:
            return None
        return cls(**{field.name: values[field.name] for field in dataclasses.fields(cls)})


def check_options(
    ctx: click.Context, wanted: GenerateOptions, augment: AugmentOptions | None
) -> None:
    """Check that the options go together, before anything is read.

    :raises click.UsageError: if they do not.
    """
    if augment is not None:
        _refuse(ctx, (*_NOT_OF_TABLES, *_SAMPLING, "seed", "source"), "are not of --augment")
        if (augment.moses_ini is None) != (augment.moses_ini_out is None):
            raise click.UsageError("--moses-ini and --moses-ini-out go together")
        if augment.no_indicator and augment.moses_ini is not None:
            raise click.UsageError(
                "--no-indicator adds no score: moses.ini stays as it is, but for the path"
            )
        if wanted.beam < augment.num_targets:
            raise click.UsageError("--beam: at least as many as --targets")
        return
    _refuse(ctx, _AUGMENT, "are of --augment TABLE alone")
    if wanted.sample is not None:
        _refuse(ctx, _SEARCH, "are not of --sample")
        return
    _refuse(ctx, (*_SAMPLING, "seed"), "are of --sample alone")
    if wanted.copy_unknown and wanted.no_unknown:
        raise click.UsageError("--copy-unknown has nothing to copy for with --no-unknown")
    if wanted.nbest is not None and wanted.nbest[1] > wanted.beam:
        raise click.UsageError("--beam: at least as many as --nbest wants of each sentence")
    if wanted.name is not None and wanted.nbest is None:
        raise click.UsageError("--name is of the feature in --nbest")


def _refuse(ctx: click.Context, names: tuple[str, ...], why: str) -> None:
    """Refuse options that were given and do nothing here."""
    given = click.core.ParameterSource.COMMANDLINE
    for param in ctx.command.params:
        if param.name in names and ctx.get_parameter_source(param.name) is given:
            shown = "SOURCE" if isinstance(param, click.Argument) else param.opts[-1]
            raise click.UsageError(f"{shown}: {why.replace('are', 'is', 1)}")


def _add(command: _Decorated, *decorators: Callable[[_Decorated], _Decorated]) -> _Decorated:
    """Add options in the order in which the help shows them."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def search(command: _Decorated) -> _Decorated:
    """Add the options of the models and of the beam search."""
    return _add(
        command,
        click.option(
            "--ensemble",
            multiple=True,
            metavar="MODEL",
            help="One more network: the probabilities are averaged at each word. They should have "
            "one shortlist.",
        ),
        click.option(
            "--beam",
            type=_COUNT,
            metavar="N",
            show_default=f"{USUAL_WIDTH}, or what --nbest and --targets need",
            help="Hypotheses that are kept; the beam shrinks with each one that ends.",
        ),
        click.option(
            "--normalize",
            is_flag=True,
            help="Sort what is complete by log p / (words + 1), which favours no short ones.",
        ),
        click.option("--no-unknown", is_flag=True, help="Never predict <unk>."),
        click.option(
            "--copy-unknown",
            is_flag=True,
            help="For each <unk> write the word of the source that it is aligned with most; needs "
            "a model of the kind attention.",
        ),
        click.option(
            "--max-length",
            type=_COUNT,
            metavar="N",
            show_default="twice the words of the source and 10",
            help="Words at most. What finds no end is cut, and reported.",
        ),
        click.option(
            "--nbest",
            nargs=2,
            type=(str, _COUNT),
            metavar="FILE N",
            help="Write the N best of each line to FILE, too, as Moses does.",
        ),
        click.option(
            "--name",
            metavar="NAME",
            show_default="LSTM0, Attention0, RNN0, GrConv0 or Ensemble0",
            help="Of the feature in --nbest that holds log p.",
        ),
    )


def sampling(command: _Decorated) -> _Decorated:
    """Add the options of samples."""
    return _add(
        command,
        click.option(
            "--sample",
            type=_COUNT,
            metavar="N",
            help="Draw N random translations of each line, and write the distinct ones, best "
            "first: 'source ||| target ||| log p ||| times'.",
        ),
        click.option(
            "--temperature",
            type=click.FloatRange(min=0, min_open=True),
            default=1.0,
            show_default=True,
            metavar="T",
            help="Of --sample: words are drawn in proportion to p^(1/T).",
        ),
        click.option(
            "--top", type=_COUNT, metavar="K", help="Of --sample: write the K best of each line."
        ),
    )


def augmenting(command: _Decorated) -> _Decorated:
    """Add the options of phrase tables."""
    return _add(
        command,
        click.option(
            "--augment",
            metavar="TABLE",
            help="Generate targets for the sources of a sorted phrase table, and write the table "
            "with those pairs that it lacks.",
        ),
        click.option(
            "--targets",
            "num_targets",
            type=_COUNT,
            default=USUAL_TARGETS,
            show_default=True,
            metavar="N",
            help="Of --augment: targets that are generated for a source; no more than these come "
            "into the table.",
        ),
        click.option(
            "--min-probability",
            type=click.FloatRange(0, 1),
            default=0.0,
            show_default=True,
            metavar="P",
            help="Of --augment: p(target | source) that a new pair has at least.",
        ),
        click.option(
            "--min-count",
            type=click.FloatRange(min=0),
            metavar="C",
            help="Of --augment: only sources that were extracted C times or more.",
        ),
        click.option(
            "--sources",
            "only_sources",
            metavar="FILE",
            help="Of --augment: only these source phrases, one a line; the table need not have "
            "them.",
        ),
        click.option(
            "--max-phrase-length",
            type=_COUNT,
            default=USUAL_PHRASE_LENGTH,
            show_default=True,
            metavar="N",
            help="Of --augment: words of a new target at most.",
        ),
        click.option(
            "--reverse-model",
            metavar="MODEL",
            help="Of --augment: a model trained with --reverse, for p(source | target).",
        ),
        click.option(
            "--lexicon",
            metavar="FILE",
            help="Of --augment: Moses' lex.f2e, for lex(target | source).",
        ),
        click.option(
            "--reverse-lexicon",
            metavar="FILE",
            help="Of --augment: Moses' lex.e2f, for lex(source | target).",
        ),
        click.option(
            "--scores",
            metavar="LIST",
            help="Of --augment: what a new pair has in each column of the table, separated by "
            "commas: forward, reverse, lexicon, reverse-lexicon, or a probability. Needed where "
            "the table has not Moses' four.",
        ),
        click.option(
            "--no-indicator",
            is_flag=True,
            help="Of --augment: add no column that is 1 for the old pairs and e for the new ones.",
        ),
        click.option(
            "--moses-ini", metavar="IN", help="Of --augment: the moses.ini that uses the table."
        ),
        click.option(
            "--moses-ini-out",
            metavar="OUT",
            help="Of --augment: where it goes with the new column in it.",
        ),
        click.option(
            "--resume",
            is_flag=True,
            help="Of --augment: go on with a run of this command that was killed.",
        ),
    )
