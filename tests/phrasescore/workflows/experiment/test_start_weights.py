"""The weights that a row starts from."""

from pathlib import Path

from moses_integration.moses_ini import load_weights
from tests.phrasescore.workflows.experiment.experiment_folder import INI, plan_of, write_tuned


def test_a_row_starts_from_the_best_row_on_dev_whose_features_it_has(folder: Path) -> None:
    systems = ["Baseline", "+LSTM", "+RNN", "+CSLM+RNN", "+reverse"]
    plan = plan_of(folder, "", f"systems = {systems}")
    starts = {run.system.name: [each.system.name for each in run.parts] for run in plan.runs}
    assert starts == {
        "Baseline": [], "+LSTM": ["Baseline"], "+RNN": ["Baseline"],
        "+CSLM+RNN": ["Baseline", "+RNN"], "+reverse": ["Baseline", "+RNN"],
    }  # fmt: skip
    assert all(each.seed == run.seed for run in plan.runs for each in run.parts)
    alone = plan_of(folder, '[tuning]\nstart = "moses.ini"')
    tunes = [step for step in alone.steps if step.name.startswith("tune")]
    assert not any(each.weights in step.inputs for step in tunes for each in alone.runs)
    baseline, _, rnn, cslm, _ = plan.runs[:5]
    step = next(step for step in plan.steps if step.name == "tune +CSLM+RNN seed 1")
    assert {rnn.weights, rnn.report, baseline.weights, baseline.report} <= set(step.inputs)
    cslm.ini.parent.mkdir(parents=True)
    text = INI.replace("num-features=2", "num-features=3").replace("0.5 0.25", "0.5 0.25 0")
    cslm.ini.write_text(text)
    cslm.folder.mkdir(parents=True)
    # Of equally good ones the one with more features.
    for scores, best in (((50.0, 49.9), 1.0), ((50.0, 50.0), 2.0), ((50.0, 50.1), 2.0)):
        write_tuned(baseline, {"LM0": (1.0,)}, scores[0])
        write_tuned(rnn, {"LM0": (2.0,), "TM0": (0.5, 0.5, 0.5)}, scores[1])
        step.prepare()
        assert load_weights(str(cslm.folder / "start")).lists["LM0"] == (best,)


def test_weights_are_carried_to_the_columns_of_the_next_row(folder: Path) -> None:
    before = "systems = ['Baseline', '+reverse', {name = '+wide', "
    before += "columns = ['unknown_words', 'reverse', 'rnn'], search = ['cslm'], rescore=['lstm']}]"
    plan = plan_of(folder, "[tuning]\nreplicas = 1", before)
    _, reverse, new = plan.runs
    write_tuned(plan.runs[0], {"LM0": (7.0,)}, 40.0)
    write_tuned(reverse, {"TM0": (1.0, 2.0, 3.0, 4.0), "LM0": (5.0,)})
    new.ini.parent.mkdir(parents=True)
    text = INI.replace("num-features=2", "num-features=5").replace("0.5 0.25", "0.5 0.25 0 0 0")
    new.ini.write_text(text)
    new.folder.mkdir(parents=True)
    next(step for step in plan.steps if step.name == "tune +wide seed 1").prepare()
    assert load_weights(str(new.folder / "start")).lists == {
        "TM0": (1.0, 2.0, 0.0, 4.0, 3.0), "LM0": (5.0,), "CSLM0": (0.0,), "LSTM0": (0.0,),
    }  # fmt: skip
    # The decoder does not know the LSTM.
    assert load_weights(str(new.folder / "start")).search == {
        "TM0": (1.0, 2.0, 0.0, 4.0, 3.0), "LM0": (5.0,), "CSLM0": (0.0,),
    }  # fmt: skip
