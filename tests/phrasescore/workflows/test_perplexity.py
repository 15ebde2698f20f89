"""``phrasescore.perplexity`` as a library function; the command's tests have the figures."""

from pathlib import Path

import phrasescore
from phrasescore.progress import Progress
from phrasescore.settings.compute import Compute
from tests.doubles import RandomCslm


def test_results_are_in_the_order_of_the_texts_and_each_model_s_sentences_are_counted(
    tmp_path: Path,
) -> None:
    RandomCslm("uvw", path=tmp_path / "cslm")
    for name, text in (("one", "u v\nw\n"), ("two", "u\n")):
        (tmp_path / name).write_text(text)
    seen: list[Progress] = []
    paths = [tmp_path / "one", tmp_path / "two"]
    done = phrasescore.perplexity(
        paths, model=tmp_path / "cslm", log_z=True, compute=Compute(threads=1), progress=seen.append
    )
    assert [(text.text, text.sentences) for text in done.texts] == [
        (str(tmp_path / "one"), 2),
        (str(tmp_path / "two"), 1),
    ]
    # The network's scores, and for log Z its logits and scores again.
    assert (seen[-1].task, seen[-1].done, seen[-1].finished) == ("perplexity", 9, True)
