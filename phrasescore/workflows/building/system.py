"""Build a phrase-based system from parallel text."""

import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from moses_integration.building.extraction import REORDERING
from moses_integration.building.symmetrization import symmetrize
from moses_integration.building.tables import REORDERING_TABLE, build_tables
from moses_integration.text_settings import TextSettings
from phrasescore.arguments import AtLeastOne, StrPath, check_sequences
from phrasescore.devices import usable_threads
from phrasescore.io.output import open_output, optional_path, writing
from phrasescore.language_models.ngram_scorer import read_ngram_order
from phrasescore.progress import Meter, ProgressCallback, format_count
from phrasescore.settings.building import Building, Estimating
from phrasescore.settings.declaration import check
from phrasescore.systems.folder import write_system
from phrasescore.systems.system import read_system
from phrasescore.workflows.building.aligner import align
from phrasescore.workflows.building.language_model import build_lm
from phrasescore.workflows.building.preparation import (
    CORPUS,
    MAX_RATIO,
    TRUECASERS,
    BuildInputs,
    TextPreparer,
    name_in_ini,
)
from phrasescore.workflows.work_folder import WorkFolder, open_work_folder

_logger = logging.getLogger(__name__)

Report = Callable[[float], None]  # receives the share of a step that is done


_REORDERING_SCORES = 6  # three classes, in both directions

_MOSES_INI = """\
#########################
### MOSES CONFIG FILE ###
#########################
{settings}
# input factors
[input-factors]
0

# mapping steps
[mapping]
0 T 0

[distortion-limit]
{limit}

# feature functions
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path=phrase-table.gz input-factor=0 \
output-factor=0
{features}
# dense weights for feature functions
[weight]
# The default weights are not optimised for translation quality: tune them.
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0= 0.2 0.2 0.2 0.2
{weights}"""


@dataclass(frozen=True, slots=True)
class BuildSummary:
    """The result of `build`."""

    sentences: int  # sentence pairs in the training text
    left_out: int  # sentence pairs that cleaning has left out
    pairs: int  # distinct phrase pairs
    moses_ini: str  # the path of the configuration


def build(
    source: StrPath,
    target: StrPath,
    output: StrPath,
    *,
    alignments: StrPath | None = None,
    lm: StrPath | None = None,
    lm_texts: Sequence[StrPath] = (),
    settings: Building = Building(),
    workers: int | None = None,
    resume: bool = False,
    progress: ProgressCallback | None = None,
) -> BuildSummary:
    """Build a phrase-based system from parallel text, and write its folder atomically.

    The folder has the files of Moses' train-model.perl: the training text, its word alignment,
    lexical tables, a phrase table, a reordering table, n-gram models of the target language, and a
    ``moses.ini`` with Moses' default weights. It is a system, with ``system.toml`` and ``weights``;
    its files name each other by relative paths, so that it can be moved. A run that was stopped or
    killed can be continued with ``resume``; the result is the same to the last bit.

    :param source: one sentence per line.
    :param target: the translation of each line.
    :param output: the folder to write.
    :param alignments: the word alignment of the text, ``0-0 1-2`` per line, which replaces the
        aligner's.
    :param lm: an n-gram model, which replaces the model of ``target``; it is not copied.
    :param lm_texts: further text in the target language, for an n-gram model of its own.
    :param workers: number of threads or processes, which does not change the result; None for one
        per core.
    :raises PhrasescoreError: if a folder is in the way or belongs to a different run.
    """
    check_sequences(lm_texts=lm_texts)
    check(AtLeastOne, workers=workers)
    inputs = BuildInputs(
        os.fspath(source),
        os.fspath(target),
        optional_path(alignments),
        optional_path(lm),
        tuple(os.fspath(path) for path in lm_texts),
        settings,
    )
    inputs.check(Path(output))
    with open_work_folder(output, inputs.recorded(), resume=resume) as folder:
        if not folder.is_published:
            with writing(folder.files):
                folder.files.mkdir(exist_ok=True)
            _SystemBuilder(inputs, folder, usable_threads(workers)).run(progress)
        folder.publish()
    sentences, left_out, pairs = map(folder.count, ("sentences", "left_out", "pairs"))
    return BuildSummary(sentences, left_out, pairs, str(folder.output / "moses.ini"))


class _BuildStep(NamedTuple):
    """A step after the preparation of the text; it returns counts for the journal."""

    name: str
    seconds: float  # approximate, for 10,000 sentence pairs
    run: Callable[[Path, Report], dict[str, int]]


