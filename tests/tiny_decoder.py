"""A decoder for tests: a program that translates by looking at the references.

Candidates of a sentence are the reference with some words spoilt. ``Good0`` counts the words that
are right, and has noise; ``Bad0`` has two values of noise. ``Edit0_x`` is sparse: some candidates
have it. It takes weights as Moses does, from a moses.ini and an option, or from a file of
``Name= value`` lines.
"""

import argparse
import random
import sys
from pathlib import Path


def candidates(number: int, reference: list[str]) -> list[tuple[str, dict[str, list[float]]]]:
    """Return the text and the features of each candidate, the same at each call."""
    numbers = random.Random(number)
    found = []
    for spoilt in range(12):
        words = list(reference)
        for place in numbers.sample(range(len(words)), k=min(spoilt // 3, len(words))):
            words[place] = numbers.choice(["xa", "xb", "xc"])
        right = sum(one == other for one, other in zip(words, reference, strict=True))
        features = {
            "Good0": [right + numbers.gauss(0, 1)],
            "Bad0": [numbers.gauss(0, 2), numbers.gauss(0, 2)],
        }
        if numbers.random() < 0.3:
            features["Edit0_x"] = [1.0]
        found.append((" ".join(words), features))
    return found


def read_weights(text: str) -> dict[str, list[float]]:
    """Return weights of ``Name= v v Name= v``, however they are split into lines."""
    weights: dict[str, list[float]] = {}
    for word in text.split():
        if word.endswith("="):
            latest = weights.setdefault(word[:-1], [])
        else:
            latest.append(float(word))
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--references", type=Path, required=True)
    parser.add_argument("--mood", type=Path, help="a file that says what goes wrong")
    parser.add_argument("-f", "--ini", type=Path)
    parser.add_argument("-weight-overwrite", "--weights", dest="weights", default="")
    parser.add_argument("--weights-file", type=Path)
    parser.add_argument("-n-best-list", "--nbest", dest="nbest", nargs="+", required=True)
    given = parser.parse_args()
    weights = {}
    if given.ini:
        section = given.ini.read_text().partition("[weight]\n")[2].partition("[")[0]
        weights = read_weights(section)
    if given.weights_file:
        weights = read_weights(given.weights_file.read_text())
    weights |= read_weights(given.weights)
    mood = given.mood.read_text().strip() if given.mood and given.mood.exists() else ""
    references = given.references.read_text().splitlines()
    sources = sys.stdin.read().splitlines()
    sys.stderr.write("decoder: reading the model\n")
    if mood == "die":
        sys.stderr.write("decoder: no such table\n")
        sys.exit(7)
    lines: list[str] = []
    for number in range(len(sources) - (mood == "fewer")):
        scored = []
        for text, features in candidates(number, references[number].split()):
            total, fields = 0.0, ""
            for name, values in features.items():
                fields += f"{name}= {' '.join(f'{value:.6g}' for value in values)} "
                for place, value in enumerate(values):
                    total += weights[name][place] * value if name in weights else 0.0
            scored.append((total, f"{number} ||| {text}  ||| {fields}||| {total:.6g}\n"))
        scored.sort(key=lambda pair: -pair[0])
        lines.extend(line for _, line in scored[: int(given.nbest[1])])
    if mood == "silent":
        return
    text = "".join(lines)
    Path(given.nbest[0]).write_text(text[:-3] if mood == "cut" else text)


if __name__ == "__main__":
    main()
