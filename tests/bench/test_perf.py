"""The measurements of `bench.perf`: arithmetic, workers, and whole measurements."""

import json
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from ptmbench import models
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.errors import UsageError
from ptmbench.bench.perf import loss, peer, perf, pretrain, scaling, vectors
from ptmbench.bench.perf.curves import picture
from ptmbench.bench.perf.peers import keras_hub
from ptmbench.bench.perf.table import Table
from ptmbench.bench.perf.worker import Worker, WorkerFailed, corpus, interleave
from ptmbench.models.text.tokenizers import Vocabulary

SERVANT = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    seconds = asked["times"] * float(sys.argv[1])
    print(json.dumps({"seconds": seconds, "processor": seconds / 2, "value": asked["job"]}), flush=True)
"""


def servant(name, seconds):
    return Worker(name, [sys.executable, "-c", SERVANT, str(seconds)])


def test_workers_take_turns_and_report_seconds_per_step():
    slow, fast = servant("slow", 0.5), servant("fast", 0.125)
    interleave([slow, fast], rounds=3, seconds=1.0, jobs=("step",))
    assert slow.seconds == {"step": [0.5] * 3}
    assert fast.median("step") == fast.best("step") == 0.125
    assert slow.median_processor("step") == 0.25
    assert fast.answer["seconds"] == 1.0  # eight steps of 0.125 s: turns take equally long for both workers


def test_a_worker_that_exits_is_reported_with_its_stderr():
    with (
        Worker("peer", [sys.executable, "-c", "raise SystemExit('no such thing')"]) as worker,
        pytest.raises(WorkerFailed, match="(?s)'peer'.*no such thing"),
    ):
        worker.ask("step", 1)


def test_tables_are_markdown_or_json(capsys):
    columns = {"name": ("who", "{}"), "ratio": ("x", "{:.1f}")}
    Table(columns).add({"name": "a", "ratio": None})
    assert capsys.readouterr().out == "| who | x |\n|---|---|\n| a |  |\n"
    Table(columns, as_json=True).add({"name": "a", "ratio": 2.0})
    assert json.loads(capsys.readouterr().out) == {"name": "a", "ratio": 2.0}


def test_seconds_to_a_loss_are_interpolated_linearly():
    curve = [(10, 6.0), (20, 4.0), (30, 5.0), (40, 3.0)]
    rows = [{"by": "ours", "seconds": s, "loss": value} for s, value in curve]
    assert loss.seconds_to(rows, "ours", 5.0) == 15.0
    assert loss.seconds_to(rows, "ours", 6.5) == 10.0
    assert loss.seconds_to(rows, "ours", 2.0) == float("inf")


def test_settings_of_a_model_describe_its_network():
    case = pretrain.settings_of("t5", "tiny", batch=4, length=64, vocabulary=500, threads=1)
    assert (case["layers"], case["width"], case["positions"]) == (2, 128, 512)
    assert case["targets"] > 10
    assert pretrain.settings_of("electra", "mini", 4, 64, 500, 1)["generator"]["width"] == 64


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        ("gpt2", 0),
        pytest.param("bert", 2 * 128 + 2, marks=pytest.mark.slow),
        pytest.param("albert", 2 * 128 + 2, marks=pytest.mark.slow),
        pytest.param("t5", 0, marks=pytest.mark.slow),
        pytest.param("bart", 0, marks=pytest.mark.slow),
    ],
)
def test_keras_hub_trains_the_same_network(model, missing):
    """It has as many weights as ours, except for the sentence classifiers that it lacks."""
    case = pretrain.settings_of(model, "tiny", batch=2, length=64, vocabulary=500, threads=1)
    network, features, labels = getattr(keras_hub, model)(case, np.random.default_rng(0))
    module, words = models.load(model), Vocabulary(size=500)
    shape = sized(module, "tiny", 64)
    assert module.describe(shape, words).parameters().total - network.count_params() == missing
    our_batch = module.build(shape, words).batches(corpus(words, 4000), 2, 64)(0, 0)
    predicted_positions = (
        our_batch["targets"][:, 1:] if "targets" in our_batch else our_batch.get("masked_labels", our_batch["tokens"])
    )
    assert our_batch["tokens"].shape == (2, 64) and predicted_positions.shape == labels.shape
    assert tuple(np.shape(network(features))) == (*labels.shape, 500)


def test_a_peer_is_compared_by_wall_time_and_processor_time(monkeypatch):
    """Ratios refer to the faster mode of the peer, with or without XLA."""
    seconds = {False: 0.2, True: 0.1}
    monkeypatch.setattr(pretrain, "ours", lambda name, case: servant(name, 0.05))
    monkeypatch.setattr(
        pretrain.peers,
        "command",
        lambda peer, python, case: [sys.executable, "-c", SERVANT, str(seconds[case["xla"]])],
    )
    shape = {"batch": 2, "length": 32, "vocabulary": 300, "threads": 1, "rounds": 1, "seconds": 0.1}
    rows = list(pretrain.compare(["bert"], ["tiny"], peer="keras_hub", python=sys.executable, **shape))
    assert [row["processor"] for row in rows] == pytest.approx([0.025, 0.025, 0.1, 0.05])
    for name in ("ratio", "processor_ratio"):
        assert [row[name] for row in rows] == pytest.approx([2, 2, 0.5, 1])


def test_scaling_changes_one_setting_at_a_time(monkeypatch):
    """The ratio of processor time refers to the first row, which changes nothing."""
    cases = []

    def ours(name, settings):
        cases.append(settings)
        return servant(name, 0.1 * settings.get("model_parallel", 1))

    monkeypatch.setattr(scaling, "ours", ours)
    options = ["--change", "model_parallel", "--rounds", "2", "--seconds", "0.1", "--json"]
    done = CliRunner().invoke(perf, ["scaling", *options], catch_exceptions=False)
    rows = [json.loads(line) for line in done.output.splitlines()]
    assert [row["case"] for row in rows] == ["batch 32, length 128", "model_parallel 2", "model_parallel 4"]
    assert [row["ratio"] for row in rows] == pytest.approx([1, 2, 4])
    assert [case.get("model_parallel") for case in cases] == [None, 2, 4]
    assert {case["batch"] for case in cases} == {32}


def test_models_that_a_peer_lacks_are_usage_errors():
    with pytest.raises(UsageError, match="keras_hub has no 'elmo' to compare with. Choose from bert, gpt2"):
        CliRunner().invoke(perf, ["pretrain", "--peer", "keras_hub", "--models", "elmo"], catch_exceptions=False)


@pytest.mark.slow
def test_steps_of_keras_hub_are_timed_with_ours():
    shape = ["--batch", "2", "--length", "32", "--vocabulary", "300", "--threads", "1"]
    options = ["--peer", "keras_hub", "--models", "gpt2", "--sizes", "tiny", "--rounds", "1", "--seconds", "0.1"]
    done = CliRunner().invoke(perf, ["pretrain", *options, *shape, "--json"], catch_exceptions=False)
    rows = [json.loads(line) for line in done.output.splitlines()]
    assert [row["by"] for row in rows] == ["ours", "ours, XLA", "keras_hub", "keras_hub, XLA"]
    assert max(row["ratio"] for row in rows[2:]) == 1 and all(row["seconds"] > 0 for row in rows)
    assert max(row["processor_ratio"] for row in rows[2:]) == 1 and all(row["processor"] > 0 for row in rows)


def test_a_missing_peer_is_an_error_with_the_install_command(monkeypatch):
    monkeypatch.setattr(peer.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install torch transformers"):
        peer.check(sys.executable)
    with pytest.raises(UsageError, match="not a Python interpreter that runs"):
        peer.check("/no/such/python")


def test_text_becomes_word_ids_and_sentence_offsets(tmp_path):
    (tmp_path / "text").write_text("The cat sat\n\n the dog\n")
    vectors.prepare(tmp_path, [tmp_path / "text"])
    found = np.load(tmp_path / "text.npz")
    assert found["ids"].tolist() == [37, 38, 39, 37, 40] and found["sentences"].tolist() == [0, 3, 5]
    (tmp_path / "text").write_text("one one\n")
    with pytest.raises(UsageError, match="different words"):
        vectors.prepare(tmp_path, [tmp_path / "text"])
    (tmp_path / "text").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        vectors.prepare(tmp_path, [tmp_path / "text"])


def test_vectors_accepts_only_models_that_the_peer_has(tmp_path):
    (tmp_path / "text").write_text("a b\n")
    with pytest.raises(UsageError, match="not 'glove'"):
        CliRunner().invoke(
            perf, ["vectors", "--corpus", str(tmp_path / "text"), "--models", "glove"], catch_exceptions=False
        )


@pytest.mark.slow
def test_our_word_vectors_are_measured_in_words_per_second(tmp_path):
    """Both by wall time and by processor time."""
    words = np.random.default_rng(0).integers(0, 300, (400, 12))
    (tmp_path / "text").write_text("\n".join(" ".join(f"w{n}" for n in row) for row in words))
    shape = ["--batch", "8", "--length", "64", "--width", "8", "--threads", "1", "--no-xla"]
    options = ["--corpus", str(tmp_path / "text"), "--models", "cbow", "--rounds", "1", "--seconds", "0.1", "--json"]
    done = CliRunner().invoke(perf, ["vectors", *options, *shape], catch_exceptions=False)
    (row,) = map(json.loads, done.output.splitlines())
    assert (row["model"], row["by"], row["ratio"]) == ("cbow", "ours", None)
    assert row["low"] <= row["words_per_second"] <= row["high"]
    assert row["words_per_cpu_second"] > 1000


def test_every_measurement_is_a_command_with_help():
    result = CliRunner().invoke(perf, ["--help"])
    assert result.exit_code == 0
    for name in perf.list_commands(None):
        assert name in result.output
        assert CliRunner().invoke(perf, [name, "--help"]).exit_code == 0


def test_an_unknown_measurement_is_an_error_that_lists_the_choices():
    with pytest.raises(UsageError, match="pretrain"):
        perf.get_command(None, "speed")


@pytest.mark.slow
def test_our_training_step_is_measured_as_a_share_of_peak_throughput():
    shape = ["--batch", "2", "--length", "16", "--vocabulary", "200", "--threads", "1"]
    done = CliRunner().invoke(
        perf,
        ["pretrain", "--models", "bert", "--sizes", "tiny", "--rounds", "1", "--seconds", "0.1", "--json", *shape],
        catch_exceptions=False,
    )
    rows = [json.loads(line) for line in done.output.splitlines()]
    assert [row["by"] for row in rows] == ["ours", "ours, XLA"]
    for row in rows:
        assert row["tokens_per_second"] == pytest.approx(32 / row["seconds"])
        assert 0 < row["share_of_peak"] < 1
        assert row["ratio"] is None


def test_curves_are_drawn_to_scale_and_names_are_escaped():
    curves = {"ours": [(0.0, 8.0), (50.0, 4.0)], "<peer>": [(100.0, 6.0), (200.0, 4.0)]}
    root = ElementTree.fromstring(picture(curves, title="a < b", down="loss"))
    space = "{http://www.w3.org/2000/svg}"
    ours, peer = (
        [tuple(map(float, p.split(","))) for p in line.get("points").split()] for line in root.iter(f"{space}polyline")
    )
    assert ours[1][0] - ours[0][0] == pytest.approx((peer[1][0] - ours[0][0]) / 4, abs=0.11)  # 50 s of 200
    assert peer[0][1] == pytest.approx((ours[0][1] + ours[1][1]) / 2, abs=0.11) and ours[1][1] == peer[1][1]
    words = [text.text for text in root.iter(f"{space}text")]
    assert {"a < b", "ours", "<peer>", "0", "200", "8.00", "4.00"} <= set(words)


@pytest.mark.slow
def test_our_generation_is_measured_in_tokens_per_second():
    shape = ["--batch", "2", "--length", "12", "--tokens", "5", "--vocabulary", "300", "--threads", "1"]
    options = ["--models", "bart", "--sizes", "tiny", "--rounds", "1", "--seconds", "0.1", "--json"]
    done = CliRunner().invoke(perf, ["generate", *options, *shape], catch_exceptions=False)
    (row,) = map(json.loads, done.output.splitlines())
    assert row["by"] == "ours" and row["ratio"] is None
    assert 2 <= round(row["tokens_per_second"] * row["seconds"]) <= 10
