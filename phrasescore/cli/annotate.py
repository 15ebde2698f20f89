"""``phrasescore annotate``: add score columns to a phrase table."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import click

from phrasescore import __version__
from phrasescore.cli import options
from phrasescore.errors import ModelError, shown_path
from phrasescore.features.column_spec import ColumnSpec, check_columns

if TYPE_CHECKING:
    from moses_integration.moses_ini import MosesIni
    from moses_integration.table_blocks import TableBlock
    from phrasescore.features import Feature
    from phrasescore.features.neural import NeuralScore
    from phrasescore.io.resumable import ResumableOutput
    from phrasescore.models.checkpoint import Checkpoint

_logger = logging.getLogger(__name__)

# Lines of a chunk: what is lost at most when a run is killed, and a member of a .gz file. A
# multiple of every feature's block, so that a resumed run has the same blocks.
CHUNK_LINES = 65536


def _refuse_language_model(_ctx: click.Context, _param: click.Parameter, values: object) -> None:
    if values:
        raise click.UsageError(
            "--lm is for rescore alone: Moses scores with a language model as it searches, when a "
            "line 'KENLM path=FILE ...' in moses.ini names it"
        )


@click.command(cls=options.OrderedColumns)
@click.argument("table", metavar="TABLE")
@options.models
@options.features
@options.lexicons
@click.option(
    "--lm",
    hidden=True,
    multiple=True,
    callback=_refuse_language_model,
    expose_value=False,
    help="Refused with the reason: it is an option of rescore.",
)
@options.output
@click.option("--moses-ini", metavar="IN", help="The moses.ini that uses the table.")
@click.option("--moses-ini-out", metavar="OUT", help="Where it goes with the new columns in it.")
@click.option("--resume", is_flag=True, help="Go on with a run of this command that was killed.")
@options.precision
@options.device
@options.threads
@options.verbosity
@click.pass_context
def annotate(
    ctx: click.Context,
    table: str,
    models: tuple[str, ...],
    features: tuple[str, ...],
    lexicons: tuple[str, ...],
    reverse_lexicons: tuple[str, ...],
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
    from moses_integration.table_blocks import read_table_blocks

    order = options.column_order(
        ctx,
        models=models,
        features=features,
        lexicons=lexicons,
        reverse_lexicons=reverse_lexicons,
    )
    check_columns(order, of_phrases=True)
    if (moses_ini is None) != (moses_ini_out is None):
        raise click.UsageError("--moses-ini and --moses-ini-out go together")
    read = [name for name in (table, moses_ini, *lexicons, *reverse_lexicons) if name is not None]
    _check_files(read, output, moses_ini_out, resume)
    blocks = read_table_blocks(table)
    first = next(blocks)
    ini = None
    if moses_ini is not None:
        # Before the long work: what is wrong with it is said at once.
        ini = MosesIni.read(moses_ini)
        ini.add_scores(
            None,
            len(order),
            path_for_ini(ini, table, output),
            old_table_path=table,
            num_scores=first.num_scores,
        )
    columns, settings = _build_columns(
        order, models, precision=precision, device=device, threads=threads
    )

    def write_ini() -> None:
        if ini is not None and moses_ini_out is not None:
            ini.write(moses_ini_out)

    _write(chain([first], blocks), table, output, columns, settings, resume, write_ini)
    for column in columns:
        _logger.info("%s", column.summary())


def _check_files(read: list[str], output: str, moses_ini_out: str | None, resume: bool) -> None:
    """Check that no file is in another's way, before anything is written."""
    from phrasescore.io.file_names import check_files
    from phrasescore.io.resumable import is_resumable, work_files

    resumable = is_resumable(output)
    if resume and not resumable:
        raise click.UsageError("--resume needs --output FILE: a stream cannot be resumed")
    work = work_files(output) if resumable else ()
    check_files(read, [output, *work, moses_ini_out])


def path_for_ini(ini: "MosesIni", table: str, output: str) -> str | None:
    """Return the new table's path as moses.ini has the old one: absolute if that is absolute.

    mert-moses.pl runs Moses in a folder of its own, where a relative path leads nowhere. Where the
    old one is relative and does not lead to the table from here, Moses runs elsewhere, too.
    """
    from phrasescore.io.text import same_file

    feature = ini.find_phrase_table(None, table)
    old = feature.path
    if old and table != "-" and not feature.reads(table):
        _logger.warning(
            "%s: %s has path=%s, which is not %s: Moses will use what is made of the latter",
            *(shown_path(ini.path), feature.name, old, table),
        )
    if output == "-":
        _logger.warning(
            "the table goes to stdout: in the new moses.ini, path= of %s is still %s; set it to "
            "where the table ends up",
            *(feature.name, old or "nothing"),
        )
        return None
    runs_here = old and any(same_file(f"{old}{end}", table) for end in ("", ".gz"))
    is_relative = not (old and os.path.isabs(old)) and (runs_here or not old or table == "-")
    return output if is_relative else os.path.abspath(output)


