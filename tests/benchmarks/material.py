"""What the benchmarks work on: the lines of a table, and networks with random weights."""

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import torch

from moses_integration.phrase_table import read_phrase_table
from phrasescore.io.text import read_lines
from phrasescore.models.checkpoint import Checkpoint, TrainingRecord
from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.records import PhrasePair
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import EncoderDecoderConfig
from phrasescore.vocabulary import Vocabulary
from tests.benchmarks.plain_torch import PlainEncoderDecoder

# Wide enough that the probabilities of words differ as those of a trained network do. With the
# 0.01 that training starts from, all are alike and no error of rounding would show.
INIT_STD = 0.1


def write_slices(table: str, folder: Path, lines: int, slice_lines: int) -> list[Path]:
    """Cut the first ``lines`` lines of a table into .gz files; a short rest joins the last one."""
    raws = list(islice(read_lines(table), lines))
    starts = list(range(0, max(len(raws) - slice_lines, 0) + 1, slice_lines))
    paths: list[Path] = []
    for start, end in zip(starts, [*starts[1:], len(raws)], strict=True):
        path = folder / f"slice-{len(paths)}.gz"
        text = b"".join(raw + b"\n" for raw in raws[start:end])
        path.write_bytes(gzip.compress(text, 6))
        paths.append(path)
    return paths


def read_pairs(paths: Iterable[Path | str]) -> Iterator[PhrasePair]:
    for path in paths:
        yield from (line.pair for line in read_phrase_table(str(path)))


def padded_vocabularies(pairs: Iterable[PhrasePair], config: Config) -> list[Vocabulary]:
    """Return the shortlists of both sides, filled up to the configured sizes.

    A table of a small task has fewer words than the paper's shortlists, and the work depends on
    their sizes; so the rest is made up, and never seen.
    """
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for pair in pairs:
        counts[0].update(pair.source)
        counts[1].update(pair.target)
    sizes = (config.vocabulary.source_size, config.vocabulary.target_size)
    vocabularies = []
    for counter, size in zip(counts, sizes, strict=True):
        known = Vocabulary.from_counts(counter, size)
        shortlist = [known.word(number) for number in range(2, len(known))]
        made_up = (f"<f{number}>" for number in range(size - len(shortlist)))
        vocabularies.append(Vocabulary([*shortlist, *made_up]))
    return vocabularies


def random_checkpoint(config: Config, vocabularies: list[Vocabulary]) -> Checkpoint:
    """Return a model with random weights; its recurrent matrices are as training starts them."""
    config = config.override([f"model.init_std={INIT_STD}"])
    source, target = vocabularies
    model = start_network(config, source, target).eval()
    return Checkpoint(model, config, source, target, TrainingRecord())


def start_network(config: Config, source: Vocabulary, target: Vocabulary) -> EncoderDecoder:
    assert isinstance(config.model, EncoderDecoderConfig)
    network = EncoderDecoder(config.model, len(source), len(target))
    network.initialize(torch.Generator().manual_seed(config.training.seed))
    return network


def plain_copy(model: EncoderDecoder) -> PlainEncoderDecoder:
    sizes = model.config
    # Without drawing start weights that are overwritten.
    with torch.device("meta"):
        plain = PlainEncoderDecoder(
            hidden_size=sizes.hidden_size,
            embedding_size=sizes.embedding_size,
            maxout_units=sizes.maxout_size,
            output_rank=sizes.output_rank,
            source_size=len(model.source_embedding),
            target_size=len(model.target_embedding),
        )
    plain = plain.to_empty(device="cpu")
    plain.load_state_dict(model.state_dict())
    return plain