class _SystemBuilder:
    """Builds the files of a system in its work folder, step by step."""

    def __init__(self, inputs: BuildInputs, folder: WorkFolder, workers: int) -> None:
        self._inputs, self._folder, self._workers = inputs, folder, workers
        self._settings = inputs.settings
        files = folder.files
        self._corpus = files / CORPUS[0], files / CORPUS[1]
        self._aligned = files / "aligned.grow-diag-final-and"
        self._more = folder.path / "lm-text"

    def run(self, progress: ProgressCallback | None) -> None:
        """Run the steps that are not finished."""
        folder = self._folder
        if "prepare" not in folder.journal.done:
            self._prepare(progress)
        sentences, left_out = folder.count("sentences"), folder.count("left_out")
        if left_out:
            _logger.info(
                "skipped %s of %s: empty, longer than %d words%s, or one side %d times the other",
                f"{left_out:,}",
                format_count(sentences + left_out, "sentence pairs"),
                self._settings.max_sentence_length,
                f" or {self._settings.max_tokens:,} characters"
                if self._settings.characters
                else "",
                MAX_RATIO,
            )
        steps = [step for step in self._steps() if step.name not in folder.journal.done]
        whole = sum(step.seconds for step in steps)
        before = 0.0
        with Meter("build", "sentences", progress, total=sentences) as meter:
            for step in steps:

                def report(share: float, step: _BuildStep = step, before: float = before) -> None:
                    done = round(sentences * (before + share * step.seconds) / whole)
                    meter.update(max(0, done - meter.done), step.name)

                report(0.0)
                with tempfile.TemporaryDirectory(dir=folder.path) as temporary:
                    found = step.run(Path(temporary), report)
                folder.finish_step(step.name, **found)
                before += step.seconds
            meter.update(sentences - meter.done)

    def _steps(self) -> list[_BuildStep]:
        inputs, files = self._inputs, self._folder.files
        steps = []
        if inputs.alignments is None:
            steps.append(_BuildStep("align", 30, self._align))
        steps.append(_BuildStep("tables", 8, self._build_tables))
        models: list[tuple[str, int]] = []
        if inputs.lm is not None:
            name = name_in_ini(inputs.lm, self._folder.output)
            models.append((name, read_ngram_order(inputs.lm)))
        else:
            models.append(("lm.arpa.gz", self._settings.order))
            run = partial(self._estimate, self._corpus[1], files / "lm.arpa.gz")
            steps.append(_BuildStep("language model", 2, run))
        if inputs.lm_texts:
            models.append(("lm1.arpa.gz", self._settings.order))
            run = partial(self._estimate, self._more, files / "lm1.arpa.gz")
            steps.append(_BuildStep("second language model", 2, run))
        return [*steps, _BuildStep("configure", 0.01, partial(self._configure, models))]

    def _prepare(self, progress: ProgressCallback | None) -> None:
        preparation = TextPreparer(self._inputs, self._workers, progress)
        with tempfile.TemporaryDirectory(dir=self._folder.path) as temporary:
            kept, left_out = preparation.write(
                self._folder.files, self._aligned, Path(temporary), self._more
            )
        self._folder.finish_step("prepare", sentences=kept, left_out=left_out)

    def _align(self, temporary: Path, report: Report) -> dict[str, int]:
        kind = self._settings.alignment_model
        forward, backward = align(kind, *self._corpus, temporary, self._workers, report)
        with open_output(str(self._aligned)) as stream:
            for line in symmetrize(str(forward), str(backward)):
                stream.write(line + b"\n")
        return {}

    def _build_tables(self, temporary: Path, report: Report) -> dict[str, int]:
        settings = self._settings
        pairs = build_tables(
            *self._corpus,
            self._aligned,
            self._folder.files,
            work=temporary,
            max_phrase_length=settings.phrase_length,
            reordering=not settings.characters,
            workers=self._workers,
            report=report,
        )
        return {"pairs": pairs}

    def _estimate(self, text: Path, output: Path, _: Path, report: Report) -> dict[str, int]:
        settings = Estimating(order=self._settings.order, discount_fallback=True)
        build_lm([text], output, settings=settings, progress=lambda now: report(now.share or 0))
        return {}

    def _configure(self, models: Sequence[tuple[str, int]], _: Path, __: Report) -> dict[str, int]:
        settings = self._settings
        source, target = TRUECASERS if settings.truecase else ("", "")
        text = TextSettings(
            settings.characters,
            " ".join(settings.tokenize or ()),
            settings.lowercase,
            source,
            target,
            settings.truecase,
        )
        files = self._folder.files
        with open_output(str(files / "moses.ini")) as stream:
            stream.write(_moses_ini(text, models).encode(errors="surrogateescape"))
        write_system(read_system(files / "moses.ini"), files)
        return {}


def _moses_ini(text: TextSettings, models: Sequence[tuple[str, int]]) -> str:
    """Return the text of a moses.ini, as train-model.perl writes it, with Moses' default weights.

    :param text: how the text was prepared, recorded in comments.
    :param models: the path and the order of each n-gram model.
    """
    features, weights = "", ""
    if not text.characters:
        features = (
            f"LexicalReordering name=LexicalReordering0 num-features={_REORDERING_SCORES} "
            f"type={REORDERING}-allff input-factor=0 output-factor=0 path={REORDERING_TABLE}\n"
        )
        weights = f"LexicalReordering0={' 0.3' * _REORDERING_SCORES}\n"
    features += "Distortion\n"
    weights += "Distortion0= 0.3\n"
    for number, (path, order) in enumerate(models):
        features += f"KENLM name=LM{number} factor=0 path={path} order={order}\n"
        weights += f"LM{number}= 0.5\n"
    return _MOSES_INI.format(
        settings="".join(f"{line}\n" for line in text.lines()),
        limit=0 if text.characters else 6,
        features=features,
        weights=weights,
    )
