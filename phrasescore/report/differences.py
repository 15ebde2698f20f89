"""The section "Where systems differ": sentences with marked words, n-grams, and all sentences.

Matching n-grams are marked as in MT-ComparEval (Klejch et al., 2015), and n-grams are compared as
in compare-mt (Neubig et al., 2019).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from phrasescore.errors import show_controls
from phrasescore.evaluation.comparison import Comparison
from phrasescore.report.blocks import (
    Block,
    MarkedGroup,
    MarkedLine,
    MarkedSentence,
    MarkedTexts,
    Section,
    Table,
    shown,
)
from phrasescore.report.inputs import MadeSection, ReportInputs

Words = Sequence[str]

MOST_SENTENCES = 10  # with the largest gains of a system, and with its largest losses
MOST_NGRAMS = 8  # that a system translates correctly more often, and less often
LONGEST = 4  # words in an n-gram, as in BLEU

_LEAD = """\
Sentence BLEU is smoothed: one is added to the matching and to all n-grams for n from 2 to 4 (Lin \
and Och, 2004), and a translation without a matching word scores 0. It helps to choose what to \
read, but it is not a reliable measure of a single translation."""

_NGRAM_CAPTION = (
    "Sequences of 1 to 4 words, by how often they match a reference. Parts of a longer sequence "
    "with the same counts are left out."
)


def differences(inputs: ReportInputs) -> MadeSection:
    """Return the sentences and n-grams in which systems differ from the first one."""
    comparison = inputs.comparison
    scores = comparison.sentence_scores()
    ngrams = _matching_ngrams(comparison)
    blocks: list[Block] = []
    if groups := tuple(_marked_groups(comparison, scores)):
        title, first = "The sentences that differ most", comparison.systems[0].name
        blocks.append(MarkedTexts("differences-sentences", title, first, groups))
    for index in range(1, len(scores)):
        blocks += _ngram_table(comparison, index, ngrams)
    # The results say that systems are equal: only who asks for the section needs to be told.
    if not blocks and "differences" in inputs.only:
        return MadeSection(None, ["all systems have the same matches with the references"])
    return MadeSection(Section("differences", "Where systems differ", _LEAD, tuple(blocks)))


def _marked_groups(
    comparison: Comparison, scores: Sequence[Sequence[float]]
) -> Iterator[MarkedGroup]:
    """Yield the sentences in which each system gains most, and loses most, each sentence once."""
    first, *others = comparison.systems
    seen: set[int] = set()
    for system, own in zip(others, scores[1:], strict=True):
        gains = [after - before for before, after in zip(scores[0], own, strict=True)]
        for sign, change, verb in (
            (1, "gains", f"gains most over {first.name}"),
            (-1, "losses", f"loses most against {first.name}"),
        ):
            found = [at for at, gain in enumerate(gains) if sign * gain > 0]
            if not found:
                continue
            # sorted() is stable: of equal gains, the earlier sentence comes first.
            best = sorted(found, key=lambda at: -abs(gains[at]))[:MOST_SENTENCES]
            caption = f"Sentences with {change}: {len(found):,}."
            if len(found) > MOST_SENTENCES:
                caption += f" The {MOST_SENTENCES} largest {change} are shown."
            if above := ", ".join(f"{at + 1:,}" for at in best if at in seen):
                caption += f" Shown above: {above}."
            marked = [
                _marked_sentence(comparison, at, [line[at] for line in scores])
                for at in best
                if at not in seen
            ]
            seen.update(best)
            yield MarkedGroup(f"Where {system.name} {verb}", tuple(marked), caption)


def _marked_sentence(comparison: Comparison, at: int, scores: Sequence[float]) -> MarkedSentence:
    references = [text.words[at] for text in comparison.references]
    texts = [] if comparison.source is None else [("source", comparison.source.words[at])]
    names = ["reference"]
    if len(references) > 1:
        names = [f"reference {number}" for number in range(1, len(references) + 1)]
    texts += zip(names, references, strict=True)
    first = comparison.systems[0].text.words[at]
    lines = []
    for system, score in zip(comparison.systems, scores, strict=True):
        words = system.text.words[at]
        lines.append(
            MarkedLine(
                name=system.name,
                score=round(score, 2),
                words=tuple(_plain(word) for word in words),
                matches=tuple(mark_matches(words, references)),
                differs=tuple(mark_differences(words, first)),
            )
        )
    shown_texts = tuple((name, " ".join(map(_plain, words))) for name, words in texts)
    return MarkedSentence(at + 1, shown_texts, tuple(lines))


def _plain(word: str) -> str:
    return show_controls(shown([word]))


def mark_matches(words: Words, references: Sequence[Words]) -> list[int]:
    """Return the length of the longest matching n-gram that contains each word; 0 for none.

    As in BLEU, an n-gram (n from 1 to 4) matches at most as often as it occurs in one reference. If
    it occurs more often in the translation, occurrences inside longer matches are marked first,
    then earlier ones.
    """
    most = _count_ngrams_of_any(references)
    matches = [0] * len(words)
    for length in range(LONGEST, 0, -1):
        left = most.copy()
        starts = range(len(words) - length + 1)
        for start in sorted(starts, key=lambda at: -min(matches[at : at + length])):
            ngram = tuple(words[start : start + length])
            if not left[ngram]:
                continue
            left[ngram] -= 1
            for at in range(start, start + length):
                matches[at] = max(matches[at], length)
    return matches


def mark_differences(words: Words, others: Words) -> list[bool]:
    """Return for each word whether it is missing at this place in another translation."""
    differs = [True] * len(words)
    for _, start, length in SequenceMatcher(None, others, words).get_matching_blocks():
        differs[start : start + length] = [False] * length
    # The matcher ignores words that are frequent in a long text.
    return differs if tuple(words) != tuple(others) else [False] * len(words)


def _count_ngrams_of_any(texts: Sequence[Words]) -> Counter[tuple[str, ...]]:
    most: Counter[tuple[str, ...]] = Counter()
    for words in texts:
        most |= _count_ngrams(words)
    return most


def _count_ngrams(words: Words) -> Counter[tuple[str, ...]]:
    return Counter(
        tuple(words[start : start + length])
        for length in range(1, LONGEST + 1)
        for start in range(len(words) - length + 1)
    )


def _matching_ngrams(comparison: Comparison) -> list[Counter[tuple[str, ...]]]:
    found: list[Counter[tuple[str, ...]]] = [Counter() for _ in comparison.systems]
    for at in range(len(comparison.references[0].words)):
        most = _count_ngrams_of_any([text.words[at] for text in comparison.references])
        for matches, system in zip(found, comparison.systems, strict=True):
            matches.update(_count_ngrams(system.text.words[at]) & most)
    return found


def _ngram_table(
    comparison: Comparison, index: int, ngrams: Sequence[Counter[tuple[str, ...]]]
) -> Iterator[Table]:
    """Yield a table of the n-grams that a system matches more often, or less often, if any."""
    baseline, system = comparison.systems[0].name, comparison.systems[index].name
    before, after = ngrams[0], ngrams[index]
    differences = {ngram: after[ngram] - before[ngram] for ngram in before | after}
    rows = []
    for sign in (1, -1):
        found = [ngram for ngram, difference in differences.items() if sign * difference > 0]
        found.sort(key=lambda ngram: (-abs(differences[ngram]), -len(ngram), ngram))
        chosen: list[tuple[str, ...]] = []
        for ngram in found:
            if len(chosen) == MOST_NGRAMS:
                break
            # A part of a longer n-gram with the same counts says nothing new.
            if not any(
                _is_part(ngram, other)
                and (before[ngram], after[ngram]) == (before[other], after[other])
                for other in chosen
            ):
                chosen.append(ngram)
        rows += chosen
    if rows:
        yield Table(
            f"differences-{index}-ngrams",
            f"What {system} translates correctly more often, and less often, than {baseline}",
            ("words", f"correct in {baseline}", f"correct in {system}", "difference"),
            tuple(
                (" ".join(map(_plain, ngram)), before[ngram], after[ngram], differences[ngram])
                for ngram in rows
            ),
            _NGRAM_CAPTION,
        )


def _is_part(ngram: Words, other: Words) -> bool:
    starts = range(len(other) - len(ngram) + 1)
    return any(tuple(other[at : at + len(ngram)]) == tuple(ngram) for at in starts)
