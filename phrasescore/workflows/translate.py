"""Translate a text with a system."""

import logging
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from moses_integration.decoder.moses import ListRequest
from phrasescore.arguments import StrPath
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.io.text import is_stream, read_lines
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.settings.compute import Compute
from phrasescore.systems.system import System, read_system
from phrasescore.systems.text import SystemSentence
from phrasescore.systems.text_checks import warn_of_form
from phrasescore.systems.translator import Translator

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TranslateSummary:
    """Counts from one run of `translate`."""

    sentences: int
    untranslated: int  # sentences without any translation within the limits


def translate(
    system: StrPath | System,
    source: StrPath = "-",
    output: StrPath = "-",
    *,
    nbest: tuple[StrPath, ListRequest] | None = None,
    explain: StrPath | None = None,
    confidence: bool = False,
    tokenized: bool = False,
    changes: Sequence[str] = (),
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> TranslateSummary:
    """Translate a text with a system: the search, the features of lists, and the best hypothesis.

    The output has one line per line of the text, in order. A stream is translated line by line, as
    it is read.

    :param system: a `System`, or what `read_system` reads.
    :param nbest: the file for n-best lists in Moses' format, and what they have. A system with
        features of lists writes distinct hypotheses with all features, the best one first.
    :param explain: a file of JSON objects, one per line: the features of each translation.
    :param confidence: append a tab and the probability that the hypothesis is the list's best one.
    :param tokenized: whether the text and the translations are the system's words.
    :param changes: settings that replace those of the system, such as "limits.stack=30".
    :param compute: see `Translator`.
    """
    source, output = os.fspath(source), os.fspath(output)
    lists, request = (None, None) if nbest is None else (os.fspath(nbest[0]), nbest[1])
    read = system if isinstance(system, System) else read_system(system, changes)
    translator = Translator(read, compute, tokenized=tokenized, path=source)
    if request is not None and (request.alignment or request.segmentation):
        translator.check_words()
    check_files((source, read.path, *read.files()), (output, lists, optional_path(explain)))
    numbered = enumerate(read_lines(source), start=1)
    sentences: Iterable[SystemSentence] = (translator.prepare(*line) for line in numbered)
    known = None if is_stream(source) else list(sentences)
    if known is not None:
        lines = (raw.decode(errors="replace").split() for raw in read_lines(source))
        warn_of_form(source, lines, tokenizes=bool(read.text.tokenize) and not tokenized)
    with ExitStack() as stack:
        stack.enter_context(translator.open(known))
        _logger.info("%s is loaded", read.name)
        target = stack.enter_context(open_output(output))
        list_file, json_file = (
            None if path is None else stack.enter_context(open_output(os.fspath(path)))
            for path in (lists, explain)
        )
        total = None if known is None else len(known)
        meter = stack.enter_context(Meter("translate", "sentences", progress, total=total))
        for found in translator.translate_prepared(
            sentences if known is None else known,
            nbest=0 if request is None else request.size,
            confidence=confidence,
            explain=explain is not None,
            lists=request,
        ):
            shown = "" if found.confidence is None else f"\t{found.confidence:.4f}"
            target.write(f"{found.text}{shown}\n".encode())
            if list_file is not None:
                list_file.write(found.nbest)
            if json_file is not None:
                json_file.write(found.to_json() + b"\n")
            for file in (target, list_file, json_file) if known is None else ():
                if file is not None:
                    file.flush()
            meter.update()
    if translator.untranslated:
        reason = "no phrase order within the distortion limit covers them"
        if read.decoder is not None:
            reason = "the decoder wrote no list for them"
        _logger.warning(f"{translator.untranslated:,} sentences have empty translations: {reason}")
    return TranslateSummary(meter.done, translator.untranslated)
