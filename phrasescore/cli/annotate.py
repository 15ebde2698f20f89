"""``phrasescore annotate``: add score columns to a phrase table."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import click

from phrasescore import __version__
from phrasescore.cli import options
from phrasescore.cli.columns import check_columns, fingerprint, make_feature
from phrasescore.errors import ModelError, PhrasescoreError, shown_path

if TYPE_CHECKING:
    from moses_integration.moses_ini import MosesIni
    from moses_integration.phrase_table import PhraseTableLine
    from phrasescore.checkpoint import Checkpoint
    from phrasescore.features import Feature
    from phrasescore.features.neural import NeuralScore
    from phrasescore.resumable import ResumableOutput

_logger = logging.getLogger(__name__)

# Lines of a chunk: what is lost at most when a run is killed, and a member of a .gz file. A
# multiple of every feature's block, so that a resumed run has the same blocks.
CHUNK_LINES = 65536
# Bytes of output that are handed on at a time.
PIECE_BYTES = 4 << 20


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
    from moses_integration.phrase_table import read_phrase_table

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
    lines = read_phrase_table(table)
    first = next(lines)
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
    _write(chain([first], lines), table, output, columns, settings, resume)
    if ini is not None and moses_ini_out is not None:
        ini.write(moses_ini_out)
    for column in columns:
        _logger.info("%s", column.summary())


def _check_files(read: list[str], output: str, moses_ini_out: str | None, resume: bool) -> None:
    """Check that no file is in another's way, before anything is written."""
    from phrasescore.cli.file_names import check_models_stay
    from phrasescore.resumable import is_resumable, work_files
    from phrasescore.text import same_file

    if read.count("-") > 1 or (output, moses_ini_out) == ("-", "-"):
        raise click.UsageError("two files cannot share stdin or stdout")
    resumable = is_resumable(output)
    if resume and not resumable:
        raise click.UsageError("--resume needs --output FILE: a stream cannot be resumed")
    written = [output, *(work_files(output) if resumable else ())]
    for out in [*written, moses_ini_out]:
        for name in read:
            if out is not None and same_file(name, out):
                raise PhrasescoreError(f"{out}: would overwrite its own input; name another file")
    check_models_stay([output, moses_ini_out or "-"])
    if moses_ini_out is None or moses_ini_out == "-":
        return
    if any(same_file(moses_ini_out, out) for out in written):
        raise PhrasescoreError(f"{moses_ini_out}: named for moses.ini and needed for the table")
    folder = os.path.dirname(os.path.realpath(moses_ini_out))
    if os.path.isdir(moses_ini_out) or not os.access(folder, os.W_OK):
        raise PhrasescoreError(f"{moses_ini_out}: cannot write a file of this name")


def path_for_ini(ini: "MosesIni", table: str, output: str) -> str | None:
    """Return the new table's path as moses.ini has the old one: absolute if that is absolute.

    mert-moses.pl runs Moses in a folder of its own, where a relative path leads nowhere.
    """
    feature = ini.find_phrase_table(None, table)
    old = feature.path
    if old and table != "-" and not feature.reads(table):
        _logger.warning(
            "%s: %s has path=%s, which is not %s: Moses will use what is made of the latter",
            *(shown_path(ini.path), feature.name, old, table),
        )
    if output == "-":
        return None
    return os.path.abspath(output) if old and os.path.isabs(old) else output


def _build_columns(
    order: list[options.WantedColumn],
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
    columns: list[Feature] = []
    remaining = iter(zip(checkpoints, networks, strict=True))
    for position, wanted in enumerate(order, start=1):
        if wanted.option == "models":
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

    from phrasescore.checkpoint import load_checkpoint
    from phrasescore.devices import choose_device, usable_threads
    from phrasescore.features.neural import NeuralScore

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
            for piece in _pieces(annotate_lines(lines, columns)):
                stream.write(piece.data)
                progress.update(piece.num_lines)
        return
    with ResumableOutput(output, settings, resume=resume) as target:
        if target.finished:
            _logger.info("%s is there already; there was nothing left to do", output)
            return
        for piece in _pieces((line, b"") for line in islice(lines, target.done.lines)):
            target.skip(piece.read)
        target.check_skipped(table)
        if target.done.lines:
            _logger.info("going on after line %s", f"{target.done.lines:,}")
        elif resume:
            _logger.info("there is nothing to resume: starting with the first line")
        with Progress("annotate") as progress:
            write_lines(annotate_lines(lines, columns), target, progress.update)


def write_lines(
    annotated: "Iterable[tuple[PhraseTableLine, bytes]]",
    target: "ResumableOutput",
    report: Callable[[int], None],
) -> None:
    """Write annotated lines in chunks; ``report`` is told of each number of lines handed on."""
    in_chunk = 0
    for piece in _pieces(annotated):
        target.write(piece.data, piece.read)
        in_chunk += piece.num_lines
        if piece.ends_chunk:
            target.end_chunk(in_chunk)
            in_chunk = 0
        report(piece.num_lines)
    if in_chunk:
        target.end_chunk(in_chunk)


class _Piece(NamedTuple):
    """Some lines of a chunk."""

    num_lines: int
    read: bytes
    data: bytes
    ends_chunk: bool


def _pieces(annotated: "Iterable[tuple[PhraseTableLine, bytes]]") -> Iterator[_Piece]:
    """Yield the lines in pieces of a few megabytes, so that memory does not grow with a chunk."""
    read: list[bytes] = []
    data: list[bytes] = []
    size = in_chunk = 0
    for line, written in annotated:
        read += (line.raw, line.end)
        data.append(written)
        size += len(line.raw)
        in_chunk += 1
        if size >= PIECE_BYTES or in_chunk == CHUNK_LINES:
            yield _Piece(len(data), b"".join(read), b"".join(data), in_chunk == CHUNK_LINES)
            read, data, size, in_chunk = [], [], 0, in_chunk % CHUNK_LINES
    if data:
        yield _Piece(len(data), b"".join(read), b"".join(data), False)
