"""Translate the training text of a system with systems that have not seen the sentences.

A network that is trained for BLEU learns from n-best lists of its training text. The system itself
has learned its tables from these sentences, and translates them better than new ones. Therefore the
text is cut into folds, and each one is translated with tables of the others.
"""

import logging
import os
import shutil
import tempfile
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from moses_integration.alignments import parse_links
from moses_integration.building.tables import REORDERING_TABLE, build_tables
from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.moses import ListRequest
from moses_integration.phrase_table import read_table_blocks
from moses_integration.weight_lines import write_weights
from phrasescore.arguments import StrPath
from phrasescore.devices import usable_threads
from phrasescore.errors import DataError, PhrasescoreError, shown_path
from phrasescore.io.corpora import read_parallel_text, read_together
from phrasescore.io.output import check_files, open_output, writing
from phrasescore.language_models.arpa import read_arpa_counts
from phrasescore.progress import ProgressCallback
from phrasescore.settings.building import Estimating
from phrasescore.settings.compute import Compute
from phrasescore.systems.folder import INI, WEIGHTS
from phrasescore.systems.system import System, read_system
from phrasescore.workflows.building.language_model import build_lm
from phrasescore.workflows.translate import translate
from phrasescore.workflows.work_folder import open_work_folder

_logger = logging.getLogger(__name__)

FOLDS = 4
_TABLE, _LM = "phrase-table.gz", "lm.arpa.gz"  # of a fold
_TABLE_SCORES = 4
_FEWEST = 1_000  # sentence pairs: with fewer, a fold's tables know too few words of the others
# A list needs hypotheses that differ, and not the best one.
_REQUEST = ListRequest(50, distinct=True, segmentation=True)
_LIMITS = {"search-algorithm": "cube", "cube-pruning-pop-limit": 300}
# Number of lines of the table that are looked up in the text, and the least distance between them.
_SAMPLE, _STEP = 1_000, 100
_LEAST_EXPLAINED = 0.9  # share of them that the text has


def lists_in(folder: Path) -> tuple[Path, ...]:
    """Return the n-best lists in a folder of `write_fold_lists`, in the order of the text."""
    return tuple(folder / f"lists{number}.gz" for number in range(FOLDS))


class _AlignedText(NamedTuple):
    source: str
    target: str
    alignments: str


