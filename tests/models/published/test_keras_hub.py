"""Presets of keras-hub: imported, encoded with and exported; and presets that cannot be read.

`tests/models/references/test_keras_hub.py` compares what our networks compute with what keras-hub does.
"""

import json

import h5py
import numpy as np
import pytest

from ptmbench.bench.__main__ import main
from ptmbench.models.published import PublishedError, Unsupported, folder
from tests.models.published.presets import save


def test_import_and_encode_take_a_preset(tmp_path):
    save("roberta", tmp_path / "p")
    with h5py.File(tmp_path / "p" / "model.weights.h5", "a") as file:  # as older releases of Keras spell it
        place = "layers/transformer_encoder_1/_self_attention_layer/"
        file.move(f"{place}query_dense", f"{place}_query_dense")
    assert main(["import", str(tmp_path / "p"), "--out", str(tmp_path / "c")]) == 0
    (tmp_path / "lines").write_text("The dog sleeps.\n")
    files = ("--input", str(tmp_path / "lines"), "--out", str(tmp_path / "v.npz"))
    assert main(["encode", str(tmp_path / "c"), *files]) == 0
    assert main(["export", str(tmp_path / "c"), "--out", str(tmp_path / "back")]) == 0
    assert folder.read(tmp_path / "back").model == "roberta"


@pytest.mark.parametrize("name", ["BertBackbone", "ElectraBackbone"])
def test_the_tanh_form_of_gelu_is_refused(name, tmp_path):
    shape = {"vocabulary_size": 9, "num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8}
    config = shape | {"max_sequence_length": 8, "num_segments": 2}
    (tmp_path / "config.json").write_text(json.dumps({"registered_name": f"keras_hub>{name}", "config": config}))
    with pytest.raises(Unsupported, match="is a preset of keras-hub. As (bert|electra): its hidden_act is 'gelu_new'"):
        folder.read(tmp_path)


def test_damaged_and_foreign_presets_are_sentences(tmp_path):
    save("roberta", tmp_path)
    file = tmp_path / "model.weights.h5"
    content, config = file.read_bytes(), (tmp_path / "config.json").read_text()

    def weights():
        return folder.read(tmp_path).arrays["embeddings.word_embeddings.weight"]

    with h5py.File(file, "a") as opened:
        del opened["layers/token_and_position_embedding/token_embedding/vars/0"]
    with pytest.raises(PublishedError, match="lacks layers/token_and_position_embedding/token_embedding"):
        weights()
    with h5py.File(file, "a") as opened:
        place = "layers/token_and_position_embedding/token_embedding/vars/0"
        opened[place] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/secret")
    with h5py.File(tmp_path / "other.h5", "w") as opened:
        opened["secret"] = np.zeros((5, 5))
    with pytest.raises(PublishedError, match="links in place of arrays"):
        weights()
    file.write_bytes(content[: len(content) // 3])
    with pytest.raises(PublishedError, match="damaged or cut short"):
        weights()
    file.unlink()
    with pytest.raises(PublishedError, match="has no model.weights.h5"):
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
