"""The options of ``phrasescore tune``, in groups, and which of them go together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import click

from phrasescore.errors import PhrasescoreError

# Those of tuning.methods, which imports what --help need not wait for.
METHODS = ("mert", "mira", "pro", "xbleu")
METRICS = ("bleu", "chrf")
REFERENCE_LENGTHS = ("closest", "shortest", "average")

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


@dataclass(frozen=True)
class TuneOptions:
    """What the user asked for, by the names of the parameters."""

    nbest: tuple[str, ...]
    references: tuple[str, ...]
    features: tuple[str, ...]
    scores: tuple[str, ...]
    weights: str | None
    ifile: str | None
    moses_ini: str | None
    moses_ini_out: str | None
    method: str
    metrics: dict[str, float]
    reference_length: Literal["closest", "shortest", "average"]
    starts: int
    replicas: int
    cross_validate: int | None
    fixed: tuple[str, ...]
    decoder: str | None
    decoder_flags: str
    source: str | None
    working_dir: str
    iterations: int
    nbest_size: int
    patience: int
    rescore: tuple[str, ...]
    resume: bool
    report: str | None
    output: str
    report_format: str
    seed: int
    device: str
    threads: int | None

    def check(self) -> None:
        """Refuse what does not go together.

        :raises click.UsageError: at that.
        :raises PhrasescoreError: if a file would overwrite another.
        """
        given = [bool(self.nbest), bool(self.features or self.scores), self.decoder is not None]
        if sum(given) != 1:
            raise click.UsageError("give one of NBEST, --features with --scores, and --decoder")
        if len(self.features) != len(self.scores):
            raise click.UsageError("--features and --scores come in pairs")
        if self.features:
            self._check_extracted()
        elif not self.references:
            raise click.UsageError("--references is needed")
        if self.decoder is not None:
            self._check_loop()
        elif self.source is not None or self.rescore or self.resume or self.decoder_flags:
            raise click.UsageError("--source, --rescore, --resume, --decoder-flags: with --decoder")
        elif not (self.weights or self.ifile or self.moses_ini):
            problem = "the weights that the lists were made with are needed to start from"
            raise click.UsageError(f"{problem}: --weights or --moses-ini")
        if self.ifile and (self.weights or not self.features):
            raise click.UsageError("--ifile goes with --features, in place of --weights")
        if self.moses_ini_out is not None and self.moses_ini is None and self.decoder is None:
            raise click.UsageError("--moses-ini-out needs the --moses-ini to change")
        self._check_files()

    def _check_extracted(self) -> None:
        if self.references:
            raise click.UsageError(
                "--references goes with NBEST: --scores has what is made of them"
            )
        if set(self.metrics) != {"bleu"} or self.reference_length != "closest":
            problem = "--metric and --reference-length go with NBEST"
            raise click.UsageError(f"{problem}: the statistics in --scores are made already")

    def _check_loop(self) -> None:
        if self.source is None:
            raise click.UsageError("--decoder needs --source, the text to translate")
        if self.replicas > 1 or self.cross_validate is not None:
            raise click.UsageError("--replicas and --cross-validate go with NBEST")
        if self.source == "-":
            raise click.UsageError("--source is read in every round: it cannot be stdin")

    def _check_files(self) -> None:
        from phrasescore.text import same_file

        inputs = [*self.nbest, *self.references, *self.features, *self.scores]
        inputs += [
            name
            for name in (self.weights, self.ifile, self.moses_ini, self.source)
            if name is not None
        ]
        if inputs.count("-") > 1:
            raise click.UsageError("only one of the files can be stdin")
        outputs = [name for name in (self.output, self.moses_ini_out, self.report) if name]
        if outputs.count("-") > 1:
            raise click.UsageError("only one of -o, --moses-ini-out and --report can be stdout")
        for place, name in enumerate(outputs):
            for other in (*inputs, *outputs[:place]):
                if same_file(name, other):
                    problem = "would overwrite another file; name another one"
                    raise PhrasescoreError(f"{name}: {problem}")


def _parse_metrics(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for value in values:
        name, separator, share = value.partition("=")
        try:
            weight = float(share) if separator else 1.0
        except ValueError:
            weight = 0.0
        if name not in METRICS or not 0 < weight < float("inf") or name in found:
            problem = f"expected {' or '.join(METRICS)} once, or bleu=WEIGHT, got {value!r}"
            raise click.BadParameter(problem, ctx, param)
        found[name] = weight
    return found


def _apply(command: _Decorated, decorators: list[Callable[[Any], Any]]) -> _Decorated:
    for decorator in decorators[::-1]:
        command = decorator(command)
    return command


def inputs(command: _Decorated) -> _Decorated:
    """Add what is tuned on, and the weights to start from."""
    return _apply(
        command,
        [
            click.option(
                "--references",
                "--refs",
                multiple=True,
                metavar="FILE",
                help="Reference translations, line by line; again for another set. FILE0, FILE1 "
                "and so on where there is no FILE, as in mert-moses.pl.",
            ),
            click.option(
                "--features",
                multiple=True,
                metavar="FILE",
                help="Features as Moses' extractor writes them, in place of NBEST.",
            ),
            click.option(
                "--scores",
                multiple=True,
                metavar="FILE",
                help="Their BLEU statistics, in place of references.",
            ),
            click.option(
                "--weights",
                metavar="FILE",
                help="Start weights, those the lists were made with: 'Name= value' lines, or a "
                "moses.ini. Features without a weight start at 0.",
            ),
            click.option(
                "--ifile",
                metavar="FILE",
                help="Start weights as mert has them (init.opt): numbers in the order of "
                "--features.",
            ),
            click.option(
                "--moses-ini",
                "--config",
                "moses_ini",
                metavar="FILE",
                help="The moses.ini to change; its weights are the start where --weights is not.",
            ),
            click.option(
                "--moses-ini-out",
                metavar="FILE",
                help="Where it goes with the new weights; features that no list has keep theirs.",
            ),
        ],
    )


def search(command: _Decorated) -> _Decorated:
    """Add how weights are looked for."""
    return _apply(
        command,
        [
            click.option(
                "--method",
                type=click.Choice(METHODS),
                default="mert",
                show_default=True,
                help="mert for up to some twenty features; pro, mira and xbleu for many.",
            ),
            click.option(
                "--metric",
                "metrics",
                multiple=True,
                default=("bleu",),
                show_default=True,
                callback=_parse_metrics,
                metavar="bleu|chrf[=WEIGHT]",
                help="What is raised; given twice, the weighted mean of both.",
            ),
            click.option(
                "--reference-length",
                type=click.Choice(REFERENCE_LENGTHS),
                default="closest",
                show_default=True,
                help="Of several references, whose length BLEU takes.",
            ),
            click.option(
                "--starts",
                "--random-restarts",
                "starts",
                type=click.IntRange(min=0),
                default=20,
                show_default=True,
                help="Of mert: random starts besides the given weights.",
            ),
            click.option(
                "--replicas",
                type=click.IntRange(min=1),
                default=1,
                show_default=True,
                help="Run with so many seeds, report the spread, and average the weights.",
            ),
            click.option(
                "--cross-validate",
                type=click.IntRange(min=2),
                metavar="K",
                help="Compare all methods on dev: each tuned on K-1 parts, measured on the other.",
            ),
            click.option(
                "--fix",
                "fixed",
                multiple=True,
                metavar="NAME",
                help="Leave the weights of this feature alone; NAME_0 for its first value.",
            ),
        ],
    )


def loop(command: _Decorated) -> _Decorated:
    """Add the loop with a decoder; the second names are those of mert-moses.pl."""
    return _apply(
        command,
        [
            click.option(
                "--decoder",
                metavar="COMMAND",
                help="Decode, pool and optimise in rounds. Moses' command, as 'moses -f "
                "moses.ini'; or another's, with {nbest}, {weights} and {size} in it.",
            ),
            click.option(
                "--decoder-flags", default="", metavar="FLAGS", help="More of that command."
            ),
            click.option("--source", "--input", metavar="FILE", help="What is decoded."),
            click.option(
                "--working-dir",
                metavar="DIR",
                default="mert-work",
                show_default=True,
                help="Where the loop keeps lists, logs, its state and the best moses.ini.",
            ),
            click.option(
                "--iterations",
                "--maximum-iterations",
                "iterations",
                type=click.IntRange(min=1),
                default=25,
                show_default=True,
                help="Rounds at most.",
            ),
            click.option(
                "--nbest-size",
                "--nbest",
                "nbest_size",
                type=click.IntRange(min=1),
                default=100,
                show_default=True,
                help="Hypotheses in a list.",
            ),
            click.option(
                "--patience",
                type=click.IntRange(min=1),
                default=5,
                show_default=True,
                help="Rounds without a better translation after which the loop ends.",
            ),
            click.option(
                "--rescore",
                multiple=True,
                metavar="MODEL",
                help="Add this model's score to the lists of each round.",
            ),
            click.option(
                "--resume",
                "--continue",
                "resume",
                is_flag=True,
                help="Go on with the run in --working-dir.",
            ),
        ],
    )