def write_fold_lists(
    system: StrPath,
    source: StrPath,
    target: StrPath,
    alignments: StrPath,
    output: StrPath,
    *,
    resume: bool = False,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> None:
    """Write n-best lists of a system's training text, in which no sentence was seen before.

    The text is cut into consecutive folds. For each one, the tables and the n-gram model of the
    text are built again from the other folds, and the fold is translated with the weights of the
    system. The folder gets the lists, with their phrases (`lists_in`), and the file ``weights``.

    :param system: a system whose tables `build`, or Moses' train-model.perl with its default
        settings, made from this text; features of its lists are not used.
    :param source: the training text in the system's words, and ``target`` its translation.
    :param alignments: the word alignment of the text.
    :param resume: continue a run that was stopped; finished folds are kept.
    :raises PhrasescoreError: if the system cannot be built again from the text.
    """
    text = _AlignedText(os.fspath(source), os.fspath(target), os.fspath(alignments))
    read = read_system(system)
    check_files((*text, *read.files()), ())
    builder = _FoldBuilder(read, text, compute, progress)
    # Its callers check the text.
    inputs = {"the weights": repr(sorted(read.weights.search.items()))}
    with open_work_folder(output, inputs, resume=resume) as run:
        if not run.is_published:
            with writing(run.files):
                run.files.mkdir(exist_ok=True)
            write_weights(str(run.files / WEIGHTS), read.weights.search)
            run.finish_step("weights")
            for number, path in enumerate(lists_in(run.files)):
                if not path.exists():
                    _logger.info("fold %d of %d", number + 1, FOLDS)
                    builder.write(number, run.path / f"fold{number}", path)
        run.publish()


def check_folds(system: System, source: StrPath, target: StrPath, alignments: StrPath) -> None:
    """Raise the errors of `write_fold_lists` in its inputs."""
    text = _AlignedText(os.fspath(source), os.fspath(target), os.fspath(alignments))
    _FoldBuilder(system, text, Compute(), None)


def cross_fits(
    system: StrPath, source: StrPath, target: StrPath, alignments: StrPath | None
) -> bool:
    """Return whether the inputs are fit for `write_fold_lists`; log why not."""
    try:
        if alignments is not None:
            check_folds(read_system(system), source, target, alignments)
    except PhrasescoreError as error:
        _logger.info("no network is trained for BLEU: %s", error)
        return False
    return alignments is not None


class _FoldBuilder:
    """Builds the system of all folds but one, and translates this one."""

    def __init__(
        self,
        system: System,
        text: _AlignedText,
        compute: Compute,
        progress: ProgressCallback | None,
    ) -> None:
        self._system, self._text = system, text
        self._compute, self._progress = compute, progress
        ini = system.read_ini()
        read = DecoderConfiguration.read(ini.path, system.paths_from)
        self._pairs = []
        for number, (raw, pair) in enumerate(read_parallel_text(*text), start=1):
            sizes = len(pair.source), len(pair.target)
            parse_links(raw.rpartition(b"\n")[2], *sizes, text.alignments, number)
            self._pairs.append(pair)
        if len(self._pairs) < _FEWEST:
            problem = f"expected at least {_FEWEST:,} sentence pairs to cut into {FOLDS} folds"
            raise DataError(text.source, None, f"{problem}, found {len(self._pairs):,}")
        if read.characters:
            raise self._problem("its tables have characters, and an encoder-decoder reads words")
        table = read.slot("PhraseDictionaryMemory")
        if len(table.weights) != _TABLE_SCORES:
            problem = f"its table has {len(table.weights)} scores, and `build` writes"
            raise self._problem(f"{problem} {_TABLE_SCORES}: give the system without added columns")
        self._length = self._check_table(table.arguments["path"])
        # The files of the system that each fold has its own ones of, and their names there.
        self._own = {os.path.abspath(table.arguments["path"]): _TABLE}
        reordering = read.find("LexicalReordering")
        if reordering is not None:
            self._own[os.path.abspath(reordering.arguments["path"])] = REORDERING_TABLE
        words = len({word for pair in self._pairs for word in pair.target})
        self._order = 0  # of the n-gram model of the text
        for slot in read.language_models():
            path = slot.arguments["path"]
            counts = read_arpa_counts(path)
            # With <unk>, <s> and </s>, of which some programs leave out the first one.
            if counts[0] - words in (2, 3):
                self._own[os.path.abspath(path)], self._order = _LM, len(counts)
            else:
                kept = "%s is not a model of %s: all folds are translated with it"
                _logger.info(kept, path, shown_path(self._text.target))

    def _problem(self, problem: str) -> PhrasescoreError:
        cure = "lists of training text are made only with systems that `build` can make again"
        return PhrasescoreError(f"{self._system.name}: {problem} ({cure})")

    def _check_table(self, path: str) -> int:
        """Check that the text explains the phrase table; return the length of its longest phrase.

        A pair is explained by a sentence pair that has both phrases.
        """
        pairs = [
            pair
            for block in read_table_blocks(path)
            for place in range(0, block.num_lines, _STEP)
            for pair in block.lines(place, place + 1).block.pairs()
        ]
        sample = sorted(set(pairs[:: max(1, len(pairs) // _SAMPLE)]))
        starts = {word: list(same) for word, same in groupby(sample, lambda pair: pair.source[0])}
        missing = set(sample)
        for sentence in self._pairs:
            source, target = (f" {' '.join(side)} " for side in sentence)
            for word in set(sentence.source):
                for pair in starts.get(word, ()):
                    if f" {' '.join(pair.source)} " in source and (
                        f" {' '.join(pair.target)} " in target
                    ):
                        missing.discard(pair)
        found = len(sample) - len(missing)
        if found < _LEAST_EXPLAINED * len(sample):
            problem = f"of {len(sample):,} pairs of {path}, only {found:,} are in"
            raise self._problem(f"{problem} {self._text.source} and {self._text.target}")
        return max(len(side) for pair in sample for side in pair)

    def write(self, number: int, work: Path, output: Path) -> None:
        """Write the lists of a fold; ``work`` is a folder for temporary files."""
        # What a stopped run has finished there is used.
        names = (work / "source", work / "target", work / "aligned")
        size = len(self._pairs)
        first, after = number * size // FOLDS, (number + 1) * size // FOLDS
        with ExitStack() as stack, writing(work):
            work.mkdir(exist_ok=True)
            others = [stack.enter_context(open_output(str(path))) for path in names]
            fold = stack.enter_context(open_output(str(work / "fold")))
            for place, row in enumerate(read_together(*self._text)):
                if first <= place < after:
                    fold.write(row[0] + b"\n")
                    continue
                for file, line in zip(others, row, strict=True):
                    file.write(line + b"\n")
        workers = usable_threads(self._compute.workers)
        if not (work / _TABLE).exists():
            with tempfile.TemporaryDirectory(dir=work) as temporary:
                build_tables(
                    *names,
                    work,
                    work=Path(temporary),
                    max_phrase_length=self._length,
                    workers=workers,
                )
        if self._order and not (work / _LM).exists():
            build_lm(
                [names[1]],
                work / _LM,
                settings=Estimating(order=self._order, discount_fallback=True),
            )
        ini = self._system.read_ini()

        def rename(name: str) -> str:
            path = os.path.abspath(ini.resolve(name))  # of which the file may be compressed
            return self._own.get(path) or self._own.get(f"{path}.gz") or path

        ini.rename_files(rename)
        ini.folder = str(work)
        ini.write(str(work / INI))
        weights = self._system.weights
        translate(
            System(
                str(work / INI),
                work / INI,
                weights._replace(lists=weights.search),
                limits={**self._system.limits, **_LIMITS},
                text=self._system.text,
            ),
            work / "fold",
            work / "translations",
            nbest=(output, _REQUEST),
            tokenized=True,
            compute=self._compute,
            progress=self._progress,
        )
        shutil.rmtree(work)
