"""A work folder whose removal was stopped is removed by the next run, which repeats no step."""

from pathlib import Path

import pytest

from phrasescore.io.folders import remove_folder
from phrasescore.workflows import work_folder


@pytest.mark.parametrize("stopped_at", [0, 1])
def test_a_run_that_was_stopped_while_it_removed_its_folder(
    stopped_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = [0]

    def remove_or_stop(path: Path) -> None:
        if removed[0] == stopped_at:
            raise KeyboardInterrupt
        removed[0] += 1
        remove_folder(path)

    output = tmp_path / "new"
    with monkeypatch.context() as context:
        context.setattr(work_folder, "remove_folder", remove_or_stop)
        with (
            pytest.raises(KeyboardInterrupt),
            work_folder.open_work_folder(output, {}, resume=False) as run,
        ):
            for folder in (run.files, run.path / "steps", run.path / "another"):
                folder.mkdir()
                (folder / "file").write_text(folder.name)
            run.finish_step("first")
            run.publish()
    with work_folder.open_work_folder(output, {}, resume=True) as run:
        assert run.is_published
        run.publish()
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "file"]
    assert (output / "file").read_text() == "model"
