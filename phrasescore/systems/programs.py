"""Another decoder as the decoder of a system: Moses, or a command that writes n-best lists."""

import os
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from moses_integration.decoder import ALGORITHMS
from moses_integration.decoder.moses import DecoderCommand, ListRequest, log_tail
from moses_integration.nbest import read_every_list
from phrasescore.devices import usable_threads
from phrasescore.errors import PhrasescoreError
from phrasescore.records import Weights
from phrasescore.systems.search import SearchOutput
from phrasescore.systems.system import Moses, System
from phrasescore.systems.text import SystemSentence

_ONE = ListRequest(1, distinct=True)


def decode_with_program(
    system: System,
    sentences: Sequence[SystemSentence],
    weights: Weights,
    request: ListRequest | None,
    *,
    workers: int | None = None,
    prefix: str = "",
) -> Iterator[SearchOutput]:
    """Yield what another decoder finds for each sentence of a text, which it reads as a whole.

    :param workers: number of Moses' threads; None for all cores.
    :param prefix: the beginning of the names of its files; "" for temporary ones.
    """
    if not sentences:
        return
    with tempfile.TemporaryDirectory(prefix="phrasescore-") as folder:
        work = prefix or os.path.join(folder, "run")
        source, nbest = f"{work}.source", f"{work}.nbest.part"
        threads = min(usable_threads(workers), len(sentences))
        run = _command(system, threads)
        # Another decoder than Moses gets the words of a system of characters.
        texts = (each.tokens if run.is_moses else each.words for each in sentences)
        Path(source).write_bytes(b"".join(f"{' '.join(words)}\n".encode() for words in texts))
        run(source, weights, request or _ONE, nbest, keeps_log=bool(prefix))
        if isinstance(system.decoder, Moses):
            found = Path(f"{work}.out").read_bytes().count(b"\n")
            if found != len(sentences):
                problem = f"expected {len(sentences):,} translations from Moses, found {found:,}"
                tail = log_tail(f"{work}.log", is_named=bool(prefix))
                raise PhrasescoreError(f"{problem}{tail}")
        found_lists = read_every_list(nbest, len(sentences), allow_missing=True)
        for sentence, each in zip(sentences, found_lists, strict=True):
            if each.data:
                yield SearchOutput(each.hypothesis(0).strip(b" ").decode(), each.raw)
            else:
                yield SearchOutput("", untranslated=int(bool(sentence.words)))


def _command(system: System, threads: int) -> DecoderCommand:
    """Return the command of a decoder, in which Moses gets the system's limits."""
    ini = None if system.moses_ini is None else system.read_ini()
    if isinstance(system.decoder, DecoderCommand):
        return replace(system.decoder, ini=ini)
    assert isinstance(system.decoder, Moses)
    words = [str(system.decoder.program), "-threads", str(threads)]
    for name, value in system.limits.items():
        number = ALGORITHMS.index(value) if name == "search-algorithm" else value
        words += [f"-{name}", str(number)]
    return DecoderCommand(shlex.join(words), ini)
