"""Example texts on the board: always for the microworld, for other data only if their folder is given."""

import json

import pytest

from ptmbench import tasks
from ptmbench.bench.__main__ import main
from ptmbench.bench.data.sources import fingerprint
from ptmbench.bench.runs.texts import reader
from ptmbench.tasks import microworld


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    microworld.make(folder / "data")
    return folder


def part(run, name="sst2", **changes):
    sha256 = fingerprint(tasks.load(name), run / "data")
    return {"name": name, "source": "microworld", "data_sha256": sha256} | changes


def test_microworld_texts_of_a_run_are_read(run):
    found = reader([run])(part(run, "mrpc"))
    examples = tasks.load("mrpc").examples(run / "data", tasks.load("mrpc").report)
    assert found["texts"] == {one.id: list(one.inputs) for one in examples}
    assert found["labels"] == dict(zip(tasks.load("mrpc").labels, tasks.load("mrpc").words, strict=True))
    assert reader([run.parent])(part(run))  # a folder of runs


def test_other_data_are_read_only_from_the_given_folder(run, tmp_path):
    official = part(run, source="official")
    assert reader([run])(official) is None
    assert reader([tmp_path], run / "data")(official)["texts"]


@pytest.mark.parametrize("change", [{"data_sha256": "0" * 64}, {"name": "nothing"}, {"name": "sst2@misspellings"}])
def test_texts_that_the_model_did_not_read_are_not_shown(run, change):
    assert reader([run], run / "data")(part(run) | change) is None


def test_the_data_option_of_board_requires_a_page(run, capsys):
    assert main(["board", str(run), "--data", str(run / "data")]) == 2
    assert "--data shows texts on the page" in capsys.readouterr().err


def test_the_board_of_a_run_shows_its_texts(tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ["run", "demo", "--models", "bag-of-words", "--tasks", "sst2", "--no-baselines", "--seeds", "1"]
    assert main([*arguments, "--out", str(out)]) == 0
    (script,) = (out / "board" / "examples").glob("text-*.js")
    script_text = script.read_text()
    found = json.loads(script_text[script_text.index(",") + 1 : script_text.rindex(")")])
    task = tasks.load("sst2")
    assert found["texts"] == {one.id: list(one.inputs) for one in task.examples(out / "data", task.report)}
    assert f'"texts":"examples/{script.name}"' in (out / "board" / "index.html").read_text()
