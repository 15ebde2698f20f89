"""Run commands in their order, each once: what is done is not repeated, what was killed goes on.

A step has a fingerprint of its command and of the content of its inputs. It is done when it was
run with this fingerprint and its outputs are as it left them; so a changed input or setting
repeats the step, and what reads its outputs, and nothing else. The state is in ``steps.json``,
replaced as a whole before and after each step.

Every command writes its outputs whole or not at all, and a step begins by removing those that an
older run left. Outputs that are there when a run was killed are therefore complete.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from phrasescore.cli.fingerprints import Fingerprints, digest
from phrasescore.errors import DataError, PhrasescoreError
from phrasescore.folders import remove_folder
from phrasescore.text import open_output

STATE = "steps.json"
LOGS = "logs"
# What stands first in a command of this package, as a user would type it.
PHRASESCORE = "phrasescore"
# How it is run here, wherever it is installed.
LAUNCHER = (sys.executable, "-m", "phrasescore.cli")
# Seconds between two lines about a step that is still running.
REPORT_EVERY = 60.0

_FORMAT = 1
# The exit code of a command that Ctrl-C has stopped.
_INTERRUPTED = 130
# Lines of a log that a message shows, and bytes of it that are looked at.
_TAIL_LINES = 8
_TAIL_BYTES = 8192


@dataclass(frozen=True)
class Step:
    """A command, with what it reads and writes."""

    # Unique; the name of its log, with dots for blanks.
    name: str
    command: tuple[str, ...]
    # Files and folders, all that the outputs depend on.
    inputs: tuple[Path, ...]
    # Files and folders that are there when it is done.
    outputs: tuple[Path, ...]
    # More of the command when it goes on with a run that was killed.
    resume: tuple[str, ...] = ()
    # Files and folders that such a run leaves; removed where there is nothing to go on with.
    partial: tuple[Path, ...] = ()
    # Called before the command is run, to write what it reads and no user has made.
    prepare: Callable[[], None] = field(default=lambda: None, compare=False)

    def shown(self) -> str:
        """Return the command as a user could type it."""
        return shlex.join(self.command)


class StepRunner:
    """Knows which steps are done in a folder, and runs the others.

    :param folder: where the state and the logs are; no one else works in it.
    :param say: gets the lines about what is run.
    :param lock: a descriptor that commands inherit: of a run that was killed, the command may
        still be at work.
    :param written: files that are not made by a step, see `write_files`.
    """

    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None],
        *,
        launcher: Sequence[str] = LAUNCHER,
        lock: int | None = None,
        written: Mapping[Path, bytes] = MappingProxyType({}),
    ) -> None:
        self._folder = folder
        self._say = say
        self._launcher = tuple(launcher)
        self._kept_open = () if lock is None else (lock,)
        state = _read_state(folder / STATE)
        self._steps: dict[str, dict[str, Any]] = state["steps"]
        self._written = dict(written)
        self._files = Fingerprints(state["files"], self._written)

    def write_files(self) -> None:
        """Write the files that no step makes, where they are not there already."""
        for path, content in self._written.items():
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                with open_output(str(path)) as stream:
                    stream.write(content)

    def key(self, step: Step) -> str:
        """Return the fingerprint of a step.

        :raises DataError: if one of its inputs is not there.
        """
        inputs = [[str(path), self._files.of(path)] for path in step.inputs]
        return digest(json.dumps([step.command, inputs]))

    def is_done(self, step: Step) -> bool:
        """Return whether a step need not be run."""
        known = self._steps.get(step.name, {})
        if "done" not in known:
            return False
        try:
            if known["done"] != self.key(step):
                return False
            return all(known["outputs"][str(path)] == self._files.of(path) for path in step.outputs)
        except (DataError, KeyError):
            return False

    def done(self, steps: Sequence[Step]) -> list[bool]:
        """Return for each step whether it is done, and will stay so when those before it have run.

        A step that reads what another one is going to write is not done.
        """
        found: list[bool] = []
        unknown: set[Path] = set()
        for step in steps:
            found.append(not _reads(step, unknown) and self.is_done(step))
            if not found[-1]:
                unknown.update(step.outputs)
        return found

    def seconds(self, step: Step) -> float | None:
        """Return how long a step took, None where it was never run to its end."""
        found = self._steps.get(step.name, {}).get("seconds")
        return None if found is None else float(found)

    def run(self, step: Step, position: str) -> bool:
        """Run a step unless it is done; return whether it was run.

        :param position: which step of how many, for messages.
        :raises PhrasescoreError: if the command fails, with the end of its log.
        :raises KeyboardInterrupt: if it was interrupted.
        """
        if self.is_done(step):
            return False
        key = self.key(step)
        known = self._steps.setdefault(step.name, {})
        goes_on = known.get("begun") == key and "done" not in known
        if not (goes_on and all(path.exists() for path in step.outputs)):
            before = float(known.get("spent", 0.0)) if goes_on else 0.0
            command = step.command
            if goes_on:
                command += step.resume
            else:
                for path in (*step.outputs, *step.partial):
                    _remove(path)
            self._steps[step.name] = {"begun": key, "spent": before}
            self._write()
            self._say(f"{position}: {step.name}{' goes on' if goes_on else ''}")
            self._say(f"$ {shlex.join(command)}")
            self._execute(step, command, before)
        self._finish(step, key)
        return True

    def _execute(self, step: Step, command: Sequence[str], before: float) -> None:
        """Run a command to its end; the time is kept, whatever the end."""
        for path in (*step.outputs, *step.partial):
            path.parent.mkdir(parents=True, exist_ok=True)
        step.prepare()
        log = self._folder / LOGS / f"{re.sub('[ /]', '.', step.name)}.log"
        log.parent.mkdir(exist_ok=True)
        start = time.monotonic()
        try:
            code = self._wait(step, command, log)
        except BaseException:
            self._discard(step)  # some commands write what they have when they are interrupted
            raise
        finally:
            self._steps[step.name]["spent"] = before + time.monotonic() - start
            self._write()
        if code != 0:
            self._discard(step)
            if code == _INTERRUPTED:
                raise KeyboardInterrupt
            how = f"ended with exit code {code}" if code > 0 else f"was killed by signal {-code}"
            problem = f"{step.name} {how} (log: {log}): {_tail(log)}"
            if before and step.partial and step.resume:
                # As where an older version began it, whose state this one does not take.
                there = " and ".join(str(path) for path in step.partial if path.exists())
                problem += f" | to begin this step anew, remove {there}" if there else ""
            raise PhrasescoreError(problem)
        missing = [str(path) for path in step.outputs if not path.exists()]
        if missing:
            raise PhrasescoreError(f"{step.name} wrote no {missing[0]} (log: {log}): {_tail(log)}")

    def _wait(self, step: Step, command: Sequence[str], log: Path) -> int:
        """Run a command, its output in a log, and say now and then how it goes."""
        words = [self._launched(word) for word in command]
        if words[0] == PHRASESCORE:
            words[:1] = self._launcher
        with log.open("ab") as output:
            output.write(f"$ {shlex.join(command)}\n".encode(errors="surrogateescape"))
            output.flush()
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=self._kept_open,
                    process_group=0,
                )
            except OSError as error:
                problem = f"cannot run {words[0]!r}: {error.strerror}"
                raise PhrasescoreError(f"{step.name}: {problem}") from error
            start = time.monotonic()
            while True:
                try:
                    return process.wait(timeout=REPORT_EVERY)
                except subprocess.TimeoutExpired:
                    minutes = (time.monotonic() - start) / 60
                    self._say(f"{step.name}: {minutes:.0f} min: {_tail(log, 1)}")
                except BaseException:
                    _stop(process)
                    raise

    def _launched(self, word: str) -> str:
        """Return an argument, which may itself be a command of this package."""
        if not word.startswith(f"{PHRASESCORE} "):
            return word
        return shlex.join(self._launcher) + word.removeprefix(PHRASESCORE)

    def _discard(self, step: Step) -> None:
        for path in step.outputs:
            _remove(path)

    def _finish(self, step: Step, key: str) -> None:
        known = self._steps[step.name]
        known["done"] = key
        known["seconds"] = round(known.pop("spent", 0.0), 1)
        known["outputs"] = {str(path): self._files.of(path) for path in step.outputs}
        self._write()

    def _write(self) -> None:
        state = {"format": _FORMAT, "steps": self._steps, "files": self._files.known}
        with open_output(str(self._folder / STATE)) as stream:
            stream.write((json.dumps(state, indent=1) + "\n").encode())


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Stop a command and what it has started, as Ctrl-C does: it saves what it has done."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(timeout=REPORT_EVERY)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _reads(step: Step, paths: set[Path]) -> bool:
    return any(path == other or path in other.parents for path in paths for other in step.inputs)


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["format"] != _FORMAT or not isinstance(state["steps"], dict):
            raise ValueError(f"format {state['format']}")
        return {"steps": state["steps"], "files": dict(state["files"])}
    except FileNotFoundError:
        return {"steps": {}, "files": {}}
    except (ValueError, TypeError, KeyError) as error:
        problem = f"expected the state of an experiment of this version, found {error!r}"
        raise DataError(str(path), None, f"{problem}; name another folder") from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_folder(path)
        return
    with suppress(FileNotFoundError):
        os.unlink(path)


def _tail(log: Path, lines: int = _TAIL_LINES) -> str:
    """Return the end of a log in one line."""
    return " | ".join(list(_log_lines(log))[-lines:]) or "it said nothing"


def _log_lines(log: Path) -> Iterator[str]:
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        text = stream.read().decode(errors="replace")
    for line in text.replace("\r", "\n").split("\n"):
        if line.strip() and not line.startswith("$ "):
            yield line.strip()
