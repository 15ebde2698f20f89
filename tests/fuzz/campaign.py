"""``python -m tests.fuzz.campaign``: damaged files in every reader, by the thousand.

A case is a subject and a number, from which everything follows: it is played again by

    python -m tests.fuzz.campaign --subject "rescore cache" --first 123 --cases 1

A command either refuses the file (exit 1 or 2, one line of error, which begins with a file's name;
nothing is written) or takes it, and then what it writes is whole. It ends within 60 seconds of the
processor.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tqdm import tqdm

from phrasescore.errors import show_controls
from phrasescore.io.journal import digest_file, digest_text
from tests.fuzz.arena import Arena, Outcome
from tests.fuzz.material import make_material
from tests.fuzz.mutations import mutate
from tests.fuzz.subjects import SUBJECTS, Subject

# Cases that a process runs in one go.
_BATCH = 50
# Commands whose stdout is for a terminal.
_REPORTS = ("evaluate", "perplexity")


class Finding(NamedTuple):
    """What should not have happened."""

    subject: str
    number: int
    problem: str


class Result(NamedTuple):
    """What became of some cases."""

    refused: int
    taken: int
    findings: list[Finding]


def run_cases(arena: Arena, name: str, numbers: range) -> Result:
    subject = SUBJECTS[name]
    statuses: Counter[bool] = Counter()
    findings = []
    for number in numbers:
        damaged = _damage(arena, subject, f"{name}:{number}")
        outcome = arena.run(subject.words)
        problem = _problem(arena, subject, damaged, outcome)
        if problem is not None:
            findings.append(Finding(name, number, f"{damaged}: {problem}"))
        statuses[outcome.status == 0] += 1
        arena.restore()
    return Result(statuses[False], statuses[True], findings)


def _damage(arena: Arena, subject: Subject, case: str) -> str:
    """Damage one file, and return its path."""
    numbers = random.Random(case)
    files = [name for path in subject.files for name in _files(arena.pristine, path)]
    name = numbers.choice(files)
    data = (arena.pristine / name).read_bytes()
    path = arena.folder / name
    path.unlink()  # a server of an earlier case may have mapped its bytes into memory
    path.write_bytes(mutate(data, numbers, is_gzip=name.endswith(".gz")))
    if numbers.random() < 0.8:
        _make_right_again(path)
    for output in subject.outputs:
        if not output.endswith("/") and "/" not in output and numbers.random() < 0.5:
            (arena.folder / output).write_text("old\n")
    arena.settle()
    return name


def _files(folder: Path, path: str) -> Iterator[str]:
    if (folder / path).is_dir():
        for found in sorted((folder / path).rglob("*")):
            if found.is_file():
                yield str(found.relative_to(folder))
    else:
        yield path


def _make_right_again(path: Path) -> None:
    file = path.with_name("training.json")
    try:
        record = json.loads(file.read_bytes())
        prints = record["fingerprints"]
        for name in prints:
            prints[name] = digest_file(path.with_name(name))
        files = ("model.safetensors", "source.vocab", "target.vocab", "source.spm", "target.spm")
        parts = [prints[name] for name in files if name in prints]
        record["fingerprint"] = digest_text(" ".join([*parts, record["direction"]]))
        file.write_text(json.dumps(record))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass  # damaged itself, or no model


def _problem(arena: Arena, subject: Subject, damaged: str, outcome: Outcome) -> str | None:
    if outcome.status is None:
        return outcome.trace
    if outcome.status not in (0, 1, 2):
        return f"exit {outcome.status}: {outcome.stderr[-500:]}"
    shown = outcome.stderr + outcome.stdout * subject.command.startswith(_REPORTS)
    if show_controls(shown) != shown:
        return f"exit {outcome.status}, with control characters: {shown[-500:]!r}"
    allowed = [*subject.changes, *(subject.outputs if outcome.status == 0 else ())]
    for path in arena.changes():
        if not any(path == name or (name[-1] == "/" and path.startswith(name)) for name in allowed):
            return f"exit {outcome.status}, and {path} is new or changed: {outcome.stderr[-500:]}"
    if outcome.status:
        return _problem_of_message(subject, damaged, outcome.stderr)
    try:
        return subject.check() if subject.check else None
    except (OSError, ValueError, LookupError) as error:
        return f"the output cannot be checked: {error!r}"


def _problem_of_message(subject: Subject, damaged: str, stderr: str) -> str | None:
    errors = [line for line in stderr.split("\n") if line.startswith("Error: ")]
    if len(errors) != 1 or not stderr.endswith(f"{errors[-1]}\n"):
        return f"expected one line of error at the end: {stderr[-500:]}"
    # The damaged one, or another: of two texts, of an output, of what is made of it in between.
    names = {damaged, *subject.files, *subject.outputs, *subject.changes}
    names |= {word for word in subject.words if Path(word).exists()}
    paths = "|".join(re.escape(name.rstrip("/")) for name in names)
    named = re.match(
        rf"Error: (?:\S*/)?(?:{paths})(?:, (?:{paths}))*(?:[:/]| is | was )", errors[0]
    )
    # A damaged moses.ini may name a file that cannot be there, a decoder may write none, a run that
    # goes on may lack its limit, and a program is known by its command.
    others = (
        "cannot open: |File name too long$|the decoder wrote no n-best list to new.loop/"
        "|Error: --set: .*set a limit|Error: command './program.sh': line "
    )
    if not named and not re.search(others, errors[0]):
        return f"the error begins with no file: {errors[0]!r}"
    return None


# The arena of a process, and the file in which it writes the number of the case that it runs.
_arena: list[Arena] = []
_now: list[Path] = []


def _start(pristine: Path, folder: Path, now: Path) -> None:
    _arena.append(Arena(pristine, folder / str(os.getpid())))
    _now.append(now)


def _run(name: str, numbers: range) -> Result:
    results = []
    for number in numbers:
        _now[0].write_text(str(number))
        results.append(run_cases(_arena[0], name, range(number, number + 1)))
    return _sum(results)


class _Worker:
    """A process that runs cases; a new one takes its place when it dies."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder, self._now = folder, folder / f"case-{number}"
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            1,
            multiprocessing.get_context("spawn"),  # this process has threads of torch's
            initializer=_start,
            initargs=(self._folder / "pristine", self._folder, self._now),
        )

    def run(self, name: str, numbers: range) -> Result:
        """Run cases; one at which the process dies is a finding, and the others are run again."""
        try:
            return self._pool.submit(_run, name, numbers).result()
        except BrokenProcessPool:
            self._pool = self._new()
            at = numbers.index(int(self._now.read_text()))
            death = Result(0, 0, [Finding(name, numbers[at], "the process died")])
            others = [self.run(name, part) for part in (numbers[:at], numbers[at + 1 :]) if part]
            return _sum([death, *others])

    def end(self) -> None:
        self._pool.shutdown()


