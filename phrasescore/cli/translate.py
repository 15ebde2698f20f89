"""``phrasescore translate``, ``serve``, ``generate`` and ``segment``."""

import logging
from typing import Any

import click

from phrasescore.cli import next_step, options
from phrasescore.cli.options import heading
from phrasescore.cli.progress import show_progress
from phrasescore.errors import ArgumentError
from phrasescore.settings.compute import Compute, Serving
from phrasescore.settings.declaration import grouped
from phrasescore.settings.scoring import Generating, Segmenting

_logger = logging.getLogger(__name__)

_LIST_SIZE = 100  # of --nbest
_nbest = options.together(
    options.file(
        "--nbest nbest_file",
        "Write the best translations of each sentence to this file, in Moses' format with their "
        "features.",
        subject="Output",
    ),
    options.option(
        "--nbest-size",
        "Number of translations per sentence in --nbest.",
        type=click.IntRange(min=1),
        metavar="N",
        show_default=str(_LIST_SIZE),
        subject="Output",
    ),
)


def _take_nbest(given: dict[str, Any]) -> tuple[str, int] | None:
    """Replace the options for n-best lists by the file and the size, or by None."""
    path, size = given.pop("nbest_file"), given.pop("nbest_size")
    if path is None and size is not None:
        raise ArgumentError("--nbest-size requires --nbest")
    return None if path is None else (path, size or _LIST_SIZE)


@options.verb(
    "Translate with a system",
    "translate system news.en -o news.fr",
    main="-o --nbest --nbest-size --explain --confidence --tokenized --set --workers",
)
@options.argument("system", metavar="SYSTEM")
@options.argument("source", metavar="[TEXT]", default="-", required=False)
@heading("Input")
@options.flag(
    "--tokenized", "TEXT has the system's words, as dev and test have; so has the output."
)
@options.option(
    "--set changes",
    "Change a setting of the system, such as limits.stack=30 or nbest_size=200. Repeatable.",
    multiple=True,
    metavar="KEY=VALUE",
)
@heading("Output")
@_nbest
@options.flag("--distinct", "For --nbest: write only distinct translations.")
@options.flag("--alignment", "For --nbest: write word alignments.")
@options.flag("--segmentation", "For --nbest: write the phrases of each hypothesis.")
@options.file("--explain", "Write the features of each translation to this file, as JSON.")
@options.flag(
    "--confidence",
    "After each translation, write a tab and the probability that it is the best of its list.",
)
@options.output
@options.of(
    Compute, only=("engine", "workers", "device", "threads"), engine={"default": "processes"}
)
def translate(**given: Any) -> None:
    """Translate TEXT with SYSTEM: the search, features of n-best lists, the best hypothesis.

    SYSTEM is a folder that build, tune or annotate writes, the folder of an experiment or of one of
    its rows, a system.toml, or a moses.ini. Each line of TEXT gives one line of output, in order.
    Without TEXT, stdin is read, and each line is translated as soon as it is there.
    """
    from moses_integration.decoder.moses import ListRequest
    from phrasescore.workflows.translate import translate as run

    nbest = _take_nbest(given)
    how = [given.pop(name) for name in ("distinct", "alignment", "segmentation")]
    if nbest is None and any(how):
        raise ArgumentError("--distinct, --alignment and --segmentation require --nbest")
    lists = None if nbest is None else (nbest[0], ListRequest(nbest[1], *how))
    run(**grouped(run, given), nbest=lists, progress=show_progress)
    next_step.suggest()


@options.verb("Translate over HTTP, with a page for the browser", "serve system --port 8080")
@options.argument("system", metavar="SYSTEM")
@options.of(Serving)
@options.of(Compute, only=("workers", "device"))
def serve(system: str, **given: Any) -> None:
    """Translate with a SYSTEM over HTTP: a page, JSON, and Moses' XML-RPC.

    SYSTEM is a system that 'phrasescore translate' takes, without a decoder of its own. The page is
    at http://127.0.0.1:8080/. Ctrl-C or SIGTERM stops the server when it has answered all requests.
    """
    from phrasescore.workflows.serve import serve as run

    run(system, **grouped(run, given))


@options.verb(
    "Translate with a network",
    "generate model test.en -o translations.fr",
    main="-o --nbest --beam --workers --device",
)
@options.argument("model", metavar="MODEL")
@options.argument("source", metavar="[SOURCE]", default="-", required=False)
@options.of(Generating)
@_nbest
@options.output
@options.of(Compute)
def generate(**given: Any) -> None:
    """Translate each line of SOURCE, a tokenised text, with the network MODEL.

    A beam search finds the best translation. --sample writes random translations instead. Without
    SOURCE, stdin is read. A model that was trained with --reverse reads the target side and writes
    the source side.
    """
    from phrasescore.workflows.generate import generate as run

    nbest = _take_nbest(given)
    run(**grouped(run, given), nbest=nbest, progress=show_progress)
    next_step.suggest()


@options.verb(
    "Translate long sentences in segments, with a network",
    "segment test.en --model model --reverse-model reverse-model -o translations.fr",
    main="--model --reverse-model -o --segments",
)
@options.argument("source", metavar="SOURCE")
@heading("Input")
@options.file("--model", "The trained model that translates segments.", "FORWARD", required=True)
@options.file(
    "--reverse-model",
    "A model trained with --reverse, which scores the source given a translation.",
    "REVERSE",
)
@options.of(Segmenting)
@heading("Output")
@options.file("--segments", "Write the segments as JSON, one line per sentence.")
@options.output
@options.of(Compute, only=("precision", "device", "threads"))
def segment(source: str, model: str, output: str, **given: Any) -> None:
    """Translate SOURCE, tokenised sentences, in segments that networks translate confidently.

    A network that reads a sentence into one vector translates long sentences badly. Therefore every
    span of a sentence is translated, the segmentation with the highest sum of confidences is
    chosen, and the translations of its segments are concatenated (Pouget-Abadie et al., 2014). An
    empty line stays empty.
    """
    from phrasescore.workflows.segment import segment as run

    done = run(source, model, output, **grouped(run, given), progress=show_progress)
    _logger.info("segment: %s", done.summary())
    next_step.suggest()
