"""Real Moses loads a table with generated pairs. Needs ``moses``; run with ``-m moses``."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from phrasescore.cli import main
from tests.doubles import RandomModel

pytestmark = pytest.mark.moses

INI = """\
[input-factors]
0
[mapping]
0 T 0
[feature]
UnknownWordPenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={table} input-factor=0 \
output-factor=0
[weight]
UnknownWordPenalty0= 1
TranslationModel0= 0.2 0.2 0.2 0.2
"""


def translate(ini: Path, text: str, folder: Path) -> str:
    """Return the n-best list of a text."""
    moses = shutil.which("moses")
    if moses is None:
        pytest.skip("needs moses on the PATH")
    nbest = folder / "nbest"
    command = [moses, "-f", str(ini), "-v", "0", "-n-best-list", str(nbest), "20"]
    subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60)
    return nbest.read_text()


def test_moses_has_the_new_pairs_with_their_scores_and_their_indicator(tmp_path: Path) -> None:
    model = RandomModel(tmp_path / "model", "uvw", "abcd", seed=8)
    reverse = RandomModel(tmp_path / "reverse", "uvw", "abcd", seed=9, reverse=True)
    table, ini = tmp_path / "table", tmp_path / "moses.ini"
    table.write_text("u ||| x y ||| 0.5 0.5 0.5 0.5 ||| 0-0 0-1 ||| 4 4 4 ||| |||\n")
    ini.write_text(INI.format(table=table))
    new_ini = tmp_path / "new.ini"
    inis = ["--moses-ini", str(ini), "--moses-ini-out", str(new_ini)]
    options = ["--reverse-model", str(reverse.path), "-o", str(tmp_path / "new"), "--threads", "1"]
    arguments = ["generate", str(model.path), "--augment", str(table), *options, *inis]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    before = translate(ini, "u\n", tmp_path)
    assert re.findall(r"\|\|\| (.*?)  \|\|\|", before) == ["x y"]
    found = translate(new_ini, "u\n", tmp_path).splitlines()
    lines = (tmp_path / "new").read_text().splitlines()
    assert len(found) == len(lines) >= 3
    for line in found:
        target = line.split(" ||| ")[1].strip()
        values = [float(v) for v in line.split("TranslationModel0= ")[1].split(" ||| ")[0].split()]
        if target == "x y":
            assert values[4] == 0
            continue
        pair = ("u",), tuple(target.split())
        back, forward = reverse.log_prob(*pair), model.log_prob(*pair)
        assert values == pytest.approx([back, back, forward, forward, 1], abs=1e-4)
