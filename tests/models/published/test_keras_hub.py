"""Presets of keras-hub: saved by the package itself with random weights, and read with the same vectors."""

import json

import h5py
import numpy as np
import pytest

from ptmbench.bench.__main__ import main
from ptmbench.models.published import PublishedError, Unsupported, _vocabulary, folder
from tests.models.published import made

TOLERANCE = 2e-5
KINDS = {
    "RobertaBackbone": "bytewise",
    "DistilBertBackbone": "wordpiece",
    "AlbertBackbone": "unigram",
    "GPT2Backbone": "bytewise",
    "BartBackbone": "bytewise",
    "T5Backbone": "unigram",
}


def vocabulary(name, path):
    """The assets of the tokenizer; how many pieces there are."""
    assets = path / "assets" / "tokenizer"
    assets.mkdir(parents=True)
    if KINDS[name] == "unigram":
        import sentencepiece

        (path / "text").write_text("\n".join(made.TEXT), encoding="utf-8")
        places = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
        if name == "AlbertBackbone":
            places = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "bos_piece": "[CLS]", "eos_piece": "[SEP]"}
            places |= {"control_symbols": "[MASK]"}
        sentencepiece.SentencePieceTrainer.train(
            input=str(path / "text"), model_prefix=str(path / "x"), vocab_size=90, minloglevel=2, **places
        )
        (path / "x.model").rename(assets / "vocabulary.spm")
        return 90 + (100 if name == "T5Backbone" else 0)
    original = made.KINDS[KINDS[name]](path / "original")
    model = json.loads(original.to_str())["model"]
    if KINDS[name] == "wordpiece":
        pieces = sorted(model["vocab"], key=model["vocab"].get)
        (assets / "vocabulary.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        settings = {"registered_name": "keras_hub>DistilBertTokenizer", "config": {"lowercase": True}}
        (path / "tokenizer.json").write_text(json.dumps(settings))
        return len(pieces)
    if name == "GPT2Backbone":
        model["vocab"] |= {"<|endoftext|>": len(model["vocab"])}
    (assets / "vocabulary.json").write_text(json.dumps(model["vocab"]))
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    (assets / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    return len(model["vocab"])


def backbone(name, count, **changes):
    """A backbone of the package whose weights are random everywhere, norms and biases too."""
    hub = pytest.importorskip("keras_hub")
    settings = {"vocabulary_size": count, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 24}
    if name != "T5Backbone":
        settings["max_sequence_length"] = 40
    own = {"AlbertBackbone": {"embedding_dim": 8}, "T5Backbone": {"use_gated_activation": False}}
    network = getattr(hub.models, name)(**settings | own.get(name, {}) | changes)
    rng = np.random.default_rng(0)
    for variable in network.weights:
        variable.assign(variable.numpy() + rng.normal(0, 0.1, variable.shape))
    return network


@pytest.mark.parametrize("name", KINDS)
def test_a_preset_gives_the_same_vectors_here(name, tmp_path):
    """Of one row with padding and one without; of the encoder and, where there is one, of the pooler."""
    from ptmbench.bench.engine import networks

    network = backbone(name, vocabulary(name, tmp_path))
    network.save_to_preset(str(tmp_path))
    found = folder.read(tmp_path)
    built = networks.build(found.model, found.size, found.tokenizer, 0)
    read, absent, unused = found.weights({v.path: tuple(v.shape) for v in built.loss.variables})
    assert not unused and not any(path.startswith("encoder/") for path in absent)
    networks.assign(built.loss.variables, {v.path: v.numpy() for v in built.loss.variables} | read)
    built.encoder.dropout = 0.0
    texts = ["The dog sleeps, walking on.", "walking"]
    rows = found.tokenizer.encode(texts)
    places, _ = _vocabulary.permutation(found.tokenizer)
    longest = max(map(len, rows))
    tokens = np.array([[*ids, *[0] * (longest - len(ids))] for ids in rows], np.int32)
    present = tokens > 0
    theirs = np.where(present, np.array([p or 0 for p in places])[tokens], 0)
    second = (np.arange(longest) > 3) & present
    given = {"token_ids": theirs, "padding_mask": present.astype("int32"), "segment_ids": second.astype("int32")}
    if name in ("BartBackbone", "T5Backbone"):
        given = {
            f"{half}_{key}": given[key] for half in ("encoder", "decoder") for key in ("token_ids", "padding_mask")
        }
    else:
        given = {key.name: given[key.name] for key in network.inputs}
    expected = network(given)
    expected = {k: v.numpy() for k, v in expected.items()} if isinstance(expected, dict) else expected.numpy()
    encoding = built.encoder({"tokens": tokens, "segments": second.astype(np.int32)})
    if isinstance(expected, dict):
        sequence = expected.get("encoder_sequence_output", expected.get("sequence_output"))
        if "pooled_output" in expected:
            assert np.abs(encoding.pooled.numpy() - expected["pooled_output"]).max() < TOLERANCE
    else:
        sequence = expected
    scale = max(1, np.abs(sequence).max())
    gap = np.abs(encoding.tokens.numpy() - sequence)[present].max()
    assert gap < TOLERANCE * scale
    if isinstance(expected, dict) and "decoder_sequence_output" in expected:
        logits = built.decode({"tokens": tokens, "targets": tokens}).numpy()
        table, hidden = read["encoder/embeddings/tokens/table"], expected["decoder_sequence_output"]
        factor = hidden.shape[-1] ** -0.5 if name == "T5Backbone" else 1.0
        known = hidden @ table.T * factor
        whole = present[:, :, None] & np.ones_like(known, bool)
        whole[..., list(found.tokenizer.vocabulary.absent)] = False  # keras-hub has no such rows
        assert np.abs(logits - known)[whole].max() < TOLERANCE * max(1, np.abs(known).max())


def test_import_and_encode_take_a_preset(tmp_path):
    network = backbone("RobertaBackbone", vocabulary("RobertaBackbone", tmp_path / "p"))
    network.save_to_preset(str(tmp_path / "p"))
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
    backbone("RobertaBackbone", vocabulary("RobertaBackbone", tmp_path)).save_to_preset(str(tmp_path))
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
