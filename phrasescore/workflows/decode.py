"""Translate a text with a Moses model, using the embedded search or Moses itself."""

import logging
import os
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from moses_integration.decoder.moses import NbestRequest, translate_with_moses
from moses_integration.ini_text import IniText, files_of
from moses_integration.moses_ini import MosesIni, WeightsSource, load_weights, weights_path
from moses_integration.source_text import MAX_WORDS, markup_of, read_source
from moses_integration.weight_lines import check_weights
from phrasescore.arguments import StrPath
from phrasescore.devices import usable_threads
from phrasescore.errors import ArgumentError, PhrasescoreError
from phrasescore.io.output import check_files, optional_path
from phrasescore.progress import ProgressCallback
from phrasescore.records import Weights
from phrasescore.settings.compute import Compute
from phrasescore.workflows.embedded_search import EmbeddedSearch
from phrasescore.workflows.search_settings import SearchSettings, moses_limits

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DecodeSummary:
    """Counts from translating a text."""

    sentences: int
    untranslated: int  # sentences without any translation within the limits; 0 with Moses
    requests: int  # number of requests from the embedded search to networks


def decode(
    source: StrPath,
    config: StrPath,
    output: StrPath = "-",
    *,
    weights: WeightsSource | None = None,
    nbest: NbestRequest | tuple[StrPath, int] | None = None,
    decoder: Literal["embedded", "moses"] = "embedded",
    moses_bin: StrPath | None = None,
    search: SearchSettings | None = None,
    engine: Compute | None = None,
    progress: ProgressCallback | None = None,
) -> DecodeSummary:
    """Translate a tokenised text with the model in a moses.ini.

    The translations are in the order of the text, one per line; an empty line stays empty.

    A system whose moses.ini records ``characters = true`` takes and gives words.

    :param source: one sentence per line, without markup and factors.
    :param config: the moses.ini; its paths start in its folder, or in the working folder as in
        Moses.
    :param weights: weights that replace those in the moses.ini: a file, or values by name.
    :param nbest: the file for n-best lists in Moses' format, the number of hypotheses per sentence,
        and the lists' optional fields.
    :param moses_bin: the folder with Moses' programs, for the decoder ``moses``.
    :param search: the search's features, limits and processes; for Moses, its limits and threads.
    :param engine: where the embedded search runs; None for the engine ``processes`` with as many
        workers as ``search`` has processes. The engine ``here`` uses only this process.
    :raises ConfigError: if the embedded search does not support something in the moses.ini.
    """
    source, config, output = os.fspath(source), os.fspath(config), os.fspath(output)
    settings = SearchSettings() if search is None else search
    request = None if nbest is None else NbestRequest(os.fspath(nbest[0]), *nbest[1:])
    if config == "-":
        raise ArgumentError("--config cannot be stdin, because it is read more than once")
    if (decoder == "moses") != (moses_bin is not None):
        raise ArgumentError("--decoder moses and --moses-bin must be given together")
    if decoder == "moses" and (settings.features or settings.ignore):
        raise ArgumentError("--feature and --ignore require the embedded search")
    if decoder == "moses" and engine not in (None, Compute(engine="processes")):
        raise ArgumentError("--engine requires the embedded search")
    settings.check()
    path = weights_path(weights)
    read = (source, config, path, optional_path(settings.backoff_lm), *map(str, files_of(config)))
    check_files(read, (output, None if request is None else request.path))
    given: Weights = {} if weights is None else load_weights(weights).search
    text = IniText.read(config)
    characters = text.text_settings().characters
    if characters and request is not None and (request.alignment or request.segmentation):
        problem = "--alignment and --segmentation require a system of words"
        raise ArgumentError(f"{problem}, and {config} translates characters")
    longest = MAX_WORDS if decoder == "embedded" else None
    sentences = read_source(source, longest, markup_of(text), characters=characters)
    counts: Counter[str] = Counter()
    if moses_bin is not None:
        ini = MosesIni.read(config)
        given = _known(given, {feature.name for feature in ini.features}, config)
        if given:
            check_weights({**ini.tuneable_weights(), **given}, path or config)
        threads = min(usable_threads(settings.processes), max(1, len(sentences)))
        translate_with_moses(
            os.path.join(moses_bin, "moses"),
            ini,
            given,
            sentences,
            output,
            request,
            threads=threads,
            limits=moses_limits(settings),
        )
    else:
        embedded = EmbeddedSearch(config, settings, engine)
        for name in settings.feature_names:
            if name not in given:
                _logger.warning(
                    "%s has no weight and gets 0, so the feature only appears in n-best lists", name
                )
            if len(own := given.get(name, (0.0,))) != 1:
                problem = f"expected one weight for {name}, found {len(own)}"
                raise PhrasescoreError(f"{path or 'the weights'}: {problem}")
        given = _known(given, embedded.feature_names, config)
        with embedded.open(sentences, given, weights_path=path):
            counts = embedded.translate(sentences, given, output, request, progress)
    return DecodeSummary(len(sentences), counts["untranslated"], counts["requests"])


def _known(weights: Weights, names: Collection[str], path: str) -> Weights:
    """Return the weights for the model's features; warn of others, such as `rescore`'s."""
    unknown = [name for name in weights if name.partition("_")[0] not in names]
    if unknown:
        _logger.warning("%s has no features for these weights: %s", path, ", ".join(unknown[:10]))
    return {name: values for name, values in weights.items() if name not in unknown}
