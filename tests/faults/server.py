"""``python -m tests.faults.server``: clients of ``serve`` that stop, send garbage and leave.

Good clients check every answer against the first answer to the same request. Once in a while a
worker is killed. A minute's row has its answers and latencies, and the medians of what the
processes take; memory at the end is compared with memory at the beginning, each time minutes after
the last kill, since new workers take less. Exit status 1 if anything went wrong.
"""

import argparse
import contextlib
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from phrasescore.models.checkpoint import save_checkpoint
from tests.doubles import RandomCslm
from tests.faults.cases import EXAMPLE
from tests.faults.good_clients import GoodClient
from tests.faults.rude_clients import RudeClients
from tests.phrasescore.workflows.serve.server import Server, serving
from tests.random_networks import RandomNetwork

_MAX_WAIT = 60  # --max-wait
_GROWTH_MB, _GROWTH_DESCRIPTORS = 24.0, 16
_HANG_SECONDS = 2 * _MAX_WAIT  # without a good answer
_STOP_SECONDS = 10
# When a worker is killed: not between the two measurements, and not during them.
_KILLS = (0.04, 0.08, 0.12, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
_SYSTEM = """\
moses_ini = "moses.ini"
weights = "weights"
search_models = ["cslm"]
search = { stack = 10 }
nbest_size = 10
[[rescore]]
model = "rnnsearch"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=8, help="good ones")
    parser.add_argument("--pause", type=float, default=2, help="of clients, in answer times")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sentences = write_example(folder)
        problems = load(
            folder, sentences, options.minutes * 60, options.clients, options.pause, options.seed
        )
    for problem in problems:
        print(f"PROBLEM: {problem}")
    print("no problems" if not problems else f"{len(problems)} problems")
    sys.exit(bool(problems))


def write_example(folder: Path) -> list[str]:
    """Write the shipped example as a system with two networks; return some sentences."""
    words = [(EXAMPLE / name).read_text().split() for name in ("dev.en", "dev.fr")]
    network = RandomNetwork("rnnsearch", *(sorted(set(each)) for each in words))
    save_checkpoint(folder / "rnnsearch", network.checkpoint)
    RandomCslm(sorted(set(words[1])), path=folder / "cslm")
    shutil.copy(EXAMPLE / "moses.ini", folder)
    for path in EXAMPLE.glob("*.gz"):
        os.symlink(path, folder / path.name)
    weights = (EXAMPLE / "moses.ini").read_text().partition("[weight]")[2].strip()
    weights = weights.replace("UnknownWordPenalty0= 1\n", "")  # not in the lists
    (folder / "weights").write_text(f"{weights}\nCSLM0= 0.01\nRNNsearch0= 0.01\n")
    (folder / "system.toml").write_text(_SYSTEM)
    return (EXAMPLE / "test.en").read_text().splitlines()[:40]


def load(
    folder: Path, sentences: Sequence[str], seconds: float, clients: int, pause: float, seed: int
) -> list[str]:
    """Serve ``system.toml`` of a folder under load; return what went wrong."""
    with serving(folder, "system.toml", "--workers", "2", "--max-wait", str(_MAX_WAIT)) as server:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # of this process, for clients
        good = [GoodClient(server, sentences, pause, seed + number) for number in range(clients)]
        rude = RudeClients(server, sentences, _MAX_WAIT, seed)
        watch = Watch(server, good, rude)
        watch.run(seconds)
        problems = watch.problems
        try:
            server.process.send_signal(signal.SIGTERM)
            code = server.process.wait(_STOP_SECONDS)
            problems += [f"exit code {code} after SIGTERM"] * (code != 0)
        except subprocess.TimeoutExpired:
            problems.append(f"still running {_STOP_SECONDS} seconds after SIGTERM")
        rude.close()
        server.process.kill()  # if it has not ended
        server.process.wait()
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{(spent.ru_utime + spent.ru_stime) / seconds:.2f} cores")
        for word in ("Traceback", "never retrieved", "rror"):
            found = [line for line in server.log.splitlines() if word in line]
            problems += [f"{len(found)} times in the log: {line}" for line in found[:1]]
        (folder / "log").write_text(server.log)
    return problems


class _Sample(NamedTuple):
    """What the server and its workers use."""

    # MB of their own, without the files that they map.
    memory: float
    descriptors: float


def _measure(server: Server) -> _Sample | None:
    kilobytes = descriptors = 0
    try:
        for pid in (server.process.pid, *server.workers()):
            folder = Path(f"/proc/{pid}")
            found = re.search(r"Anonymous: +(\d+)", (folder / "smaps_rollup").read_text())
            if found is None:
                return None
            kilobytes += int(found[1])
            descriptors += len(os.listdir(folder / "fd"))
    except OSError:  # a worker that has just ended
        return None
    return _Sample(kilobytes / 1024, descriptors)


def _row(samples: Sequence[_Sample]) -> str:
    """Describe the medians of samples."""
    middle = _medians(samples)
    return f"{middle.memory:.0f} MB of their own, {middle.descriptors:.0f} descriptors"


def _medians(samples: Sequence[_Sample]) -> _Sample:
    return _Sample(*map(statistics.median, zip(*samples, strict=True)))


class Watch:
    """Lets clients work for some time, and looks at the processes of the server."""

    def __init__(self, server: Server, good: Sequence[GoodClient], rude: RudeClients) -> None:
        self._server, self._good, self._rude = server, good, rude
        self._samples: list[tuple[float, _Sample]] = []
        self.problems: list[str] = []

    def run(self, seconds: float) -> None:
        begin = last_good = time.monotonic()
        kills, answers, minutes = list(_KILLS), 0, 0
        idle = self._look(0.0)
        print(f"without clients: {_row([idle])}", flush=True)
        for client in self._good:
            client.start()
        self._rude.start()
        while (now := time.monotonic() - begin) < seconds:
            time.sleep(min(1.0, seconds / 60))
            if kills and now > kills[0] * seconds:
                kills.pop(0)
                for worker in sorted(self._server.workers())[:1]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)
            self._look(now)
            if (total := sum(len(client.latencies) for client in self._good)) > answers:
                answers, last_good = total, time.monotonic()
            if time.monotonic() - last_good > _HANG_SECONDS:
                self.problems.append(f"no good answer for {_HANG_SECONDS} seconds")
                break
            if now >= 60 * (minutes + 1):
                minutes += 1
                self._report(minutes)
        self._rude.stop()
        for client in self._good:
            client.stopped.set()
        for client in self._good:
            client.join(100)
            self.problems += client.problems
        self.problems += self._rude.problems
        self._report(minutes + 1)
        print(f"rude clients: {dict(self._rude.counts)}")
        if now >= seconds:
            self._compare(seconds)

    def _look(self, now: float) -> _Sample:
        while (sample := _measure(self._server)) is None:
            assert self._server.process.poll() is None, self._server.log
        self._samples.append((now, sample))
        return sample

    def _report(self, minute: int) -> None:
        own = [sample for now, sample in self._samples if now >= 60 * (minute - 1)]
        latencies = sorted(each for client in self._good for each in client.take())
        middle, late = (
            latencies[int(share * len(latencies))] * 1000 if latencies else 0
            for share in (0.5, 0.95)
        )
        problems = sum(len(client.problems) for client in self._good)
        print(
            f"{minute:3}: {len(latencies)} answers, {problems} problems, p50 {middle:.0f} ms, "
            f"p95 {late:.0f} ms; {_row(own)}",
            flush=True,
        )

    def _compare(self, seconds: float) -> None:
        early, late = (
            _medians([each for now, each in self._samples if a <= now / seconds * 6 <= a + 1])
            for a in (1, 5)
        )
        print(f"second sixth: {_row([early])}\nlast sixth:   {_row([late])}")
        grown, more = late.memory - early.memory, late.descriptors - early.descriptors
        if grown > _GROWTH_MB:
            self.problems.append(f"{grown:.0f} MB more memory of its own than at the beginning")
        if more > _GROWTH_DESCRIPTORS:
            self.problems.append(f"{more:.0f} more descriptors than at the beginning")


if __name__ == "__main__":
    main()
