"""A small language for real experiments: ten words, and a phrase table that knows them."""

import random
from pathlib import Path

INI = """\
[feature]
UnknownWordPenalty
WordPenalty
PhraseDictionaryMemory name=TM0 num-features=1 path=table
Distortion
KENLM name=LM0 factor=0 path=lm.arpa
[distortion-limit]
2
[weight]
WordPenalty0= -0.1
TM0= 1
Distortion0= 0.1
LM0= 0.1
"""


def write_language(folder: Path, pairs: int = 60) -> None:
    """Write a system and texts to a folder.

    Words ``s3`` mean ``t3``; the table has another translation of each, a likelier one.
    """
    numbers = random.Random(1)
    for name, size in (("train", pairs), ("dev", 12), ("test", 12)):
        sentences = [numbers.choices(range(10), k=numbers.randint(3, 7)) for _ in range(size)]
        for side in "st":
            lines = (" ".join(f"{side}{word}" for word in words) for words in sentences)
            (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    table = []
    for word in range(10):
        table.append(f"s{word} ||| t{word} ||| 0.4 ||| 0-0 ||| 1 1 1\n")
        table.append(f"s{word} ||| t{(word + 3) % 10} x ||| 0.5 ||| 0-0 ||| 1 1 1\n")
    (folder / "table").write_text("".join(sorted(table)))
    grams = "".join(f"-1\tt{word}\n" for word in range(10))
    lm = f"\\data\\\nngram 1=14\nngram 2=1\n\n\\1-grams:\n-3\t<unk>\n-1\t<s>\n-1\t</s>\n{grams}"
    (folder / "lm.arpa").write_text(f"{lm}-4\tx\n\n\\2-grams:\n-0.5\tt1 t1\n\n\\end\\\n")
    (folder / "moses.ini").write_text(INI)
