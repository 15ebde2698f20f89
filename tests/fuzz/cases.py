"""Damage a file, run the command that reads it, and judge what becomes of it.

A case is a subject and a number, from which everything follows. A command either refuses the file
(exit 1 or 2, one line of error, which begins with a file's name; nothing is written) or takes it,
and then what it writes is whole. It ends within 60 seconds of the processor.
"""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from phrasescore.errors import show_controls
from phrasescore.io.journal import digest_file, digest_text
from tests.fuzz.arena import Arena, Outcome
from tests.fuzz.mutations import mutate
from tests.fuzz.subjects import SUBJECTS, Subject

# Commands whose stdout is for a terminal.
_REPORTS = ("evaluate", "perplexity")


def run_case(arena: Arena, name: str, number: int) -> str | None:
    """Return what should not have happened in a case, if anything."""
    subject = SUBJECTS[name]
    damaged = _damage(arena, subject, f"{name}:{number}")
    problem = _problem(arena, subject, damaged, arena.run(subject.words))
    arena.restore()
    return problem and f"{name}, case {number}: {damaged}: {problem}"


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
        r"|Error: the n-best list:\d+: "  # of a decoder, which the error names
        r"|Error: /dev/null:\d+: "  # that a damaged plan may name
        # CTranslate2 does not check that a vocabulary fits the weights.
        r"|Error: \w+: the log-probability of .* is nan, in the block"
    )
    if not named and not re.search(others, errors[0]):
        return f"the error begins with no file: {errors[0]!r}"
    return None
