"""A small system as texts: a phrase table, an n-gram model, a moses.ini, and two networks."""

import math
import sys
from pathlib import Path

from phrasescore.models.checkpoint import save_checkpoint
from tests.doubles import RandomCslm
from tests.random_networks import RandomNetwork

INI = """\
[input-factors]
0
[mapping]
0 T 0
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty tuneable=false
PhraseDictionaryMemory name=TM0 num-features=2 path=table input-factor=0 output-factor=0
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2
[distortion-limit]
2
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -0.5
PhrasePenalty0= 0.25
TM0= 1 0
Distortion0= 1
LM0= 0.5
"""
OWN_WEIGHTS = "WordPenalty0= -0.5\nTM0= 1 0\nDistortion0= 1\nLM0= 0.5\n"  # of INI
TABLE = """\
la maison ||| the house ||| 0.25 1 ||| 0-0 1-1
maison ||| home ||| 0.5 1 ||| 0-0
maison ||| house ||| 0.25 0.5 ||| 0-0
la ||| the ||| 0.5 1 ||| 0-0
bleue maison ||| blue house ||| 0.5 1 ||| 0-0 1-1
"""
LM = "\\data\\\nngram 1=6\nngram 2=1\n\n\\1-grams:\n-3\t<unk>\n-1\t<s>\n-1\t</s>\n-1\tthe\n"
LM += "-2\thome\n-1.5\thouse\n\n\\2-grams:\n-0.5\thome home\n\n\\end\\\n"
# "la maison", by hand: one phrase, two words, and </s>.
VALUES = {
    "Distortion0": (0.0,),
    "LM0": (-3.5 * math.log(10),),
    "WordPenalty0": (-2.0,),
    "TM0": (math.log(0.25), 0.0),
}
TEXT = "la maison\n\nmaison xyz la bleue maison\nla la maison bleue\n"
WEIGHTS = """\
[search]
WordPenalty0= -0.5
TM0= 1 0
Distortion0= 1
LM0= 0.5
CSLM0= 0.25
[lists]
WordPenalty0= -0.25
TM0= 0.5 0.5
Distortion0= 1
LM0= 0.25
CSLM0= 0.5
RNNsearch0= 3
UnknownWords0= -0.5
"""
CONFIDENCE = "confidence = { scale = 0.5, slope = 2.0, offset = 1.0 }"
LISTS = 'lists = [{ model = "rnnsearch" }, { feature = "unknown_words" }]'
SYSTEM = f"""\
moses_ini = "moses.ini"
weights = "weights"
nbest_size = 9
{CONFIDENCE}
limits = {{ stack = 30 }}
search = [{{ model = "cslm" }}]
{LISTS}
"""

CHARACTER_TABLE = """\
&apos; ||| &apos; ||| 1 1 ||| 0-0
a ||| a ||| 0.5 1 ||| 0-0
a ||| e ||| 0.25 1 ||| 0-0
l ||| l ||| 0.5 1 ||| 0-0
l a ||| l o ||| 0.25 1 ||| 0-0 1-1
m ||| m ||| 0.5 1 ||| 0-0
m \u2581 ||| \u2581 ||| 0.25 1 ||| 1-0
\u2581 ||| \u2581 ||| 0.5 1 ||| 0-0
\u2581 ||| \u2581 \u2581 ||| 0.5 1 ||| 0-0 0-1
"""
CHARACTER_LM = """\
\\data\\
ngram 1=9
ngram 2=1

\\1-grams:
-3\t<unk>
-1\t<s>
-1\t</s>
-1\ta
-1.25\te
-1\tl
-1\tm
-1.5\to
-0.5\t\u2581

\\2-grams:
-0.5\tl a

\\end\\
"""
CHARACTERS = "# phrasescore: characters = true\n"
CHARACTER_TEXT = "la ma&apos;l\n\nalx\nlam lam al\n"

# A stand-in for Moses: it writes each line in capitals, and its arguments into a file; or the lists
# in the file "lists", if there is one.
MOSES = """\
#!{python}
import os, sys
given = sys.argv[1:]
with open("arguments", "w") as file:
    file.write(" ".join(given))
with open(given[given.index("-f") + 1]) as ini, open("given.ini", "w") as copy:
    copy.write(ini.read())
if "fail" in given[given.index("-threads") - 1] or os.path.exists("fail"):
    sys.exit("cannot load the table")
lines = sys.stdin.read().splitlines()
with open(given[given.index("-n-best-list") + 1], "w") as file:
    for number, line in enumerate(lines[: 1 if os.path.exists("fewer") else None]):
        print(line.upper() + " ")
        for end in {ends}:
            file.write(f"{{number}} ||| {{(line + end).upper()}}  ||| LM0= -1 ||| -1\\n")
if os.path.exists("lists"):
    with open("lists") as lists, open(given[given.index("-n-best-list") + 1], "w") as file:
        file.write(lists.read())
"""


def write_system(folder: Path, *, networks: bool = True) -> Path:
    """Write the system's files and a text, ``source``; return the folder."""
    texts = {"table": TABLE, "lm.arpa": LM, "moses.ini": INI, "source": TEXT}
    if networks:
        texts |= {"weights": WEIGHTS, "system.toml": SYSTEM}
        RandomCslm(["the", "house", "home"], order=3, path=folder / "cslm")
        network = RandomNetwork("rnnsearch", ["la", "maison"], ["the", "house", "home"])
        save_checkpoint(folder / "rnnsearch", network.checkpoint)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


def write_characters(folder: Path) -> Path:
    """Write the files of a system of characters and a text, ``source``; return the folder."""
    texts = {"table": CHARACTER_TABLE, "lm.arpa": CHARACTER_LM, "source": CHARACTER_TEXT}
    for name, text in (texts | {"moses.ini": CHARACTERS + INI}).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def write_moses(folder: Path, ends: tuple[str, ...] = ("",)) -> Path:
    """Write the stand-in for Moses into the folder ``bin``; return the program.

    :param ends: what follows each line in the hypotheses of its list.
    """
    program = folder / "bin" / "moses"
    program.parent.mkdir(exist_ok=True)
    program.write_text(MOSES.format(python=sys.executable, ends=repr(ends)), encoding="utf-8")
    program.chmod(0o755)
    return program
