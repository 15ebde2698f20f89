"""Align the words of parallel text with a model of sil-thot, in a process per direction.

Training an aligner is a series of long calls of compiled code, so each direction has a process that
can be ended at any time. Run as a program, this module aligns one direction, and writes its
progress to stdout.

eflomal: Östling and Tiedemann (2016), "Efficient word alignment with Markov chain Monte Carlo".
fast_align: Dyer et al. (2013). HMM: Vogel et al. (1996).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from phrasescore.errors import PhrasescoreError
from phrasescore.io.corpora import read_together
from phrasescore.io.output import open_output, writing
from phrasescore.io.text import decode, open_input
from phrasescore.settings.building import AlignerName

# The classes of sil-thot that are trained one after the other, each from the one before.
_MODELS = {
    "eflomal": ("EflomalAlignmentModel",),
    "fast-align": ("FastAlignModel",),
    "hmm": ("Ibm1AlignmentModel", "HmmAlignmentModel"),
}
_ITERATIONS = 5  # of each model but eflomal's, which computes their number from the text
_SEED = 1
_LOOK_EVERY = 0.1  # seconds
_OUR_ERROR = "Error: "  # before an error that names a file


def align(
    kind: AlignerName,
    source: Path,
    target: Path,
    folder: Path,
    workers: int,
    report: Callable[[float], None],
) -> tuple[Path, Path]:
    """Align parallel text in both directions; return the files of links from source to target.

    In the first file each target word has at most one link, and in the second each source word.
    The links do not depend on ``workers``.

    :param source: text without empty lines, with words separated by single spaces.
    :param folder: where the files are written.
    :param workers: number of processes; with one, the directions are aligned one after the other.
    :param report: called with the share that is done, from 0 to 1.
    """
    outputs = folder / "forward", folder / "backward"
    texts = folder / "source", folder / "target"
    for path, text in zip((source, target), texts, strict=True):
        with writing(text), open_input(str(path)) as file, text.open("wb") as copy:
            shutil.copyfileobj(file, copy)
    directions = [(*texts, outputs[0]), (*reversed(texts), outputs[1])]
    shares = [0.0, 0.0]
    processes: list[subprocess.Popen[bytes]] = []

    def run(number: int) -> None:
        command = [sys.executable, "-m", __name__, kind, *map(str, directions[number])]
        with TemporaryFile() as errors:
            with subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                process_group=0,  # Ctrl-C is for the parent, which ends this process
            ) as process:
                processes.append(process)
                for line in process.stdout or ():
                    shares[number] = float(line)
            errors.seek(0)
            if process.returncode:
                raise _problem(process.returncode, errors.read().decode(errors="replace"))

    with ThreadPoolExecutor(min(2, workers)) as threads:
        running = [threads.submit(run, number) for number in range(2)]
        try:
            while running:
                done, _ = wait(running, _LOOK_EVERY, FIRST_EXCEPTION)
                report(sum(shares) / 2)
                for each in done:
                    each.result()
                    running.remove(each)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.kill()
    return outputs


def _problem(code: int, errors: str) -> PhrasescoreError:
    last = errors.strip().rpartition("\n")[2]
    if last.startswith(_OUR_ERROR):
        return PhrasescoreError(last.removeprefix(_OUR_ERROR))
    how = f"ended with exit code {code}: {last}"
    if code < 0:
        how = f"was killed by signal {-code}; was there too little memory?"
    return PhrasescoreError(f"the word aligner {how}")


def _align_direction(kind: str, source: str, target: str, output: str) -> None:
    """Write the links of one direction, in both cases with the number of the source word first."""
    parent = os.getppid()

    def report(done: int, total: int) -> None:
        if os.getppid() != parent:
            sys.exit("the program that started this one has ended")
        print(done / total, flush=True)  # noqa: T201

    model = _train(kind, source, target, report)
    is_backward = Path(output).name == "backward"
    with open_output(output) as stream:
        for number in range(model.num_sentence_pairs):
            matrix: Any = model.get_training_alignment(number)[1].to_numpy()
            links = (matrix.T if is_backward else matrix).nonzero()
            pairs = zip(*(index.tolist() for index in links), strict=True)
            stream.write(" ".join(f"{first}-{second}" for first, second in pairs).encode() + b"\n")


def _train(kind: str, source: str, target: str, report: Callable[[int, int], None]) -> Any:
    import thot.alignment

    names = _MODELS[kind]
    model: Any = None
    for index, name in enumerate(names):
        create = getattr(thot.alignment, name)
        model = create() if model is None else create(model)
        if kind == "eflomal":
            # It reads the plain files once. Added sentences take twice the memory of the rest.
            model.read_sentence_pairs(source, target)
        elif index == 0:
            for line_number, pair in enumerate(read_together(source, target), start=1):
                paths = zip((source, target), pair, strict=True)
                texts = [decode(path, line_number, line) for path, line in paths]
                model.add_sentence_pair(*(text.split(" ") for text in texts))
        if kind == "eflomal":
            model.seed, model.deterministic = _SEED, True
            # Three, as in eflomal, take three times as long, and gained nothing in BLEU.
            model.num_samplers = 1
        model.emit_training_alignments = name == names[-1]
        model.start_training()
        count = model.scheduled_iterations if kind == "eflomal" else _ITERATIONS
        for number in range(1, count + 1):
            model.train()
            report(index * count + number, len(names) * count)
        model.end_training()
    return model


if __name__ == "__main__":
    try:
        _align_direction(*sys.argv[1:])
    except PhrasescoreError as error:
        sys.exit(f"{_OUR_ERROR}{error}")
