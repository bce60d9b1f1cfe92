"""Importing presets of keras-hub, encoding with them and exporting them, and refusing presets that cannot be read.

`tests/models/references/test_keras_hub.py` compares the outputs of our networks with those of keras-hub.
"""

import json

import h5py
import numpy as np
import pytest

from ptmbench.bench.__main__ import main
from ptmbench.models.published import PublishedError, Unsupported, folder
from tests.models.published.presets import save


def test_import_encode_and_export_of_a_preset(tmp_path):
    save("roberta", tmp_path / "p")
    with h5py.File(tmp_path / "p" / "model.weights.h5", "a") as file:  # the name in older releases of Keras
        group = "layers/transformer_encoder_1/_self_attention_layer/"
        file.move(f"{group}query_dense", f"{group}_query_dense")
    assert main(["import", str(tmp_path / "p"), "--out", str(tmp_path / "c")]) == 0
    (tmp_path / "lines").write_text("The dog sleeps.\n")
    files = ("--input", str(tmp_path / "lines"), "--out", str(tmp_path / "v.npz"))
    assert main(["encode", str(tmp_path / "c"), *files]) == 0
    assert main(["export", str(tmp_path / "c"), "--out", str(tmp_path / "back")]) == 0
    assert folder.read(tmp_path / "back").model == "roberta"


def test_sharded_weights_equal_unsharded_weights(tmp_path):
    network = save("distilbert", tmp_path / "p")
    whole = dict(folder.read(tmp_path / "p").arrays)
    (tmp_path / "p" / "model.weights.h5").unlink()
    network.save_weights(str(tmp_path / "p" / "model.weights.json"), max_shard_size=2e-5)
    shards = sorted((tmp_path / "p").glob("*.h5"))
    sharded = folder.read(tmp_path / "p")
    assert len(shards) > 1 and whole.keys() == sharded.arrays.keys()
    assert all(np.array_equal(array, sharded.arrays[name]) for name, array in whole.items())
    shards[1].unlink()
    with pytest.raises(PublishedError, match=f"lacks {shards[1].name}, one of its shards"):
        folder.read(tmp_path / "p")
    (tmp_path / "p" / "model.weights.json").write_text('{"weight_map": {"a": "../other.weights.h5"}}')
    with pytest.raises(PublishedError, match="does not name files of weights in its folder"):
        folder.read(tmp_path / "p")


def test_classes_named_in_files_are_not_instantiated(tmp_path):
    """Neither the class that the configuration names nor the class of its dtype is instantiated."""
    save("distilbert", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"module": "antigravity", "class_name": "Popen"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert np.isfinite(folder.read(tmp_path).arrays["embeddings.word_embeddings.weight"]).all()
    config["config"]["dtype"] = {"module": "antigravity", "class_name": "DTypePolicyMap", "config": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(Unsupported, match="Its dtype is a DTypePolicyMap, as of a quantised model"):
        folder.read(tmp_path)


@pytest.mark.parametrize("name", ["BertBackbone", "ElectraBackbone"])
def test_tanh_approximation_of_gelu_is_refused(name, tmp_path):
    shape = {"vocabulary_size": 9, "num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8}
    config = shape | {"max_sequence_length": 8, "num_segments": 2}
    (tmp_path / "config.json").write_text(json.dumps({"registered_name": f"keras_hub>{name}", "config": config}))
    with pytest.raises(Unsupported, match="is a preset of keras-hub. As (bert|electra): its hidden_act is 'gelu_new'"):
        folder.read(tmp_path)


def test_damaged_and_unsupported_presets_are_refused(tmp_path):
    save("roberta", tmp_path)
    file = tmp_path / "model.weights.h5"
    content, config = file.read_bytes(), (tmp_path / "config.json").read_text()

    def weights():
        return folder.read(tmp_path).arrays["embeddings.word_embeddings.weight"]

    with h5py.File(file, "a") as opened:
        del opened["layers/token_and_position_embedding/token_embedding/vars/0"]
    with pytest.raises(PublishedError, match="RobertaBackbone that config.json describes .*token_embedding"):
        weights()
    with h5py.File(file, "a") as opened:
        group = "layers/token_and_position_embedding/token_embedding/vars/0"
        opened[group] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/secret")
    with h5py.File(tmp_path / "other.h5", "w") as opened:
        opened["secret"] = np.zeros((5, 5))
    with pytest.raises(PublishedError, match="config.json describes .token_embedding: Layer"):
        weights()
    file.write_bytes(content[: len(content) // 3])
    with pytest.raises(PublishedError, match="damaged or cut short"):
        weights()
    file.unlink()
    with pytest.raises(PublishedError, match="neither model.weights.h5 nor model.weights.json"):
        folder.read(tmp_path)
    file.write_bytes(content)
    (tmp_path / "assets" / "tokenizer" / "vocabulary.json").unlink()
    with pytest.raises(PublishedError, match="has no vocabulary"):
        folder.read(tmp_path)
    (tmp_path / "config.json").write_text(config.replace(">RobertaBackbone", ">GemmaBackbone"))
    with pytest.raises(Unsupported, match="class GemmaBackbone are not read here. Known: BertBackbone"):
        folder.read(tmp_path)
    (tmp_path / "config.json").write_text(config.replace("num_heads", "heads"))
    with pytest.raises(PublishedError, match="does not say 'num_attention_heads'"):
        folder.read(tmp_path)
