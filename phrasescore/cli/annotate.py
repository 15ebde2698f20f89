"""``phrasescore annotate``: add score columns to a phrase table."""

import logging
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

import click

from phrasescore.cli import options
from phrasescore.errors import PhrasescoreError

if TYPE_CHECKING:
    from moses_integration.phrase_table import PhraseTableLine
    from phrasescore.features import Feature

_logger = logging.getLogger(__name__)

# Lines of a chunk: what is lost at most when a run is killed, and a member of a .gz file. A
# multiple of every feature's block, so that a resumed run has the same blocks.
CHUNK_LINES = 65536
# Features that need nothing but the models' vocabularies.
FEATURE_NAMES = ("unknown_words",)
_ORDER = "phrasescore.annotate.order"


class _OrderedOptions(click.Command):
    """A command that knows in which order ``--model`` and ``--feature`` were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note the order, which the values of two options do not tell."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [param.name for param in order if param.name in ("models", "features")]
        return super().parse_args(ctx, args)


@click.command(cls=_OrderedOptions)
@click.argument("table", metavar="TABLE")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    help="A trained model: adds log p(target | source), or the reverse if it was trained so.",
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    type=click.Choice(FEATURE_NAMES),
    help="unknown_words: the number of target words outside the models' shortlists.",
)
@options.output
@click.option("--moses-ini", metavar="IN", help="The moses.ini that uses the table.")
@click.option("--moses-ini-out", metavar="OUT", help="Where it goes with the new columns in it.")
@click.option("--resume", is_flag=True, help="Go on with a run of this command that was killed.")
@click.option(
    "--precision",
    type=click.Choice(("float32", "tf32", "bfloat16")),
    default="float32",
    show_default=True,
    help="Of the matrix products; less is faster, docs/performance.md has the errors.",
)
@options.device
@options.threads
@options.verbosity
@click.pass_context
def annotate(
    ctx: click.Context,
    table: str,
    models: tuple[str, ...],
    features: tuple[str, ...],
    output: str,
    moses_ini: str | None,
    moses_ini_out: str | None,
    resume: bool,
    precision: str,
    device: str,
    threads: int | None,
) -> None:
    """Add one score column a model or feature to the phrase table TABLE.

    The columns come after the table's own, in the order of the options; every other byte stays.
    A column holds probabilities, exp of a natural logarithm, as Moses wants them.
    """
    from moses_integration.moses_ini import MosesIni
    from moses_integration.phrase_table import read_phrase_table
    from phrasescore.resumable import is_resumable
    from phrasescore.text import same_file

    if output != "-" and moses_ini_out is not None and same_file(output, moses_ini_out):
        raise PhrasescoreError(f"{output}: named for the table and for moses.ini")
    if not models:
        raise click.UsageError("at least one --model is needed: it brings a column or a shortlist")
    if (moses_ini is None) != (moses_ini_out is None):
        raise click.UsageError("--moses-ini and --moses-ini-out go together")
    if resume and not is_resumable(output):
        raise click.UsageError("--resume needs --output FILE: a stream cannot be resumed")
    for name in (table, moses_ini):
        for out in (output, moses_ini_out):
            if name is not None and out is not None and same_file(name, out):
                raise PhrasescoreError(f"{out}: would overwrite its own input; name another file")
    lines = read_phrase_table(table)
    first = next(lines)
    ini = None
    if moses_ini is not None:
        # Before the long work: what is wrong with it is said at once.
        ini = MosesIni.read(moses_ini)
        path = None if output == "-" else output
        ini.add_scores(
            None, len(ctx.meta[_ORDER]), path, old_table_path=table, num_scores=first.num_scores
        )
    columns, settings = _build_columns(
        ctx.meta[_ORDER], models, features, precision=precision, device=device, threads=threads
    )
    _write(chain([first], lines), table, output, columns, settings, resume)
    if ini is not None and moses_ini_out is not None:
        ini.write(moses_ini_out)
    for column in columns:
        _logger.info("%s", column.summary())


def _build_columns(
    order: list[str],
    models: tuple[str, ...],
    features: tuple[str, ...],
    *,
    precision: str,
    device: str,
    threads: int | None,
) -> "tuple[list[Feature], dict[str, str]]":
    """Return the columns in the order of the options, and what their values depend on."""
    import torch

    from phrasescore.checkpoint import load_checkpoint
    from phrasescore.devices import choose_device, usable_threads
    from phrasescore.features.neural import NeuralScore
    from phrasescore.features.unknown_words import UnknownWords

    place = choose_device(device)
    torch.set_num_threads(1)  # the columns have threads of their own
    checkpoints = [load_checkpoint(path) for path in models]
    vocabularies = [checkpoint.table_target_vocabulary for checkpoint in checkpoints]
    remaining, names = list(checkpoints), list(features)
    columns: list[Feature] = []
    settings = {"precision": precision, "device": place.type, "chunk": str(CHUNK_LINES)}
    for position, option in enumerate(order):
        if option == "models":
            checkpoint = remaining.pop(0)
            columns.append(
                NeuralScore(
                    checkpoint,
                    place,
                    precision=precision,  # type: ignore[arg-type]
                    threads=usable_threads(threads),
                )
            )
            settings[f"column {position + 1}"] = checkpoint.fingerprint
        else:
            columns.append(UnknownWords(vocabularies))
            shortlists = " ".join(checkpoint.fingerprint for checkpoint in checkpoints)
            settings[f"column {position + 1}"] = f"{names.pop(0)} {shortlists}"
    return columns, settings


def _write(
    lines: "Iterator[PhraseTableLine]",
    table: str,
    output: str,
    columns: "list[Feature]",
    settings: dict[str, str],
    resume: bool,
) -> None:
    """Annotate the table into ``output``, with progress."""
    from moses_integration.annotate import annotate as annotate_lines
    from phrasescore.cli.progress import Progress
    from phrasescore.resumable import ResumableOutput, is_resumable
    from phrasescore.text import open_output

    if not is_resumable(output):
        with open_output(output) as stream, Progress("annotate") as progress:
            for count, _, data in _chunks(annotate_lines(lines, columns)):
                stream.write(data)
                progress.update(count)
        return
    with ResumableOutput(output, settings, resume=resume) as target:
        for _, skipped, _ in _chunks((line, b"") for line in islice(lines, target.done.lines)):
            target.skip(skipped)
        target.check_skipped(table)
        if target.done.lines:
            _logger.info("going on after line %s", f"{target.done.lines:,}")
        with Progress("annotate") as progress:
            for count, read, data in _chunks(annotate_lines(lines, columns)):
                target.write(data, read, count)
                progress.update(count)


def _chunks(
    annotated: "Iterable[tuple[PhraseTableLine, bytes]]",
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the number of lines, the bytes read and the bytes to write of each chunk."""
    iterator = iter(annotated)
    while chunk := list(islice(iterator, CHUNK_LINES)):
        read = b"".join([part for line, _ in chunk for part in (line.raw, line.end)])
        yield len(chunk), read, b"".join([data for _, data in chunk])
