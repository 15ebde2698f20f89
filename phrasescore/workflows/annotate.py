"""Add columns of scores to a phrase table, or to the table of a system."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from moses_integration.moses_ini import MosesIni
from moses_integration.phrase_table import TableBlock, read_table_blocks
from moses_integration.source_text import TextPhrases
from moses_integration.table_line import HIGHEST_LOG
from phrasescore.arguments import StrPath, check_sequences
from phrasescore.errors import ArgumentError, ConfigError, shown_path
from phrasescore.features.columns import Column, as_columns, check_columns, input_files
from phrasescore.features.given_scores import check_counts
from phrasescore.features.lexicon import LexicalTally
from phrasescore.io.journal import new_digest
from phrasescore.io.output import check_files, writing
from phrasescore.io.resumable import check_resume, open_resumable, work_files
from phrasescore.io.text import same_file
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import WeightPair, Weights
from phrasescore.settings.compute import Compute
from phrasescore.systems.folder import INI, SYSTEM, WEIGHTS, write_system
from phrasescore.systems.scoring import Scoring
from phrasescore.systems.system import System, read_system

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
    texts: Sequence[StrPath] = (),
    resume: bool = False,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> AnnotateSummary:
    """Add one score per column to each line of a phrase table, or of the table of a system.

    The new columns follow the table's own, in order; all other bytes are unchanged. A column holds
    probabilities, exp of a natural logarithm (or of a count), as Moses expects. torch is imported
    only if a column needs a network.

    :param table: a phrase table; or a system (a folder, a system.toml or a moses.ini).
    :param columns: at least one; a path is a model's folder. `GivenScores` has a file with one
        natural logarithm, at most 88, per line of the table.
    :param output: the new table, or the folder of the new system. It has the new table, in which
        the new columns have weight 0, and refers to the other files of the old system.
    :param texts: tokenised texts to translate, one sentence per line: only lines whose
        source occurs in a sentence are scored, and others are omitted; empty for all lines.
    :param resume: continue a killed run with the same arguments, if it left anything. Only
        the engine and its workers may differ.
    """
    path, output = os.fspath(table), os.fspath(output)
    wanted = as_columns(columns)
    check_columns(wanted, of_phrases=True)
    check_sequences(texts=texts)
    text_paths = [os.fspath(text) for text in texts]
    with ExitStack() as stack:
        new = None
        if os.path.isdir(path) or path.endswith((".ini", ".toml")):
            new = NewSystem.of(path, output, wanted)
            stack.enter_context(_new_folder(Path(output)))
            path, output = new.table, new.output
        check_resume(output, resume)
        others, written = ([], []) if new is None else new.files()
        inputs = [path, *others, *input_files(wanted), *text_paths]
        check_files(inputs, [output, *work_files(output), *written])
        chosen = None
        if text_paths:
            characters = new is not None and new.ini.text_settings().characters
            chosen = TextPhrases.read(text_paths, characters=characters)
        return _annotate(path, wanted, output, new, chosen, resume, compute, progress)


@contextmanager
def _new_folder(path: Path) -> Iterator[None]:
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):
            path.rmdir()


def _annotate(
    table: str,
    wanted: Sequence[Column],
    output: str,
    new: "NewSystem | None",
    chosen: TextPhrases | None,
    resume: bool,
    compute: Compute,
    progress: ProgressCallback | None,
) -> AnnotateSummary:
    blocks = read_table_blocks(table)
    first = next(blocks)
    system = None if new is None else new.declare(first.num_scores)
    above_limit: list[int] = []
    kept = 0
    with Scoring.of(wanted, compute=compute.on_workers(), of_phrases=True) as scorer:
        lines = check_counts(chain([first], blocks), table, scorer.given)
        settings = scorer.depends_on() | {"chunk": str(CHUNK_LINES)}
        if chosen is not None:
            settings["texts"] = new_digest(chosen.text).hexdigest()
        with (
            open_resumable(output, settings, resume=resume, chunk_lines=CHUNK_LINES) as target,
            Meter("annotate", "lines", progress, lines_of=table) as meter,
        ):
            remaining = target.remaining(lines, table)
            marked = remaining if chosen is None else _mark(remaining, chosen)
            names = (f"{shown_path(table)} ({side} side)" for side in ("source", "target"))
            for block, values in scorer.score(marked, *names):
                computed = iter(values)
                logs = [
                    next(computed) if added.given is None else block.of_pairs(added.given.of(block))
                    for added in scorer.added
                ]
                above_limit += block.above_limit(logs)
                kept += len(block.block.places)
                target.write(block.with_scores(logs), block.raw, block.num_lines)
                if not meter.done:
                    meter.skipped = block.before
                meter.update(block.num_lines)
            # Written before the table appears: if that fails, the run can be resumed.
            target.flush()
            if new is not None and system is not None:
                new.write(system)
    if meter.done and not kept and not resume:  # of the whole table
        _logger.warning("%s: no source phrase occurs in the texts", shown_path(table))
    if above_limit:
        _logger.warning(
            f"{shown_path(table)}: {len(above_limit):,} values above {HIGHEST_LOG:g} (the first in "
            f"line {above_limit[0]:,}) are written as exp({HIGHEST_LOG:g}): Moses reads no more"
        )
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


@dataclass(frozen=True)
class NewSystem:
    """A system whose table gets columns, in a new folder."""

    system: System
    ini: MosesIni  # of the old system, until `declare` is called
    table: str  # the old one
    output: str  # the new one
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, path: str, folder: str, columns: tuple[Column, ...]) -> "NewSystem":
        """Read the system that gets the columns."""
        system = read_system(path)
        if folder == "-" or same_file(folder, str(system.folder)):
            problem = "expected the folder of the new system, which is not that of the old one"
            raise ArgumentError(f"--output: {problem}, got {folder!r}")
        ini = system.read_ini()
        feature = ini.find_phrase_table()
        for part in system.weights:
            if feature.name in ini.tuneable_weights() and feature.name not in part:
                raise system.weight_error(f"no weight for the phrase table {feature.name}")
        if not feature.path:
            raise ConfigError(
                str(system.moses_ini), f"[feature] {feature.name}", "expected a path="
            )
        table = ini.resolve(feature.path)
        if not os.path.exists(table) and os.path.exists(f"{table}.gz"):
            table += ".gz"
        output = os.path.join(folder, os.path.basename(table))
        return cls(system, ini, table, output, columns)

    def files(self) -> tuple[list[str], list[str]]:
        """Return the files of the old system, and those of the new one besides its table."""
        folder = Path(self.output).parent
        written = [str(folder / name) for name in (INI, WEIGHTS, SYSTEM)]
        return [self.system.path, *self.system.files()], written

    def declare(self, num_scores: int) -> System:
        """Declare the columns in the moses.ini, and return the new system."""
        folder, ini, more = Path(self.output).parent, self.ini, len(self.columns)
        ini.folder = ini.folder or "."
        ini.move(folder)
        name = ini.add_scores(more, os.path.basename(self.output), num_scores=num_scores)

        def extended(weights: Weights) -> Weights:
            return {**weights, name: (*weights.get(name, ()), *[0.0] * more)}

        named = (
            replace(column, name=f"{name}_{num_scores + place}")
            for place, column in enumerate(self.columns)
        )
        return replace(
            self.system,
            moses_ini=folder / INI,
            paths_from=folder,  # in which the table appears last
            weights=WeightPair(*map(extended, self.system.weights)),
            columns=(*self.system.columns, *named),
            absolute=self.system.absolute | {*filter(os.path.isabs, input_files(self.columns))},
        )

    def write(self, system: System) -> None:
        """Write the new system, except its table."""
        folder = Path(self.output).parent
        self.ini.write(str(folder / INI))
        write_system(system, folder)


def _mark(blocks: Iterable[TableBlock], phrases: TextPhrases) -> Iterator[TableBlock]:
    for block in blocks:
        yield block._replace(wanted=phrases.contain(block.data, block.phrases[:, :2]))
