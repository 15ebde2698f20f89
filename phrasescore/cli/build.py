"""``phrasescore build`` and ``build-lm``: phrase-based systems and n-gram models from text."""

import logging
from typing import Any

import click

from phrasescore.cli import next_step, options
from phrasescore.cli.options import heading
from phrasescore.cli.progress import show_progress
from phrasescore.progress import format_count
from phrasescore.settings.building import Building, Estimating
from phrasescore.settings.declaration import grouped

_logger = logging.getLogger(__name__)


@options.verb(
    "Build a phrase-based system from parallel text",
    "build train.en train.fr -o system",
    main="-o --tokenize --truecase --lm --lm-text --workers --resume",
)
@options.argument("source", metavar="SOURCE")
@options.argument("target", metavar="TARGET")
@heading("Output")
@options.file("-o --output", "The folder of the new system.", "MODEL", required=True)
@heading("Input")
@options.file("--alignments", "Use these word alignments, such as 0-0 1-2, instead of aligning.")
@options.file("--lm", "Use this n-gram model instead of one of TARGET; it is not copied.")
@options.files("--lm-text lm_texts", "More text in the target language, for a second n-gram model.")
@options.of(Building, tokenize={"multiple": False, "nargs": 2})
@heading("Devices and speed")
@options.option(
    "--workers",
    "Number of threads or processes.",
    type=click.IntRange(min=1),
    metavar="N",
    show_default="all cores",
)
@options.resume
def build(source: str, target: str, output: str, **given: Any) -> None:
    """Build a phrase-based system from parallel text, SOURCE and TARGET, without Moses.

    The words are aligned, phrase pairs are extracted and scored, and an n-gram model is estimated.
    The folder MODEL gets the files that Moses' train-model.perl writes, and a moses.ini with Moses'
    default weights. The state of a run is in MODEL.work.
    """
    from phrasescore.workflows.building.system import build as run

    done = run(source, target, output, **grouped(run, given), progress=show_progress)
    pairs = format_count(done.pairs, "phrase pairs")
    _logger.info("%s: %s, %s", output, format_count(done.sentences, "sentence pairs"), pairs)
    next_step.suggest()


def _numbers(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...]:
    try:
        return tuple(map(int, (value or "").split()))
    except ValueError:
        problem = f"expected whole numbers separated by spaces, got {value!r}"
        raise click.BadParameter(problem) from None


@options.verb("Estimate an n-gram language model", "build-lm train.fr -o lm.fr.arpa.gz")
@options.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@options.of(
    Estimating, prune={"type": str, "multiple": False, "default": None, "callback": _numbers}
)
@heading("Output")
@options.output
def build_lm(texts: tuple[str, ...], output: str, **given: Any) -> None:
    """Estimate an n-gram model of TEXT (tokenised sentences), and write an ARPA file.

    The model has modified Kneser-Ney smoothing. KenLM's lmplz writes the same file. Texts may be
    larger than memory: n-grams are sorted in temporary files in the folder $TMPDIR.
    """
    from phrasescore.workflows.building.language_model import build_lm as run

    done = run(texts, output, **grouped(run, given), progress=show_progress)
    ngrams = ", ".join(f"{count:,} {n}-grams" for n, count in enumerate(done.ngrams, start=1))
    _logger.info("build-lm: %s; %s", format_count(done.lines, "lines"), ngrams)
    next_step.suggest()
