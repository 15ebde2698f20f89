"""Translations and samples of a text, as ``phrasescore generate`` writes them."""

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain, tee
from typing import TYPE_CHECKING

from moses_integration.nbest import format_value
from moses_integration.nbest_lines import check_feature_names, format_hypothesis
from phrasescore.cli.file_names import check_files
from phrasescore.cli.generate_networks import Tally, load_generator
from phrasescore.cli.progress import show_progress
from phrasescore.devices import usable_threads
from phrasescore.errors import DataError
from phrasescore.features.column_spec import ENSEMBLE_NAME, NETWORK_NAMES, NORMALIZED
from phrasescore.generation.beam_search import BeamSettings, check_copying
from phrasescore.generation.generator import Generated, Source
from phrasescore.generation.sampling import SampleSettings, count_samples
from phrasescore.generation.streams import best_targets, samples
from phrasescore.io.monolingual_text import read_monolingual_text
from phrasescore.io.output import check_output, open_output
from phrasescore.models.checkpoint import Checkpoint
from phrasescore.progress import Meter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from phrasescore.cli.generate_options import GenerateOptions


def write_translations(wanted: "GenerateOptions") -> None:
    """Write the best translation of each line, and the n-best lists if they are wanted."""
    nbest, num_best = wanted.nbest or (None, 1)
    check_files((wanted.source,), (wanted.output, nbest))
    for name in (wanted.output, nbest):
        if name is not None:
            check_output(name)
    settings = BeamSettings(
        wanted.beam,
        num_best,
        normalize=wanted.normalize,
        unknown=not wanted.no_unknown,
        max_length=wanted.max_length,
        copy_unknown=wanted.copy_unknown,
    )
    sources = _read(wanted.source)
    generator, checkpoints = load_generator(wanted)
    check_copying(generator, settings)
    names = _feature_names(wanted, checkpoints)
    tally = Tally(checkpoints)
    found = best_targets(
        generator, tally.reading(sources), settings, threads=usable_threads(wanted.threads)
    )
    with ExitStack() as stack:
        output = stack.enter_context(open_output(wanted.output))
        lists = None if nbest is None else stack.enter_context(open_output(nbest))
        progress = stack.enter_context(Meter("generate", "sentences", show_progress))
        for number, targets in enumerate(found):
            tally.wrote(targets[:1])
            output.write(f"{' '.join(targets[0].words)}\n".encode())
            if lists is not None:
                for target in targets:
                    _check_fields(target.words, wanted.source, number + 1)
                lists.writelines(_nbest_line(number, target, names) for target in targets)
            progress.update()
    tally.report(copied=wanted.copy_unknown)


def _check_fields(words: Sequence[str], path: str, line: int) -> None:
    """Refuse a word, copied from a source, that would be taken for the end of a field.

    :raises DataError: naming the line of the source.
    """
    if "|||" in words:
        problem = "the word '|||' separates fields in the output; escape it: &#124;&#124;&#124;"
        raise DataError(path, line, problem)


def _read(path: str) -> "Iterator[Source]":
    """Return the sentences of a text; what is wrong with its first lines is seen at once."""
    sentences = (line.words for line in read_monolingual_text(path))
    return chain([next(sentences)], sentences)


def _feature_names(wanted: "GenerateOptions", checkpoints: Sequence[Checkpoint]) -> list[str]:
    """Return the names of the features in an n-best list: log p, and what it is sorted by."""
    prefix = NETWORK_NAMES[checkpoints[0].config.kind]
    name = wanted.name or f"{ENSEMBLE_NAME if len(checkpoints) > 1 else prefix}0"
    names = [name, *([name + NORMALIZED] if wanted.normalize else [])]
    check_feature_names(names)
    return names


def _nbest_line(number: int, target: Generated, names: Sequence[str]) -> bytes:
    values = [target.log_prob, target.log_prob / (len(target.words) + 1)][: len(names)]
    features = [(name, [value]) for name, value in zip(names, values, strict=True)]
    return format_hypothesis(number, target.words, features, values[-1])


def write_samples(wanted: "GenerateOptions") -> None:
    """Write the distinct samples of each line, the best first."""
    assert wanted.sample is not None
    check_files((wanted.source,), (wanted.output,))
    check_output(wanted.output)
    settings = SampleSettings(
        wanted.sample,
        temperature=wanted.temperature,
        seed=wanted.seed,
        max_length=wanted.max_length,
        unknown=not wanted.no_unknown,
    )
    sources, ahead = tee(_read(wanted.source))
    generator, checkpoints = load_generator(wanted)
    tally = Tally(checkpoints)
    found = samples(
        generator, tally.reading(ahead), settings, threads=usable_threads(wanted.threads)
    )
    with (
        open_output(wanted.output) as output,
        Meter("generate", "phrases", show_progress) as progress,
    ):
        for number, (source, targets) in enumerate(zip(sources, found, strict=True), start=1):
            _check_fields(source, wanted.source, number)
            whole = [target for target in targets if target.finished]
            tally.wrote(whole, left_out=len(targets) - len(whole))
            for item in count_samples(whole)[: wanted.top]:
                fields = (" ".join(source), " ".join(item.target.words))
                text = " ||| ".join(fields).encode()
                value = format_value(item.target.log_prob)
                output.write(b"%b ||| %b ||| %d\n" % (text, value, item.times))
            progress.update()
    tally.report(samples=True)
