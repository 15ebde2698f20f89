"""``phrasescore decode``: translate a text by a Moses model, with either of two engines."""

import logging
import os
from typing import TYPE_CHECKING, Any

import click

from phrasescore.cli import decode_options, options
from phrasescore.errors import PhrasescoreError

if TYPE_CHECKING:
    from moses_integration.weights import Weights

_logger = logging.getLogger(__name__)

EMBEDDED, MOSES = "embedded", "moses"


@click.command()
@click.argument("source", metavar="SOURCE")
@click.option(
    "--config",
    "-f",
    "ini_path",
    metavar="INI",
    required=True,
    help="The moses.ini; its paths begin at the working folder, as in Moses.",
)
@click.option(
    "--weights",
    metavar="FILE",
    help="Other weights than those of moses.ini: 'Name= value' lines, or a moses.ini.",
)
@decode_options.features
@options.cslm
@click.option(
    "--nbest",
    nargs=2,
    type=(str, click.IntRange(min=1)),
    metavar="FILE N",
    help="Write the N best translations of each sentence, in Moses' format.",
)
@click.option("--distinct", is_flag=True, help="Only different translations, for --nbest.")
@click.option("--alignment", is_flag=True, help="With word alignments, for --nbest.")
@click.option(
    "--decoder",
    type=click.Choice((EMBEDDED, MOSES)),
    default=EMBEDDED,
    show_default=True,
    help="The search of this package, or Moses itself.",
)
@click.option("--moses-bin", metavar="DIR", help="Where Moses' programs are, for --decoder moses.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    show_default="all cores",
    help="That translate at the same time; threads of Moses.",
)
@decode_options.limits
@click.option(
    "--ignore",
    multiple=True,
    metavar="NAME",
    help="Leave out a feature of moses.ini that the embedded search does not have.",
)
@click.option(
    "--buffer-size",
    type=click.IntRange(min=1),
    default=4096,
    show_default=True,
    metavar="N",
    help="Requests of the search to a network that are scored together; changes speed only.",
)
@options.output
@options.device
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    show_default="cores / processes",
    help="CPU threads of the networks in each process.",
)
@options.verbosity
def decode(
    source: str,
    ini_path: str,
    weights: str | None,
    features: tuple[str, ...],
    models: tuple[str, ...],
    feature_weights: dict[str, float],
    backoff_lm: str | None,
    unnormalized: bool,
    nbest: tuple[str, int] | None,
    distinct: bool,
    alignment: bool,
    decoder: str,
    moses_bin: str | None,
    processes: int | None,
    ignore: tuple[str, ...],
    buffer_size: int,
    output: str,
    device: str,
    threads: int | None,
    **limits: Any,
) -> None:
    """Translate SOURCE, a tokenised sentence a line, by the model of a moses.ini.

    The translations come in the order of the text, one a line; an empty line stays one. Markup and
    factors are refused: '<', '>' and '|' are to be escaped, as Moses' tokenizer does.
    """
    from moses_integration.decoder.moses_engine import Lists
    from moses_integration.decoder.source import read_source
    from moses_integration.ini_paths import files_of
    from moses_integration.weights import read_weights
    from phrasescore.cli.file_names import check_files
    from phrasescore.devices import usable_threads

    lists = None if nbest is None else Lists(*nbest, distinct, alignment)
    if lists is None and (distinct or alignment):
        raise click.UsageError("--distinct and --alignment go with --nbest")
    if ini_path == "-":
        raise click.UsageError("--config cannot be stdin: it is read more than once")
    if (decoder == MOSES) != (moses_bin is not None):
        raise click.UsageError("--decoder moses and --moses-bin go together")
    if decoder == MOSES and (features or ignore):
        raise click.UsageError("--feature and --ignore go with the embedded search")
    names = decode_options.feature_names(features, models)
    decode_options.check_models(features, models, backoff_lm, unnormalized=unnormalized)
    used = [str(path) for path in files_of(ini_path)]
    check_files(
        (source, ini_path, weights, backoff_lm, *used),
        (output, None if lists is None else lists.path),
    )
    given: Weights = {} if weights is None else dict(read_weights(weights))
    given |= {name: (value,) for name, value in feature_weights.items()}
    sentences = read_source(source)
    at_once = min(usable_threads(processes), max(1, len(sentences)))
    if moses_bin is not None:
        from moses_integration.decoder.moses_engine import MosesEngine
        from moses_integration.moses_ini import MosesIni

        ini = MosesIni.read(ini_path)
        given = _known(given, {feature.name for feature in ini.features}, ini_path)
        wanted = decode_options.moses_limits(limits)
        binary = os.path.join(moses_bin, "moses")
        MosesEngine(binary, ini, given, at_once, wanted).translate(sentences, output, lists)
        return
    from phrasescore.cli.decode_embedded import EmbeddedEngine, SearchFeature, Settings

    engine = EmbeddedEngine.read(ini_path, ignore, limits)
    extra = []
    for name, model in zip(names, models, strict=True):
        if name not in given:
            _logger.warning("%s has no weight, and so 0: it only stands in n-best lists", name)
        own = given.pop(name, (0.0,))
        if len(own) != 1:
            raise PhrasescoreError(f"{weights}: expected one weight of {name}, found {len(own)}")
        extra.append(
            SearchFeature(name, model, own[0], device, backoff_lm, unnormalized=unnormalized)
        )
    given = _known(given, set(engine.feature_names), ini_path)
    settings = Settings(at_once, threads or max(1, usable_threads(None) // at_once), buffer_size)
    engine.with_weights(given).translate(sentences, extra, output, lists, settings)


def _known(weights: "Weights", names: set[str], path: str) -> "Weights":
    """Return the weights of features that the model has, and say which others there are.

    Those that networks add to its n-best lists stand in the same file.
    """
    unknown = [name for name in weights if name.partition("_")[0] not in names]
    if unknown:
        _logger.warning("%s has no features for these weights: %s", path, ", ".join(unknown[:10]))
    return {name: values for name, values in weights.items() if name not in unknown}
