"""Make the Moses model of the example from its corpus: tables, language model, moses.ini.

    python make_model.py [-d DIR] [--lmplz PATH]

Reads train.{en,fr,align}.gz in DIR (the folder of this file by default) and writes beside them
phrase-table.gz, reordering-table.wbe-msd-bidirectional-fe.gz, lm.fr.arpa.gz and moses.ini.
"""

import argparse
import gzip
import shutil
import subprocess
import sys
from pathlib import Path

from make_corpus import write_gzip
from phrase_pairs import SentencePair, extract, parse_links, reordering_lines, table_lines

LM_ORDER = 4
MOSES_INI = """\
# Model of the shipped English-French example. Run Moses in this folder: paths are relative.
[input-factors]
0

[mapping]
0 T 0

[distortion-limit]
6

[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path=phrase-table.gz \
input-factor=0 output-factor=0
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff \
input-factor=0 output-factor=0 path=reordering-table.wbe-msd-bidirectional-fe.gz
Distortion
KENLM name=LM0 factor=0 path=lm.fr.arpa.gz order=4

# Moses' default weights, not tuned.
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0= 0.2 0.2 0.2 0.2
LexicalReordering0= 0.3 0.3 0.3 0.3 0.3 0.3
Distortion0= 0.3
LM0= 0.5
"""


def read_gzip(path: Path) -> list[str]:
    """Return the lines of a gzip file."""
    return gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]


def read_corpus(folder: Path) -> list[SentencePair]:
    """Read the training part with its word alignment."""
    corpus = []
    files = [read_gzip(folder / f"train.{suffix}.gz") for suffix in ("en", "fr", "align")]
    for source, target, links in zip(*files, strict=True):
        corpus.append(SentencePair(source.split(" "), target.split(" "), parse_links(links)))
    return corpus


def language_model(folder: Path, lmplz: str) -> str:
    """Return the ARPA text that KenLM's lmplz makes of the French training side.

    N-grams of three and four words that come once are left out: they would take 0.7 MB.
    """
    result = subprocess.run(
        [lmplz, "-o", str(LM_ORDER), "-S", "20%", "--prune", "0", "0", "1", "--discount_fallback"],
        input=gzip.decompress((folder / "train.fr.gz").read_bytes()),
        stdout=subprocess.PIPE,
        check=True,
    )
    return result.stdout.decode()


def main() -> None:
    """Read the command line and write the model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-d", "--directory", type=Path, default=Path(__file__).parent)
    parser.add_argument("--lmplz", default=shutil.which("lmplz"), help="KenLM's lmplz")
    options = parser.parse_args()
    folder = options.directory
    corpus = read_corpus(folder)
    table = extract(corpus)
    lines = table_lines(corpus, table)
    write_gzip(folder / "phrase-table.gz", "".join(line + "\n" for line in lines))
    text = "".join(line + "\n" for line in reordering_lines(table))
    write_gzip(folder / "reordering-table.wbe-msd-bidirectional-fe.gz", text)
    (folder / "moses.ini").write_bytes(MOSES_INI.encode())
    print(f"{len(corpus)} sentence pairs, {len(lines)} phrase pairs", file=sys.stderr)
    if options.lmplz is None:
        parser.exit(1, "lmplz was not found: give --lmplz PATH; the tables are written\n")
    write_gzip(folder / "lm.fr.arpa.gz", language_model(folder, options.lmplz))


if __name__ == "__main__":
    main()
