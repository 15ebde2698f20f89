"""``phrasescore decode``: translate a text by a Moses model, with either of two engines."""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from phrasescore.cli import decode_options, options
from phrasescore.errors import PhrasescoreError

if TYPE_CHECKING:
    from moses_integration.weights import Weights
    from phrasescore.cli.decode_embedded import EmbeddedEngine, EmbeddedSearch, Sentence

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
@click.pass_context
def decode(
    ctx: click.Context,
    /,
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
    output: str,
    **others: Any,
) -> None:
    """Translate SOURCE, a tokenised sentence a line, by the model of a moses.ini.

    The translations come in the order of the text, one a line; an empty line stays one. Markup and
    factors are refused: '<', '>' and '|' are to be escaped, as Moses' tokenizer does.
    """
    from moses_integration.decoder.moses_engine import Lists
    from moses_integration.decoder.source import read_source
    from moses_integration.ini_paths import files_of
    from moses_integration.weights import read_weights
    from phrasescore.devices import usable_threads
    from phrasescore.io.file_names import check_files

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
    given: Weights = {} if weights is None else dict(read_weights(weights, "search"))
    given |= {name: (value,) for name, value in feature_weights.items()}
    sentences = read_source(source)
    at_once = min(usable_threads(processes), max(1, len(sentences)))
    if moses_bin is not None:
        from moses_integration.decoder.moses_engine import MosesEngine
        from moses_integration.moses_ini import MosesIni

        ini = MosesIni.read(ini_path)
        given = _known(given, {feature.name for feature in ini.features}, ini_path)
        wanted = decode_options.moses_limits(others)
        binary = os.path.join(moses_bin, "moses")
        MosesEngine(binary, ini, given, at_once, wanted).translate(sentences, output, lists)
        return
    engine = _read_engine(ctx.params)
    for name in names:
        if name not in given:
            _logger.warning("%s has no weight, and so 0: it only stands in n-best lists", name)
        if len(own := given.get(name, (0.0,))) != 1:
            raise PhrasescoreError(f"{weights}: expected one weight of {name}, found {len(own)}")
    given = _known(given, {*engine.feature_names, *names}, ini_path)
    engine.with_weights({name: given[name] for name in given if name not in names})
    with _open_search(engine, sentences, ctx.params) as search:
        search.start(given, sentences)
        search.translate(sentences, given, output, lists)


# Options of decode that the loop of tuning sets itself.
_OF_LOOP = {
    *("weights", "nbest", "distinct", "alignment", "decoder", "moses_bin"),
    *("feature_weights", "output"),
}


def open_search(
    ini_path: str, source: str, flags: Sequence[str], closed: Sequence[int] = ()
) -> "EmbeddedSearch":
    """Return the embedded search for a text, as a decoder that stays.

    :param flags: options of decode, such as ``--stack 30``.
    :param closed: descriptors that its processes do not keep.
    :raises click.UsageError: if one is not of decode, or is not the user's to set here.
    """
    from moses_integration.decoder.source import read_source

    for flag in flags:
        if flag.partition("=")[0] in ("--config", "-f", "--help", "-h"):
            raise click.UsageError(f"--decoder-flags: expected options of a search, found {flag}")
    arguments = [*flags, "--config", ini_path, "--", source]
    with decode.make_context("--decoder-flags", arguments) as context:
        given = context.params
        for param in decode.params:
            is_given = context.get_parameter_source(param.name or "") != ParameterSource.DEFAULT
            if is_given and param.name in _OF_LOOP:
                raise click.UsageError(f"--decoder-flags: the loop sets {param.opts[0]} itself")
    features, models = given["features"], given["models"]
    decode_options.feature_names(features, models)
    decode_options.check_models(
        features, models, given["backoff_lm"], unnormalized=given["unnormalized"]
    )
    return _open_search(_read_engine(given), read_source(source), given, closed)


def _read_engine(given: Mapping[str, Any]) -> "EmbeddedEngine":
    """Return the moses.ini of decode's parameters, with their limits."""
    from phrasescore.cli.decode_embedded import EmbeddedEngine

    limits = {limit.field: given[limit.field] for limit in decode_options.LIMITS.values()}
    return EmbeddedEngine.read(given["ini_path"], given["ignore"], limits)


def _open_search(
    engine: "EmbeddedEngine",
    sentences: "Sequence[Sentence]",
    given: Mapping[str, Any],
    closed: Sequence[int] = (),
) -> "EmbeddedSearch":
    from phrasescore.cli.decode_embedded import EmbeddedSearch, SearchFeature, Settings
    from phrasescore.devices import usable_threads

    names = decode_options.feature_names(given["features"], given["models"])
    of_all = given["device"], given["backoff_lm"], given["unnormalized"]
    extra = [
        SearchFeature(name, model, *of_all)
        for name, model in zip(names, given["models"], strict=True)
    ]
    at_once = min(usable_threads(given["processes"]), max(1, len(sentences)))
    threads = given["threads"] or max(1, usable_threads(None) // at_once)
    return EmbeddedSearch(
        engine,
        sentences,
        extra,
        Settings(at_once, threads, given["buffer_size"]),
        closed,
    )


def _known(weights: "Weights", names: set[str], path: str) -> "Weights":
    """Return the weights of features that the model has, and say which others there are.

    Those that networks add to its n-best lists stand in the same file.
    """
    unknown = [name for name in weights if name.partition("_")[0] not in names]
    if unknown:
        _logger.warning("%s has no features for these weights: %s", path, ", ".join(unknown[:10]))
    return {name: values for name, values in weights.items() if name not in unknown}
