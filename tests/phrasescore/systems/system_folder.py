"""A folder with a small system: two networks, a table and an n-gram model."""

from pathlib import Path

from phrasescore.models.checkpoint import save_checkpoint
from tests.doubles import RandomCslm
from tests.random_networks import RandomNetwork

INI = """\
[feature]
UnknownWordPenalty
WordPenalty
PhraseDictionaryMemory name=TM0 num-features=2 path=table
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2
[distortion-limit]
2
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -0.5
TM0= 1 0.25
Distortion0= 1
LM0= 0.5
"""
WEIGHTS = """\
[search]
WordPenalty0= -0.5
TM0= 1 0.25
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
LengthRatio0= -0.5
"""
SYSTEM = """\
moses_ini = "moses.ini"
weights = "weights"
search = [{ model = "cslm" }]
lists = [{ model = "rnnsearch" }, { feature = "length_ratio" }]
nbest_size = 9
limits = { stack = 30 }
"""
TABLE = """\
la maison ||| the house ||| 0.25 1 ||| 0-0 1-1
maison ||| home ||| 0.5 1 ||| 0-0
la ||| the ||| 0.5 1 ||| 0-0
"""
LM = "\\data\\\nngram 1=6\nngram 2=1\n\n\\1-grams:\n-3\t<unk>\n-1\t<s>\n-1\t</s>\n-1\tthe\n"
LM += "-2\thome\n-1.5\thouse\n\n\\2-grams:\n-0.5\thome home\n\n\\end\\\n"


def write_folder(folder: Path) -> Path:
    """Write the system's files; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"moses.ini": INI, "weights": WEIGHTS, "system.toml": SYSTEM}
    for name, text in (texts | {"table": TABLE, "lm.arpa": LM}).items():
        (folder / name).write_text(text)
    RandomCslm(["the", "house", "home"], order=3, path=folder / "cslm")
    network = RandomNetwork("rnnsearch", ["la", "maison"], ["the", "house", "home"])
    save_checkpoint(folder / "rnnsearch", network.checkpoint)
    return folder
