"""`diagnose`: effective rank and source gain, for networks with known values and on the command line."""

import json

import numpy as np
import pytest

import ptmbench
from ptmbench import models
from ptmbench.bench.__main__ import main
from ptmbench.bench.engine import checkpoint, diagnosis, held_out
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.errors import ENVIRONMENT, OK
from ptmbench.models.text.template import BERT
from tests.bench.cells import train
from tests.models.networks import VOCABULARY, build, corpus, corpus_of, made, small, swept_model


def test_effective_ranks_of_known_matrices():
    rng = np.random.default_rng(0)
    crossed = np.concatenate([np.eye(16), -np.eye(16)])
    assert diagnosis.effective_rank(crossed) == pytest.approx(16)
    assert diagnosis.effective_rank(7 + crossed) == pytest.approx(16), "the mean does not count"
    assert diagnosis.effective_rank(np.outer(rng.normal(size=50), np.ones(16))) == pytest.approx(1)
    assert diagnosis.effective_rank(np.ones((50, 16))) == 0
    stretched = crossed * [3.0, *[1.0] * 15]
    shares = np.array([3.0, *[1.0] * 15]) / 18
    assert diagnosis.effective_rank(stretched) == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))


def test_token_vectors_are_the_encoder_outputs_of_the_text():
    network, length = build(models.load("bert"), small(models.load("bert"))), 20
    found = diagnosis.token_vectors(network, corpus(), length, BERT)
    ids = corpus().ids
    assert len(found) == len(ids) // 18 * 18
    row = np.array([[2, *ids[18:36], 3]], np.int32)
    alone = np.asarray(network.encoder({"tokens": row, "segments": 0 * row}).tokens)[0, 1:-1]
    np.testing.assert_allclose(found[18:36], alone, atol=1e-5)


@pytest.mark.sweep
@swept_model
def test_every_model_gives_token_vectors(name):
    network = made(name).built
    found = diagnosis.token_vectors(network, corpus_of(name), 20, VOCABULARY.template)
    assert found.shape[1] == network.encoder.width and np.isfinite(found).all()
    assert 0 < diagnosis.effective_rank(found) <= found.shape[1]


def gain(network, reads=("tokens",)):
    loss = held_out.measured(network, corpus(), 24)["loss"]
    return diagnosis.source_gain(network, corpus(), 24, reads, loss)


def test_the_source_gain_of_a_decoder_needs_cross_attention():
    """The gain is 0 if the weights of cross-attention are 0."""
    module = models.load("t5")
    network = build(module, small(module))
    assert abs(gain(network)) > 1e-6
    cross_attention = [v for v in network.loss.variables if "cross" in v.path]
    assert cross_attention
    for variable in cross_attention:
        variable.assign(np.zeros(variable.shape, np.float32))
    assert gain(network) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", ["gpt", "bert"])
def test_models_without_a_source_have_no_source_gain(name):
    module = models.load(name)
    assert gain(build(module, small(module))) is None


def test_diagnose_on_the_command_line_and_from_python(text, tmp_path, capsys):
    made, (path,) = train("word2vec", text, tmp_path / "made"), text.files
    frame = ptmbench.diagnose(tmp_path / "made", path, verbose=False)
    (line,) = frame.to_dict("records")
    assert list(line) == ["checkpoint", "loss", "effective rank", "width", "source gain"]
    assert line["width"] == made.about["shape"]["width"] and 0 < line["effective rank"] <= line["width"]
    assert line["loss"] > 0 and np.isnan(line["source gain"])
    capsys.readouterr()
    assert main(["diagnose", str(tmp_path / "made"), "--corpus", str(path), "--json"]) == OK
    (printed,) = json.loads(capsys.readouterr().out)
    assert printed["effective rank"] == line["effective rank"] and printed["source gain"] is None
    assert main(["diagnose", str(tmp_path / "made"), "--corpus", str(path)]) == OK
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["checkpoint", "loss", "effective", "rank", "width", "source", "gain"]
    assert row.split()[0] == "made" and row.split()[-1] == "-"


def test_checkpoints_that_are_not_pretrained_give_an_error_message(text, tmp_path, monkeypatch, capsys):
    made = train("word2vec", text, tmp_path / "made")
    monkeypatch.setattr(checkpoint, "read", lambda folder: Checkpoint(folder, made.about | {"kind": "adapted"}, {}))
    assert main(["diagnose", str(tmp_path / "made"), "--corpus", str(text.files[0])]) == ENVIRONMENT
    assert "is adapted to a task. Give the checkpoint of a pre-training." in capsys.readouterr().err
