"""Add columns of scores to a phrase table."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from moses_integration.ini_text import IniText
from moses_integration.moses_ini import MosesIni
from moses_integration.phrase_table import TableBlock, read_table_blocks
from moses_integration.source_text import TextPhrases
from moses_integration.text_settings import TextSettings
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, shown_path
from phrasescore.features.columns import Column, as_columns, check_columns, input_files
from phrasescore.features.given_scores import check_counts
from phrasescore.features.lexicon import LexicalTally
from phrasescore.io.journal import new_digest
from phrasescore.io.output import check_files, optional_path
from phrasescore.io.resumable import check_resume, open_resumable, work_files
from phrasescore.io.text import same_file
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.systems.scoring import Scoring

_logger = logging.getLogger(__name__)

# Number of lines in a chunk: the most that a killed run loses, and one member of a .gz file.
CHUNK_LINES = 65536


@dataclass(frozen=True, slots=True)
class AnnotateSummary:
    """Counts from one run of `annotate`; after resuming, they exclude earlier runs."""

    lines: int
    # Number of lines that were scored; with texts, only lines whose source occurs in them.
    scored: int
    columns: tuple[str, ...]  # a one-line summary of each column's values


def annotate(
    table: StrPath,
    columns: Sequence[Column | StrPath],
    output: StrPath,
    *,
    moses_ini: StrPath | None = None,
    moses_ini_out: StrPath | None = None,
    texts: Sequence[StrPath] = (),
    resume: bool = False,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> AnnotateSummary:
    """Add one score per column to each line of a phrase table.

    The new columns follow the table's own, in order; all other bytes are unchanged. A column holds
    probabilities, exp of a natural logarithm (or of a count), as Moses expects. torch is imported
    only if a column needs a network.

    :param columns: at least one; a path is a model's folder. `GivenScores` has a file with one
        natural logarithm, at most 88, per line of the table.
    :param moses_ini: the moses.ini that uses the table.
    :param moses_ini_out: the moses.ini to write, in which the new columns have weight 0.
    :param texts: tokenised texts to translate, one sentence per line: only lines whose
        source occurs in a sentence are scored, and others are omitted; empty for all lines.
    :param resume: continue a killed run with the same arguments, if it left anything. Only
        the engine and its workers may differ.
    """
    table, output = os.fspath(table), os.fspath(output)
    ini_path, new_ini_path = optional_path(moses_ini), optional_path(moses_ini_out)
    compute = compute.on_workers()
    wanted = as_columns(columns)
    check_columns(wanted, of_phrases=True)
    check_resume(output, resume)
    check_moses_ini(ini_path, new_ini_path)
    check_sequences(texts=texts)
    inputs = input_files(wanted)
    text_paths = [os.fspath(text) for text in texts]
    check_files(
        [table, ini_path, *inputs, *text_paths], [output, *work_files(output), new_ini_path]
    )
    chosen = TextFilter(text_paths, ini_path) if text_paths else None
    blocks = read_table_blocks(table)
    first = next(blocks)
    ini = declare_scores(ini_path, new_ini_path, table, output, len(wanted), first.num_scores)
    with Scoring.of(wanted, compute=compute, of_phrases=True) as scorer:
        lines = check_counts(chain([first], blocks), table, scorer.given)
        settings = scorer.depends_on() | {"chunk": str(CHUNK_LINES)}
        if chosen is not None:
            settings |= chosen.settings
        with (
            open_resumable(output, settings, resume=resume, chunk_lines=CHUNK_LINES) as target,
            Meter("annotate", "lines", progress, lines_of=table) as meter,
        ):
            remaining = target.remaining(lines, table)
            marked = remaining if chosen is None else chosen.mark(remaining)
            names = (f"{shown_path(table)} ({side} side)" for side in ("source", "target"))
            for block, scores in scorer.score(marked, *names):
                computed = iter(scores.values)
                logs = [
                    next(computed) if added.given is None else block.of_pairs(added.given.of(block))
                    for added in scorer.added
                ]
                target.write(block.with_scores(logs), block.raw, block.num_lines)
                if not meter.done:
                    meter.skipped = block.before
                meter.update(block.num_lines)
            # Write moses.ini before the table appears: if that fails, the run can be resumed.
            target.flush()
            if ini is not None and new_ini_path is not None:
                ini.write(new_ini_path)
    kept = meter.done if chosen is None else chosen.kept
    if meter.done and not kept and not resume:  # of the whole table
        _logger.warning("%s: no source phrase occurs in the texts", shown_path(table))
    tallies = list(map(scorer.tally, scorer.added))
    for column, tally in zip(wanted, tallies, strict=True):
        if isinstance(tally, LexicalTally) and 2 * tally.floored > tally.words:
            _logger.warning(
                f"{shown_path(table)}: {shown_path(column.argument)} has no translation for "
                f"{tally.floored:,} of {tally.words:,} {tally.side} words: is it the lexicon of "
                "this direction?"
            )
        _logger.info("%s", tally)
    return AnnotateSummary(meter.done, kept, tuple(map(str, tallies)))


class TextFilter:
    """Marks, and counts as ``kept``, the table lines whose source occurs in the given texts.

    :param moses_ini: a moses.ini, which says whether the table's words are characters.
    """

    def __init__(self, texts: Sequence[str], moses_ini: str | None) -> None:
        settings = TextSettings() if moses_ini is None else IniText.read(moses_ini).text_settings()
        self._phrases = TextPhrases.read(texts, characters=settings.characters)
        self.kept = 0

    @property
    def settings(self) -> dict[str, str]:
        """The texts' digest, which determines the result's bytes."""
        return {"texts": new_digest(self._phrases.text).hexdigest()}

    def mark(self, blocks: Iterable[TableBlock]) -> Iterator[TableBlock]:
        """Yield the same blocks, with the lines to score marked."""
        for block in blocks:
            wanted = self._phrases.contain(block.data, block.phrases[:, :2])
            self.kept += int(wanted.sum())
            yield block._replace(wanted=wanted)


def check_moses_ini(moses_ini: str | None, moses_ini_out: str | None) -> None:
    """Raise an ArgumentError if only one of the two files is given."""
    if (moses_ini is None) != (moses_ini_out is None):
        raise ArgumentError("--moses-ini and --moses-ini-out must be given together")


def declare_scores(
    moses_ini: str | None, new_ini: str | None, table: str, output: str, added: int, num_scores: int
) -> MosesIni | None:
    """Return a moses.ini that uses the new table, or None without a moses.ini."""
    if moses_ini is None:
        return None
    ini = MosesIni.read(moses_ini)
    path = _path_in_ini(ini, table, output)
    ini.add_scores(added, path, old_table_path=table, num_scores=num_scores)
    paths = (ini.path, new_ini or ini.path)
    relative = [file for file in ini.named_paths() if not os.path.isabs(file)]
    in_one_folder = len({os.path.dirname(os.path.abspath(each)) for each in paths}) == 1
    if relative and not ini.folder and not in_one_folder and "-" not in paths:
        _logger.warning(
            f"{new_ini} is in another folder than {ini.path} and has relative paths, which Moses "
            f"resolves from its working folder; make them absolute: {', '.join(relative)}"
        )
    return ini


def _path_in_ini(ini: MosesIni, table: str, output: str) -> str | None:
    """Return the new table's path for moses.ini: absolute if the old table's path is.

    mert-moses.pl runs Moses in its own folder, where a relative path does not resolve. If the old
    path is relative and does not lead to the table from here, Moses runs in another folder, too.
    """
    feature = ini.find_phrase_table(table)
    old = feature.path
    if old and table != "-" and not ini.reads(feature, table):
        _logger.warning(
            f"{shown_path(ini.path)}: {feature.name} reads {old}, not {table}, which gets new "
            "columns: is it the same table? In the new moses.ini, it reads the new table"
        )
    if output == "-":
        _logger.warning(
            f"the table goes to stdout: in the new moses.ini, path= of {feature.name} is still "
            f"{old or 'nothing'}; set it to the file that holds the new table"
        )
        return None
    file = ini.resolve(old or "")
    runs_here = old and any(same_file(f"{file}{end}", table) for end in ("", ".gz"))
    if (old and os.path.isabs(old)) or not (runs_here or not old or table == "-"):
        return os.path.abspath(output)
    return os.path.relpath(output, ini.folder) if ini.folder else output
