"""The table of an experiment: phrasescore.workflows.experiment.table."""

import html.parser
import re
import tomllib
from pathlib import Path

import pytest

from phrasescore.workflows.experiment.config import read_experiment
from phrasescore.workflows.experiment.table import measure, to_html, to_text, to_toml
from tests.phrasescore.workflows.experiment.experiment_folder import plan_of, write_tuned


def test_the_table_has_means_spreads_and_what_chance_says(folder: Path) -> None:
    plan = plan_of(folder, "[tuning]\nreplicas = 2", 'systems = ["Baseline", "+RNN"]')
    wanted = read_experiment("x.toml")
    words = [f"a b c d e f g{number} h" for number in range(40)]
    spoilt = [line.replace(" c", " x") if number % 2 else line for number, line in enumerate(words)]
    (folder / "dev.fr").write_text("".join(f"{line}\n" for line in words))
    made = set()
    for run, lines in zip(plan.runs, (spoilt, words, spoilt, spoilt), strict=True):
        # TM0_2, the column of the network, moves nothing.
        write_tuned(run, {"LM0": (1.0,)}, 60.0 if run.system.name == "Baseline" else 59.0)
        path = run.output(wanted.data.dev)
        path.write_text("".join(f"{line}\n" for line in lines))
        made |= {path, run.report}
    texts = (wanted.data.dev, *wanted.data.tests)
    table = measure(texts, plan.runs, made, plan.notes, ["1 s  phrasescore <run>"])
    # multi-bleu.perl of the spoilt text, by hand: 300/320, 240/280, 180/240, 140/200 n-grams.
    bad = 100 * (300 / 320 * 240 / 280 * 180 / 240 * 140 / 200) ** 0.25
    first, second = (row.cells["dev"] for row in table.rows)
    assert first.scores == pytest.approx([bad, bad])
    assert second.scores == pytest.approx([100, bad])
    assert second.difference == pytest.approx((100 - bad) / 2)
    assert second.p_value is not None
    assert second.p_value < 0.01
    text = to_text(table).splitlines()
    assert text[0].split() == ["dev", "news", "rounds"]
    mean, deviation = (100 + bad) / 2, (100 - bad) / 2**0.5
    expected = f"+RNN *    {mean:.2f} ± {deviation:.2f} (+{(100 - bad) / 2:.2f}, p"
    assert text[2].startswith(expected)
    assert text[2].endswith("-     2+, 2+")
    assert "* +RNN: tuning found no use for rnn (weight 0, or nearly)." in text
    better = "on dev it is below Baseline, whose features it has: Baseline's weights are better"
    assert f"* +RNN: {better}." in text
    read = tomllib.loads(to_toml(table))
    assert read["row"][1]["dev"]["p_value"] == second.p_value
    assert tuple(read["row"][0]["dev"]["replicas"]) == first.scores
    assert read["row"][1]["rounds"] == ["2+", "2+"]
    assert read["row"][1]["remarks"][1] == better
    assert tuple(read["notes"]) == table.notes
    page = to_html(table)
    html.parser.HTMLParser().feed(page)
    assert "&lt;run&gt;" in page
    assert not re.search(r"(src|href)=", page)
    assert '<span class="better">' in page