def _build_columns(
    order: list[ColumnSpec],
    models: tuple[str, ...],
    *,
    precision: str,
    device: str,
    threads: int | None,
) -> "tuple[list[Feature], dict[str, str]]":
    """Return the columns in the order of the options, and what their values depend on."""
    settings = {"version": f"phrasescore {__version__}", "chunk": str(CHUNK_LINES)}
    checkpoints: list[Checkpoint] = []
    networks: list[NeuralScore] = []
    if models:
        checkpoints, networks = _load_networks(models, settings, precision, device, threads)
    from phrasescore.workflows.columns import fingerprint, make_feature

    columns: list[Feature] = []
    remaining = iter(zip(checkpoints, networks, strict=True))
    for position, wanted in enumerate(order, start=1):
        if wanted.kind == "model":
            checkpoint, network = next(remaining)
            columns.append(network)
            depends_on = checkpoint.fingerprint
        else:
            feature = make_feature(wanted, checkpoints)
            columns.append(feature)
            depends_on = fingerprint(wanted, feature, checkpoints)
        settings[f"column {position}"] = depends_on
    return columns, settings


def _load_networks(
    models: tuple[str, ...],
    settings: dict[str, str],
    precision: str,
    device: str,
    threads: int | None,
) -> "tuple[list[Checkpoint], list[NeuralScore]]":
    """Return the trained models and their scores; note in the settings what these depend on."""
    import torch

    from phrasescore.devices import choose_device, usable_threads
    from phrasescore.features.neural import NeuralScore
    from phrasescore.models.checkpoint import load_checkpoint

    place = choose_device(device)
    torch.set_num_threads(1)  # the columns have threads of their own
    settings["version"] += f", torch {torch.__version__}"
    settings |= {"precision": precision, "device": place.type}
    checkpoints = [load_checkpoint(path) for path in models]
    networks = []
    for path, checkpoint in zip(models, checkpoints, strict=True):
        try:
            network = NeuralScore(
                checkpoint,
                place,
                precision=precision,  # type: ignore[arg-type]
                threads=usable_threads(threads),
            )
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from error
        networks.append(network)
    return checkpoints, networks


def _write(
    blocks: "Iterator[TableBlock]",
    table: str,
    output: str,
    columns: "list[Feature]",
    settings: dict[str, str],
    resume: bool,
    write_ini: Callable[[], None],
) -> None:
    """Annotate the table into ``output``, with progress."""
    from moses_integration.annotate import annotate as annotate_blocks
    from phrasescore.cli.progress import show_progress
    from phrasescore.io.output import open_output
    from phrasescore.io.resumable import ResumableOutput, is_resumable
    from phrasescore.progress import Meter

    if not is_resumable(output):
        with open_output(output) as stream, Meter("annotate", "lines", show_progress) as progress:
            for block, data in annotate_blocks(blocks, columns):
                stream.write(data)
                progress.update(block.num_lines)
        write_ini()
        return
    with ResumableOutput(output, settings, resume=resume) as target:
        blocks = _skip_done(in_chunks(blocks), target)
        target.check_skipped(table)
        if target.finished or target.done.lines % CHUNK_LINES:
            # The earlier run has come to the end: what is new there has no chunk of its own.
            target.check_end(next(blocks, None), table)
        if target.finished:
            write_ini()
            return
        if target.done.lines:
            _logger.info("going on after line %s", f"{target.done.lines:,}")
        elif resume:
            _logger.info("there is nothing to resume: starting with the first line")
        with Meter("annotate", "lines", show_progress) as progress:
            write_chunks(annotate_blocks(blocks, columns), target, progress.update)
        # Before the table appears: if this fails, --resume has nothing else left to do.
        target.settle()
        write_ini()


def _skip_done(blocks: "Iterator[TableBlock]", target: "ResumableOutput") -> "Iterator[TableBlock]":
    """Hand the lines that are done to the target; return the others."""
    left = target.done.lines
    for block in blocks if left else ():
        done = block.lines(0, min(left, block.num_lines))
        target.skip(done.raw)
        left -= done.num_lines
        if left == 0:
            rest = block.lines(done.num_lines, block.num_lines)
            return chain([rest], blocks) if rest.num_lines else blocks
    return blocks


def in_chunks(blocks: "Iterable[TableBlock]") -> "Iterator[TableBlock]":
    """Yield the same lines in blocks that end where a chunk does."""
    for block in blocks:
        first = 0
        while first < block.num_lines:
            after = first + CHUNK_LINES - (block.before + first) % CHUNK_LINES
            part = block.lines(first, min(after, block.num_lines))
            yield part
            first += part.num_lines


def write_chunks(
    annotated: "Iterable[tuple[TableBlock, bytes]]",
    target: "ResumableOutput",
    report: Callable[[int], None],
) -> None:
    """Write annotated blocks; ``report`` is told of each number of lines handed on.

    :param annotated: with blocks from `in_chunks`.
    """
    chunk = 0
    for block, data in annotated:
        target.write(data, block.raw)
        chunk += block.num_lines
        if (block.before + block.num_lines) % CHUNK_LINES == 0:
            target.end_chunk(chunk)
            chunk = 0
        report(block.num_lines)
    if chunk:
        target.end_chunk(chunk)
