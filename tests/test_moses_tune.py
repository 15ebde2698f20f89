"""Moses and ``phrasescore tune`` read one another. Needs its programs; run with ``-m moses``."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from moses_integration.moses_ini import load_weights
from phrasescore.evaluation.sentences import read_sentences
from phrasescore.systems.tuning import ListReader
from tests.command_line import run, succeeded, tuned_scores
from tests.extracted_lists import read_extracted

pytestmark = pytest.mark.moses

SENTENCES = 60


CAPTURED: Any = {"capture_output": True, "text": True, "check": True, "timeout": 300}


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} on the PATH")
    return found


def run_tool(folder: Path, name: str, *arguments: str, text: str = "") -> str:
    done = subprocess.run([tool(name), *arguments], cwd=folder, input=text, **CAPTURED)
    return str(done.stdout + done.stderr)


def tune(*arguments: str) -> Result:
    return succeeded(run("tune", *arguments, "--threads", "1"))


class Task:
    """The first sentences of the shipped example, in a folder with Moses' lists of them."""

    def __init__(self, folder: Path, example: Path) -> None:
        self.folder = folder
        for name in ("dev.en", "dev.fr"):
            lines = (example / name).read_text("utf-8").splitlines(keepends=True)
            (folder / name).write_text("".join(lines[:SENTENCES]), "utf-8")
        ini = (example / "moses.ini").read_text("utf-8")
        (folder / "moses.ini").write_text(re.sub(r"path=(?=\w)", f"path={example}/", ini))
        self.decoder = f"{tool('moses')} -f {folder}/moses.ini -threads 1 -v 0"

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def decode(self, ini: str, *options: str) -> str:
        command = [*self.decoder.split()[:2], self.path(ini), *self.decoder.split()[3:], *options]
        with (self.folder / "dev.en").open() as source:
            return str(subprocess.run(command, stdin=source, **CAPTURED).stdout)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    example = Path(__file__).resolve().parent.parent / "examples" / "english-french"
    task = Task(tmp_path_factory.mktemp("task"), example)
    task.decode("moses.ini", "-n-best-list", task.path("nbest"), "50", "distinct")
    return task


def test_lists_are_read_as_the_extractor_reads_them(task: Task) -> None:
    scorer = ["--sctype", "BLEU", "--scconfig", "case:true,reflen:closest"]
    files = ["--ffile", "theirs.f", "--scfile", "theirs.s", "-r", "dev.fr", "-n", "nbest"]
    run_tool(task.folder, "extractor", *scorer, *files)
    theirs = read_extracted(task.path("theirs.f"), task.path("theirs.s"))
    reader = ListReader([read_sentences(task.path("dev.fr")).words])
    ours = reader.read_files([task.path("nbest")])
    assert ours.labels == theirs.labels
    # Moses' lists may hold a hypothesis twice, and ours do not: as sets of lines they are equal.
    for segment in range(SENTENCES):
        lines = []
        for pool in (theirs, ours):
            rows = slice(pool.starts[segment], pool.starts[segment + 1])
            values = pool.features[rows].tolist(), pool.stats[rows].tolist()
            lines.append({(*one, *other) for one, other in zip(*values, strict=True)})
        assert lines[0] == lines[1]


def test_the_loop_with_real_moses_ends_with_the_bleu_that_it_says(task: Task) -> None:
    inputs = ["--source", task.path("dev.en"), "--references", task.path("dev.fr")]
    work = ["--working-dir", task.path("work"), "--nbest-size", "50", "--iterations", "3"]
    result = tune("--decoder", task.decoder, *inputs, *work, "-o", task.path("loop"))
    scores = [float(text) for text in re.findall(r"round \d+: BLEU ([0-9.]+)", result.stderr)]
    assert max(scores) > scores[0]
    assert tuned_scores(result) == f"BLEU {scores[0]:.2f} -> {max(scores):.2f}"
    (task.folder / "best").write_text(task.decode("loop/moses.ini"), "utf-8")
    options = ["--references", task.path("dev.fr"), "--metric", "multi-bleu"]
    measured = run("evaluate", task.path("best"), *options)
    assert measured.stdout.startswith(f"BLEU = {max(scores):.2f}, ")


def test_mert_moses_tunes_an_annotated_table(task: Task) -> None:
    # docs/tune.md: the loop of Moses itself, with one more score in the table.
    perl = shutil.which("mert-moses.pl")
    if perl is None:
        pytest.skip("needs mert-moses.pl on the PATH")
    from tests.doubles import RandomModel

    model = RandomModel(task.folder / "model", ["the", "a", "is"], ["le", "la", "un", "est"])
    columns = ["--model", str(model.path), "--feature", "unknown_words"]
    succeeded(run("annotate", task.path("moses.ini"), *columns, "-o", task.path("new")))
    succeeded(run("export", task.path("new"), "--format", "moses", "-o", task.path("rnn.ini")))
    command = [perl, task.path("dev.en"), task.path("dev.fr"), tool("moses"), task.path("rnn.ini")]
    # It wants all of its tools in one folder, used or not.
    (tools,) = {str(Path(tool(name)).parent) for name in ("mert", "extractor", "kbmira", "pro")}
    command += ["--working-dir", task.path("mert-work"), "--mertdir", tools]
    command += [
        "--no-filter-phrase-table",
        "--decoder-flags",
        "-threads 1 -v 0",
        "--nbest-size",
        "20",
    ]
    command += ["--maximum-iterations", "2", "--predictable-seeds"]
    subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=task.folder)
    weights = load_weights(task.path("mert-work/moses.ini")).lists
    assert len(weights["TranslationModel0"]) == 6
    assert any(weights["TranslationModel0"][4:])
