"""A small task of n-best lists: words to translate one by one, and translations with mistakes."""

import random
from collections.abc import Collection, Mapping
from pathlib import Path

from moses_integration.nbest_lines import feature_span, split_feature
from phrasescore.models.checkpoint import save_checkpoint
from tests.doubles import RandomCslm, RandomJoint, RandomModel
from tests.random_networks import RandomNetwork

SOURCE_WORDS = [f"s{number}" for number in range(6)]
TARGET_WORDS = [f"t{number}" for number in range(6)]
DECODER = ("LM0", "TranslationModel0")
WEIGHTS = {"LM0": (1.0,), "TranslationModel0": (0.5, 1.0), "Network0": (1.0,)}


class ListTask:
    """Lists of sentences whose word ``s3`` is ``t3``, with references, weights and a network.

    The decoder's scores say nothing: only the network can learn that ``t5`` is always wrong. A list
    has the reference and hypotheses in which words are ``t5``, each twice, the second time with
    less score. The first two words are a phrase, and so is each of the others; they are aligned
    from left to right, but for the second word, which is aligned with the first two.

    :param kind: of the network, which has random weights.
    """

    def __init__(self, folder: Path, kind: str, *, sentences: int = 40, seed: int = 1) -> None:
        generator = random.Random(seed)
        self.folder = folder
        self.lists, self.source, self.references, self.weights, self.model = (
            folder / name for name in ("nbest", "source", "references", "weights", "start")
        )
        self.alignments = folder / "alignments"
        sources, references, alignments, lines = [], [], [], []
        for number in range(sentences):
            words = [generator.randrange(5) for _ in range(generator.randint(4, 6))]
            sources.append(" ".join(f"s{word}" for word in words))
            references.append(" ".join(f"t{word}" for word in words))
            hypotheses = [references[-1]]
            for mistakes in (1, 2, 3, 4):
                changed = list(words)
                for place in generator.sample(range(len(words)), mistakes):
                    changed[place] = 5
                hypotheses.append(" ".join(f"t{word}" for word in changed))
            generator.shuffle(hypotheses)
            alignments.append(" ".join(["0-1", *(f"{at}-{at}" for at in range(len(words)))]))
            phrases = " ".join(["0-1=0-1", *(f"{at}={at}" for at in range(2, len(words)))])
            for hypothesis in hypotheses:
                score = -generator.random()
                for loss in (0, 1):
                    lines.append(
                        f"{number} ||| {hypothesis}  ||| LM0= {score - loss} "
                        f"TranslationModel0= -1 -9 ||| {score} ||| {phrases} "
                        f"||| {alignments[-1]}\n"
                    )
        self.lists.write_text("".join(lines))
        self.source.write_text("".join(f"{line}\n" for line in sources))
        self.references.write_text("".join(f"{line}\n" for line in references))
        self.alignments.write_text("".join(f"{line}\n" for line in alignments))
        own = FEATURES[kind]
        self.write_weights({name: row for name, row in WEIGHTS.items() if name in (own, *DECODER)})
        if kind == "encoder-decoder":
            RandomModel(self.model, SOURCE_WORDS, TARGET_WORDS)
        elif kind == "cslm":
            RandomCslm(TARGET_WORDS, path=self.model)
        elif kind == "joint":
            RandomJoint(SOURCE_WORDS, TARGET_WORDS, path=self.model)
        else:
            network = RandomNetwork(kind, SOURCE_WORDS, TARGET_WORDS)
            save_checkpoint(self.model, network.checkpoint)

    def write_weights(self, weights: Mapping[str, tuple[float, ...]]) -> None:
        lines = [f"{name}= {' '.join(map(repr, row))}\n" for name, row in weights.items()]
        self.weights.write_text("".join(lines))

    def arguments(self, kind: str, output: str = "model") -> list[str]:
        """Return those of ``phrasescore``, without the network's feature and limits."""
        files = ["lists", "source", "references", "weights"]
        files += ["alignments"] if kind == "joint" else []
        return [
            *("train", kind, "--objective", "bleu", "-o", str(self.folder / output)),
            *("--from", str(self.model)),
            *(word for name in files for word in (f"--{name}", str(getattr(self, name)))),
            *("--feature", FEATURES[kind], "--threads", "1", "--device", "cpu"),
        ]


FEATURES = {"encoder-decoder": "TranslationModel0_1"}
FEATURES |= dict.fromkeys(("rnnsearch", "cslm", "grconv", "joint", "lstm"), "Network0")


def remove_features(raw: bytes, names: Collection[str]) -> bytes:
    """Return a line without the named features, byte for byte as before they were added.

    >>> remove_features(b"0 ||| la  ||| LM0= -2 LSTM0= -1.25 ||| -3.5", ["LSTM0"])
    b'0 ||| la  ||| LM0= -2 ||| -3.5'
    """
    start, end = feature_span(raw)
    kept = []
    is_removed = False
    for token in raw[start:end].split(b" "):
        name, style, _ = split_feature(token)
        if style:
            is_removed = name.decode() in names
        if not is_removed:
            kept.append(token)
    return raw[:start] + b" ".join(kept) + raw[end:]