def run_campaign(folder: Path, names: list[str], numbers: range, processes: int) -> list[Result]:
    """Run the cases of these numbers of each subject in processes; return a result per subject.

    Ctrl-C and SIGTERM end the campaign; the results until then are returned.
    """
    make_material(folder / "pristine")
    parts = [
        (name, part[at : at + _BATCH])
        for name in names
        for part in [numbers[: math.ceil(len(numbers) * SUBJECTS[name].share)]]
        for at in range(0, len(part), _BATCH)
    ]
    parts.sort(key=lambda item: zlib.crc32(repr(item).encode()))  # dear subjects spread out
    found: dict[str, list[Result]] = {name: [] for name in names}
    workers = [_Worker(folder, number) for number in range(processes)]
    free: SimpleQueue[_Worker] = SimpleQueue()
    for worker in workers:
        free.put(worker)

    def run_part(name: str, part: range) -> None:
        worker = free.get()
        try:
            result = worker.run(name, part)
        finally:
            free.put(worker)
        found[name].append(result)
        for finding in result.findings:
            tqdm.write(f"{finding}", file=sys.stderr)

    with ThreadPoolExecutor(processes) as threads:
        tasks = [threads.submit(run_part, *part) for part in parts]
        try:
            for task in tqdm(tasks, "cases", unit_scale=_BATCH, mininterval=10):
                task.result()
        except KeyboardInterrupt:
            threads.shutdown(cancel_futures=True)
    for worker in workers:
        worker.end()
    return [_sum(results) for results in found.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subject", action="append", choices=sorted(SUBJECTS))
    parser.add_argument("--cases", type=int, default=50_000, help="over all subjects")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = options.subject or list(SUBJECTS)
    each = math.ceil(options.cases / sum(SUBJECTS[name].share for name in names))
    numbers = range(options.first, options.first + each)
    with tempfile.TemporaryDirectory() as folder:
        results = run_campaign(Path(folder), names, numbers, options.processes)
    print(f"{'':20} {'cases':>7} {'refused':>8} {'taken':>7} findings")
    for name, result in [*zip(names, results, strict=True), ("all", _sum(results))]:
        cases = result.refused + result.taken
        row = f"{cases:7,} {result.refused:8,} {result.taken:7,} {len(result.findings)}"
        print(f"{name:20} {row}")
    for finding in _sum(results).findings:
        print(f"\n{finding.subject}, case {finding.number}: {finding.problem}")
    sys.exit(any(result.findings for result in results))


def _sum(results: list[Result]) -> Result:
    refused, taken = sum(r.refused for r in results), sum(r.taken for r in results)
    return Result(refused, taken, [finding for r in results for finding in r.findings])


if __name__ == "__main__":
    main()
