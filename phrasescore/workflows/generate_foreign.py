"""Translate with a network of another toolkit, computed by CTranslate2."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, tee

from moses_integration.nbest_lines import check_feature_names
from phrasescore.arguments import StrPath, check_at_least
from phrasescore.engines import callers, local_device, open_pool
from phrasescore.features import column_name
from phrasescore.foreign import ForeignText
from phrasescore.foreign.model import ForeignFolder, ForeignModel
from phrasescore.generation.generator import Generated
from phrasescore.io.corpora import read_monolingual_text
from phrasescore.io.output import check_files, optional_path
from phrasescore.progress import ProgressCallback
from phrasescore.records import PhrasePair
from phrasescore.settings.compute import Compute
from phrasescore.workflows.generate import beam_width, check_name, write_translations
from phrasescore.workflows.text_checks import UnknownWordCheck

_logger = logging.getLogger(__name__)

_GROUP_SIZE = 128  # sentences sent to a worker at a time; equally long ones form batches

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForeignGenerateSummary:
    """Counts from one run of `generate_foreign`."""

    lines: int
    translations: int  # number of lines in the n-best lists, or in the output if there are no lists


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
    """Write the best translation of each line of a text, using a CTranslate2 model.

    Source and output are tokenised for Moses: sources are split into the model's pieces, and
    translations are tokenised and escaped. The best translation has the highest log p(words
    ``</s>`` | source), as in `rescore`: a natural logarithm that is not divided by length. An empty
    line stays empty.

    :param source: tokenised sentences, one per line.
    :param model: the folder of a model converted for CTranslate2.
    :param text: how words are split into pieces; None for the default.
    :param truecase_model: a model from Moses' train-truecaser.perl, used to truecase
        translations.
    :param beam: the size of the beam; None for 10, or for the n of ``nbest`` if it is larger.
    :param nbest: a file for the n best translations of each line in Moses' format, and n. Equal
        translations are listed once.
    :param name: the feature's name in that file; None for ``CT20``.
    """
    source, output = os.fspath(source), os.fspath(output)
    lists, num_best = (None, 1) if nbest is None else (os.fspath(nbest[0]), nbest[1])
    check_at_least(1, beam=beam, nbest=num_best)
    width = beam_width(beam, num_best, "--nbest")
    check_name(name, lists)
    name = name or f"{column_name('ctranslate2', '')}0"
    check_feature_names([name])
    text, truecase = text or ForeignText(), optional_path(truecase_model)
    read = (source, text.source_spm, text.target_spm, truecase)
    check_files(tuple(path for path in read if path is not None), (output, lists))
    compute = compute.on_workers()
    device = local_device(compute)
    lines = read_monolingual_text(source)
    lines = chain([next(lines)], lines)  # reject an unreadable text before the model is loaded
    found = ForeignModel(os.fspath(model), text, truecase)
    _logger.info("%s reads %s", found.folder, found.frame())
    threads = callers(compute) if device == "cpu" else 1
    folder = ForeignFolder(found.folder, text, device, threads, truecase_model=truecase)
    check = UnknownWordCheck(source, {found.folder: found.known_words[0]})
    texts = check.counted(line.words for line in lines)
    translated = _translate(texts, ForeignGeneration(folder, width, num_best), compute)
    counts = write_translations(translated, source, output, lists, [name], progress)
    return ForeignGenerateSummary(*counts)


@dataclass(frozen=True)
class ForeignGeneration:
    """The work of translating groups of sentences: a :class:`phrasescore.engines.Work`."""

    model: ForeignFolder
    beam: int
    num_best: int

    @property
    def device(self) -> str:
        """The device that the model runs on."""
        return self.model.device

    def in_folders(self) -> "ForeignGeneration":
        """Return a copy for workers on other machines, which have the same folders."""
        return replace(self, model=self.model.in_folder())

    def load(self) -> Callable[[list[Words]], list[list[Generated]]]:
        """Return a function that translates."""
        network = self.model.load()

        def translate(sources: list[Words]) -> list[list[Generated]]:
            found = network.translate(sources, self.beam, self.num_best)
            pairs = [
                PhrasePair(source, words)
                for source, targets in zip(sources, found, strict=True)
                for words in targets
            ]
            scores = (score.log_prob for score in network.score(pairs))
            scored = [[Generated(words, next(scores)) for words in targets] for targets in found]
            return [sorted(targets, key=lambda each: -each.log_prob) for targets in scored]

        return translate


def _translate(
    sentences: Iterable[Words], work: ForeignGeneration, compute: Compute
) -> Iterator[list[Generated]]:
    """Yield each sentence's translations in order; an empty line has one, empty, with log p 0."""
    lines = iter(sentences)
    groups, ahead = tee(iter(lambda: list(islice(lines, _GROUP_SIZE)), []))
    with open_pool(compute, work) as pool:
        results = pool.map([words for words in group if words] for group in ahead)
        for group, scored in zip(groups, results, strict=True):
            translations = iter(scored)
            for words in group:
                yield next(translations) if words else [Generated((), 0.0)]
