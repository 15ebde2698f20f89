"""Translate with a network of another toolkit, computed by CTranslate2."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, islice, tee

from moses_integration.nbest_lines import check_feature_names, format_hypothesis
from phrasescore.arguments import StrPath, check_at_least
from phrasescore.devices import choose_device, usable_threads
from phrasescore.engines import open_pool
from phrasescore.errors import ArgumentError
from phrasescore.features import column_name
from phrasescore.foreign import ForeignText
from phrasescore.foreign.model import ForeignFolder, ForeignModel, LazyNetwork
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.io.output import check_files, open_output, optional_path
from phrasescore.progress import Meter, ProgressCallback
from phrasescore.records import PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.workflows.generate import USUAL_WIDTH, check_fields
from phrasescore.workflows.text_checks import UnknownWordCheck

_logger = logging.getLogger(__name__)

# Number of sentences sent to a worker at a time; equally long ones are translated together.
_GROUP_SIZE = 128

Words = tuple[str, ...]
# Translations of a sentence with their log-probabilities, the best first.
Scored = list[tuple[Words, float]]


@dataclass(frozen=True, slots=True)
class ForeignGenerateSummary:
    """Counts from one run of `generate_foreign`."""

    lines: int
    # Number of lines of the n-best lists, or of the output if there are no lists.
    translations: int


@dataclass(frozen=True)
class ForeignGeneration:
    """Translates a group of sentences as one item: a :class:`phrasescore.engines.Work`."""

    model: ForeignFolder
    beam: int
    num_best: int

    @property
    def device(self) -> str:
        """The device of the model."""
        return self.model.device

    def load(self) -> Callable[[list[Words]], list[Scored]]:
        """Return the function that translates; each process loads the model at its first call."""
        lazy = LazyNetwork(self.model)

        def translate(sources: list[Words]) -> list[Scored]:
            network = lazy.network()
            found = network.translate(sources, self.beam, self.num_best)
            pairs = [
                PhrasePair(source, words)
                for source, targets in zip(sources, found, strict=True)
                for words in targets
            ]
            scores = (score.log_prob for score in network.score(pairs))
            scored = [[(words, next(scores)) for words in targets] for targets in found]
            return [sorted(targets, key=lambda each: -each[1]) for targets in scored]

        return translate


def generate_foreign(
    source: StrPath,
    model: StrPath,
    output: StrPath,
    *,
    text: ForeignText | None = None,
    truecase_model: StrPath | None = None,
    beam: int | None = None,
    nbest: tuple[StrPath, int] | None = None,
    name: str | None = None,
    compute: Compute = Compute(),
    progress: ProgressCallback | None = None,
) -> ForeignGenerateSummary:
    """Write the best translation of each line of a text by a model of CTranslate2.

    Source and output are words of Moses: sources become the model's pieces, and its translations
    are tokenised and escaped. The best has the highest log p(words ``</s>`` | source), as by
    `rescore`, a natural logarithm that is not divided by length. An empty line stays one.

    :param source: tokenised sentences, one per line.
    :param model: the folder of a model that CTranslate2 has converted.
    :param text: how words become pieces; None for the default.
    :param truecase_model: a file of Moses' train-truecaser.perl, by which translations are
        truecased.
    :param beam: the size of the beam; None for 10, or for the n of ``nbest`` if it is larger.
    :param nbest: a file for the n best translations of each line in Moses' format, and n. Equal
        translations are listed once.
    :param name: the feature's name in that file; None for ``CT20``.
    """
    source, output = os.fspath(source), os.fspath(output)
    lists, num_best = (None, 1) if nbest is None else (os.fspath(nbest[0]), nbest[1])
    check_at_least(1, beam=beam, nbest=num_best)
    width = max(USUAL_WIDTH, num_best) if beam is None else beam
    if num_best > width:
        raise ArgumentError("--beam: at least as many as --nbest wants of each sentence")
    if name is not None and lists is None:
        raise ArgumentError("--name is of the feature in --nbest")
    name = name or f"{column_name('ctranslate2', '')}0"
    check_feature_names([name])
    text, truecase = text or ForeignText(), optional_path(truecase_model)
    read = (source, text.source_spm, text.target_spm, truecase)
    check_files(tuple(path for path in read if path is not None), (output, lists))
    compute = compute.on_workers()
    lines = read_monolingual_text(source)
    lines = chain([next(lines)], lines)  # a text that cannot be read is refused at once
    found = ForeignModel(os.fspath(model), text, truecase)
    _logger.info("%s reads %s", found.folder, found.frame())
    folder = ForeignFolder(found.folder, text, compute.device, truecase_model=truecase)
    if compute.engine == "ray":  # its workers may be elsewhere
        path = os.path.abspath(found.folder)
        folder = replace(folder, path=path, fingerprint=found.fingerprint)
    else:
        folder = replace(folder, device=str(choose_device(compute.device)))
    if compute.engine == "here":
        if folder.device != "cpu":
            compute = replace(compute, workers=1)
        folder = replace(folder, threads=usable_threads(compute.workers))
    sources, _ = found.known_words
    texts = UnknownWordCheck(source, {found.folder: sources}).counted(line.words for line in lines)
    number = translations = 0
    with ExitStack() as stack:
        text_file = stack.enter_context(open_output(output))
        list_file = None if lists is None else stack.enter_context(open_output(lists))
        meter = stack.enter_context(Meter("generate", "sentences", progress, lines_of=source))
        work = ForeignGeneration(folder, width, num_best)
        for number, targets in enumerate(_translate(texts, work, compute), start=1):
            text_file.write(f"{' '.join(targets[0][0])}\n".encode())
            translations += len(targets)
            if list_file is not None:
                for words, log_prob in targets:
                    check_fields(words, source, number)
                    line = format_hypothesis(number - 1, words, [(name, [log_prob])], log_prob)
                    list_file.write(line)
            meter.update()
    return ForeignGenerateSummary(number, translations)


def _translate(
    sentences: Iterable[Words], work: ForeignGeneration, compute: Compute
) -> Iterator[Scored]:
    """Yield each sentence's translations in order: for an empty line an empty one with log p 0."""
    lines = iter(sentences)
    groups, ahead = tee(iter(lambda: list(islice(lines, _GROUP_SIZE)), []))
    with open_pool(compute, work) as pool:
        results = pool.map([words for words in group if words] for group in ahead)
        for group, scored in zip(groups, results, strict=True):
            translations = iter(scored)
            for words in group:
                yield next(translations) if words else [((), 0.0)]
