"""Plugins: a user's models, tasks and adaptations in listings, workers and keys, and errors in their files."""

import importlib.metadata
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ptmbench import models, tasks
from ptmbench.bench import adapt
from ptmbench.bench.__main__ import main
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import EnvironmentProblem, UsageError
from ptmbench.bench.runs import plugins
from ptmbench.bench.runs.executors import ray as on_ray
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import settings_of
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.leaderboard.records.store import load
from ptmbench.models import objectives
from tests.bench import cells

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A plugin folder with a model, a task and an adaptation. The registries are restored afterwards."""
    folder = tmp_path / "plugin"
    for kind in ("models", "objectives", "tasks", "adaptations"):
        (folder / kind).mkdir(parents=True)
    shutil.copy(ROOT / "models/non_contextual/word2vec.py", folder / "models/plugged_vectors.py")
    text = (ROOT / "tasks/sst2.py").read_text().replace('name="sst2"', 'name="plugged_reviews"')
    (folder / "tasks/plugged_reviews.py").write_text(text.replace('title="SST-2"', 'title="Our reviews"'))
    own = folder / "adaptations/plugged_features"
    shutil.copytree(ROOT / "bench/adapt/features", own, ignore=shutil.ignore_patterns("__pycache__"))
    for file in own.glob("*.py"):
        file.write_text(file.read_text().replace("bench.adapt.features", "bench.adapt.plugged_features"))
    monkeypatch.setattr(plugins, "_used", [])
    monkeypatch.setattr(models, "_added", [])
    monkeypatch.setattr(objectives, "_added", [])
    monkeypatch.setattr(tasks, "_added", [])
    monkeypatch.setattr(adapt, "_places", list(adapt._places))
    for package in (models, objectives, tasks, adapt):
        monkeypatch.setattr(package, "__path__", list(package.__path__))
    yield folder
    monkeypatch.undo()
    for function in (models.paths, objectives.paths, tasks.names, tasks._paths, adapt.names, adapt.only, adapt.load):
        function.cache_clear()
    for name in [name for name in sys.modules if "plugged" in name]:
        del sys.modules[name]


def forget(plugin: Path) -> None:
    """Removes ``plugin`` from the registries, as in a new process."""
    plugins._used.clear()
    for package, kind in ((models, "models"), (objectives, "objectives"), (tasks, "tasks"), (adapt, "adaptations")):
        package.__path__.remove(str(plugin / kind))
        (adapt._places if package is adapt else package._added).remove(plugin / kind)
    for function in (models.paths, objectives.paths, tasks.names, tasks._paths, adapt.names, adapt.only):
        function.cache_clear()


def test_models_tasks_and_adaptations_of_a_plugin_are_listed_with_their_source(plugin, capsys):
    before = set(models.names()), set(tasks.names()), set(adapt.names())
    assert main(["ls", f"--plugin={plugin}"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if f"[plugin {plugin}]" in line]
    assert [line.split()[0] for line in lines] == ["plugged_vectors", "plugged_reviews", "plugged_features"]
    after = set(models.names()), set(tasks.names()), set(adapt.names())
    assert [len(new - old) for new, old in zip(after, before, strict=True)] == [1, 1, 1]
    for name in ("plugged_vectors", "Plugged-Reviews", "plugged_features"):
        assert main(["--plugin", str(plugin), "info", name]) == 0
        assert f"[plugin {plugin}]" in capsys.readouterr().out
    assert tasks.load("plugged_reviews-40").train_examples == 40  # a variant of the task


def test_a_plugin_model_may_have_its_own_objective(plugin, tmp_path, capsys):
    own = (ROOT / "models/objectives/mlm.py").read_text()
    (plugin / "objectives/plugged_mlm.py").write_text(own)
    model = (ROOT / "models/masked_language_modeling/roberta.py").read_text()
    model = model.replace('objectives=("mlm",)', 'objectives=("plugged_mlm",)')
    model = model.replace("import _joint, mlm, sampling", "import _joint, plugged_mlm as mlm, sampling")
    (plugin / "models/plugged_roberta.py").write_text(model)
    assert main(["ls", "objectives", f"--plugin={plugin}"]) == 0
    assert f"[plugin {plugin}]" in next(
        line for line in capsys.readouterr().out.splitlines() if line.startswith("plugged_mlm ")
    )
    assert main(["info", "plugged_mlm", f"--plugin={plugin}"]) == 0 and "L_MLM" in capsys.readouterr().out
    text = tmp_path / "text.txt"
    text.write_text("A place of which little is read.\n" * 50)
    arguments = ["--corpus", str(text), "--steps", "1", "--batch", "2", "--length", "16", "--vocabulary", "120"]
    assert main(["pretrain", "plugged_roberta", *arguments, "--out", str(tmp_path / "out"), f"--plugin={plugin}"]) == 0
    before = plugins.sources(("plugged_roberta",))
    assert set(before) == {"models/plugged_roberta.py", "objectives/plugged_mlm.py"}
    (plugin / "objectives/plugged_mlm.py").write_text(own + "\n")
    assert plugins.sources(("plugged_roberta",)) != before  # the file is part of the key
    (tmp_path / "other/objectives").mkdir(parents=True)
    shutil.copy(plugin / "objectives/plugged_mlm.py", tmp_path / "other/objectives/mlm.py")
    with pytest.raises(UsageError, match="the name 'mlm' is taken"):
        plugins.use(tmp_path / "other")


@pytest.mark.slow
def test_workers_load_the_plugin(plugin, world, tmp_path):
    out = tmp_path / "run"
    options = ["--models", "plugged_vectors", "--tasks", "plugged_reviews", "--adaptation", "plugged_features"]
    options += ["--no-baselines", "--seeds", "1", "--steps", "3", "--jobs", "1", "--limit", "60", "--set", "epochs=1"]
    assert main(["run", "demo", "--plugin", str(plugin), *options, "--data", str(world), "--out", str(out)]) == 0
    (found,) = load([out]).records
    assert found.status == "ok" and f"--plugin {plugin}" in found.command
    assert set(found.row["plugins"]) == {
        "models/plugged_vectors.py",
        "tasks/plugged_reviews.py",
        "adaptations/plugged_features",
    }
    assert json.loads((out / "job.json").read_text())["plugins"] == [str(plugin)]


def test_ray_workers_get_the_plugin_folders_with_their_job(plugin):
    plugins.use(plugin)
    job = Job(data="", source={}, command="", keep=False, length=32)
    assert job.plugins == [str(plugin)]
    forget(plugin)
    assert "plugged_vectors" not in models.names()  # as in a new process
    on_ray.Remote('{"artefacts": []}', job, 1, 1 << 40)
    assert "plugged_vectors" in models.names()


def test_a_changed_plugin_file_changes_the_key(plugin):
    plugins.use(plugin)

    def found() -> dict[str, str]:
        return plugins.sources(("plugged_vectors", "bert", None), "plugged_reviews-40", "plugged_features")

    before = found()
    assert len(before) == 3 and found() == before and plugins.sources(("bert",), "sst2", "features") == {}
    network = plugin / "adaptations/plugged_features/network.py"
    network.write_text(network.read_text() + "\n")
    changed = found()
    assert [name for name in before if before[name] != changed[name]] == ["adaptations/plugged_features"]
    one = cells.make("sst2", "bert", "features")
    assert len({one.key, replace(one, plugins=before).key, replace(one, plugins=changed).key}) == 3


def test_keys_depend_on_plugins_only_if_there_are_any():
    one = cells.make("sst2", "bert", "features")
    assert one.plugins == {} and Job(data="", source={}, command="", keep=False, length=32).plugins == []
    training = Pretraining(
        model="bert", size="tiny", corpus=("a",), corpus_sha256="b", corpus_name="c", tokenizer="wordpiece",
        vocabulary=300, budget=Budget(steps=2), recipe={},
    )  # fmt: skip
    assert training.key != replace(training, plugins={"models/x.py": "0"}).key
    assert training.design != replace(training, plugins={"models/x.py": "0"}).design


def test_a_broken_file_is_reported_and_the_others_work(plugin, capsys):
    (plugin / "tasks/plugged_broken.py").write_text('"""Broken."""\n\nimport nothing_of_the_kind\n')
    (plugin / "models/plugged_hollow.py").write_text('"""Hollow."""\n')
    plugins.use(plugin)
    assert main(["ls"]) == 0
    assert main(["info", "plugged_broken"]) == 4
    assert f"{plugin}/tasks/plugged_broken.py, line 3, cannot be run: ModuleNotFoundError" in capsys.readouterr().err
    assert main(["info", "plugged_hollow"]) == 4
    assert f"{plugin}/models/plugged_hollow.py is no model's file. It has no CARD" in capsys.readouterr().err
    assert settings_of(tasks.load("plugged_reviews"), "plugged_features", {}, {})


@pytest.mark.parametrize(
    "file", ["models/bert.py", "models/majority.py", "models/card.py", "tasks/sst2.py", "tasks/forms.py"]
)
def test_files_with_existing_names_are_usage_errors(plugin, capsys, file):
    (plugin / file).write_text("")
    assert main(["--plugin", str(plugin), "ls"]) == 2
    assert f"{plugin / file}: the name '{Path(file).stem}' is taken" in capsys.readouterr().err
    assert "plugged_vectors" not in models.names()


def test_adaptation_folders_with_existing_names_are_usage_errors(plugin):
    shutil.copytree(plugin / "adaptations/plugged_features", plugin / "adaptations/finetune")
    with pytest.raises(UsageError, match="the name 'finetune' is taken"):
        plugins.use(plugin)


def test_folders_that_are_not_plugins_are_errors(tmp_path, capsys):
    with pytest.raises(
        EnvironmentProblem, match="is not a plugin: it has none of the folders models, objectives, tasks, adaptations"
    ):
        plugins.use(tmp_path)
    assert main(["--plugin", str(tmp_path / "none"), "ls"]) == 4
    assert main(["ls", "--plugin"]) == 2


def test_installed_packages_can_be_plugins(plugin, tmp_path, monkeypatch):
    package = tmp_path / "site" / "our_package_of_plugins"
    shutil.copytree(plugin, package)
    (package / "__init__.py").write_text("raise SystemExit('a plugin is not imported before it is used')\n")
    monkeypatch.syspath_prepend(str(package.parent))
    entry = importlib.metadata.EntryPoint("ours", "our_package_of_plugins", plugins.GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    plugins.use_installed()
    assert "plugged_vectors" in models.names() and plugins.used() == [str(package)]
    broken = importlib.metadata.EntryPoint("theirs", "no_such_package_at_all", plugins.GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [broken])
    assert main(["ls"]) == 4
