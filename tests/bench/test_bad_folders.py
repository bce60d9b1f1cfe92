"""Folders that cannot be imported: each gives an error message without a traceback, and leaves no checkpoint."""

import json
import pickle
import re
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.bench.foreign import foreign, run


class _PickledCode:
    def __reduce__(self):
        return (print, ("this must not be printed",))


def _no_config(path):
    (path / "config.json").unlink()


def _cut_config(path):
    (path / "config.json").write_text('{"model_type": "be')


def _other_model_type(path):
    (path / "config.json").write_text('{"model_type": "llama"}')


def _no_hidden_size(path):
    config = json.loads((path / "config.json").read_text())
    del config["hidden_size"]
    (path / "config.json").write_text(json.dumps(config))


def _relu(path):
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))


def _other_inner_size(path):
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"intermediate_size": 80}))


def _config_with(**settings):
    def harm(path):
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(config | settings))

    return harm


def _infinite(path):
    arrays = load_file(path / "model.safetensors")
    arrays["bert.encoder.layer.0.intermediate.dense.bias"][3] = np.inf
    save_file(arrays, path / "model.safetensors")


def _transposed(path):
    """Transposes a weight matrix, which keeps the number of weights."""
    arrays = load_file(path / "model.safetensors")
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    save_file(arrays | {name: arrays[name].T.copy()}, path / "model.safetensors")


def _quantised(path):
    """Quantises a matrix as bitsandbytes does: int8 weights, and their scales in another array."""
    arrays, name = load_file(path / "model.safetensors"), "bert.encoder.layer.0.intermediate.dense."
    whole, scale = (arrays[f"{name}weight"] * 40).astype(np.int8), np.ones(64, np.float32)
    save_file(arrays | {f"{name}weight": whole, f"{name}SCB": scale}, path / "model.safetensors")


def _cut_weights(path):
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-8])


def _false_header(path):
    (path / "model.safetensors").write_bytes(struct.pack("<Q", 2**60) + b"{}")


def _no_weights(path):
    (path / "model.safetensors").unlink()


def _no_layer(path):
    arrays = load_file(path / "model.safetensors")
    save_file({k: v for k, v in arrays.items() if "layer.1" not in k}, path / "model.safetensors")


def _code_in_pickle(path):
    (path / "model.safetensors").unlink()
    (path / "pytorch_model.bin").write_bytes(pickle.dumps(_PickledCode(), protocol=2))


def _invalid_pickle(path):
    (path / "model.safetensors").unlink()
    (path / "pytorch_model.bin").write_bytes(b"\x80\x02not a pickle")


def _other_vocabulary(path):
    arrays = load_file(path / "model.safetensors")
    arrays["bert.embeddings.word_embeddings.weight"] = arrays["bert.embeddings.word_embeddings.weight"][:100].copy()
    save_file(arrays, path / "model.safetensors")


def _untied(path):
    arrays = load_file(path / "model.safetensors")
    arrays["cls.predictions.decoder.weight"] = arrays["bert.embeddings.word_embeddings.weight"] + 1
    save_file(arrays, path / "model.safetensors")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_no_config, "has no config.json"),
        (_cut_config, "damaged or cut short"),
        (_other_model_type, "'llama' are not read here. Known: "),
        (_no_hidden_size, "does not say 'hidden_size'"),
        (_relu, "hidden_act is 'relu'"),
        (_config_with(num_attention_heads=3), r"config.json tells a shape that no network has \(3 heads in 16\)"),
        (_config_with(num_attention_heads=0), "tells a shape that no network has"),
        (_config_with(num_hidden_layers="2"), "tells a shape that no network has"),
        (_config_with(num_hidden_layers=-1), "tells a shape that no network has"),
        (_config_with(hidden_size=None), "tells a shape that no network has"),
        (_config_with(max_position_embeddings=24.0), "tells a shape that no network has"),
        (
            _config_with(model_type="t5", num_layers=1, d_model="8", num_heads=1, d_ff=8),
            "tells a shape that no network has",
        ),
        (
            _config_with(model_type="t5", num_layers=1, d_model=8, num_heads=0, d_ff=8),
            "tells a shape that no network has",
        ),
        (_config_with(num_hidden_layers=10**9), "no published model is as large as"),
        (_config_with(num_hidden_layers=1000), r"tells of 3,\d+,\d+ weights, but the files of weights hold"),
        (_config_with(registered_name="keras_hub>BertBackbone", config=5), "config.json is no preset's"),
        (_other_inner_size, r"does not fit the shape that config.json tells"),
        (_infinite, r"holds weights that are NaN or infinite \(here encoder/"),
        (_transposed, r"intermediate.dense.weight \(16, 64\) does not fit the shape that config.json tells"),
        (_quantised, r"intermediate.dense.weight holds whole numbers \(int8\), so the model was quantised"),
        (_cut_weights, "damaged or cut short"),
        (_false_header, "damaged or cut short"),
        (_no_weights, "has no weights"),
        (_no_layer, "lacks 16 arrays that bert has: bert.encoder.layer.1.attention.self.query.weight"),
        (_code_in_pickle, "code of checkpoints is never run"),
        (_invalid_pickle, "damaged or cut short"),
        (_other_vocabulary, "pieces, but the table of their vectors only 100 rows"),
        (_untied, "differs from bert.embeddings.word_embeddings.weight"),
    ],
)
def test_invalid_folders_give_an_error_message_and_no_checkpoint(harm, message, tmp_path, capsys):
    foreign("bert", tmp_path / "f")
    harm(tmp_path / "f")
    assert run("import", tmp_path / "f", "--out", tmp_path / "c") == 4
    out, err = capsys.readouterr()
    assert "this must not be printed" not in out
    assert re.search(message, err) and "Traceback" not in err, err
    assert not (tmp_path / "c").exists()
