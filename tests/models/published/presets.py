"""Writes small keras-hub presets with random weights and with vocabularies that are trained on a few sentences."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.models.published import made

BACKBONES = {
    "roberta": "RobertaBackbone",
    "distilbert": "DistilBertBackbone",
    "albert": "AlbertBackbone",
    "gpt2": "GPT2Backbone",
    "bart": "BartBackbone",
    "t5": "T5Backbone",
}
"""The keras-hub classes whose presets our networks can compute, by the names of our models."""


def save(name: str, path: Path, pieces: int | None = None) -> Any:
    """Saves a preset of the model ``name`` in the folder ``path``. Returns the backbone.

    ``path`` already has a tokenizer with this number of ``pieces``. If it is None, a tokenizer is trained.
    """
    hub = pytest.importorskip("keras_hub")
    settings = {
        "vocabulary_size": pieces or _write_vocabulary(name, path),
        "num_layers": 2,
        "num_heads": 2,
        "hidden_dim": 16,
    }
    settings |= {"intermediate_dim": 24} | {
        "albert": {"embedding_dim": 8, "max_sequence_length": 40},
        "t5": {"use_gated_activation": False},
    }.get(name, {"max_sequence_length": 40})
    network = getattr(hub.models, BACKBONES[name])(**settings)
    network.save_to_preset(str(path))
    return network


def _write_vocabulary(name: str, path: Path) -> int:
    """Writes the files of a tokenizer below ``path``. Returns its number of pieces."""
    assets = path / "assets" / "tokenizer"
    assets.mkdir(parents=True)
    if name in ("albert", "t5"):
        return _train_unigram(name, assets / "vocabulary.spm")
    if name == "distilbert":
        model = json.loads(made.wordpiece(path / "original").to_str())["model"]
        pieces = sorted(model["vocab"], key=model["vocab"].get)
        (assets / "vocabulary.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        settings = {"registered_name": "keras_hub>DistilBertTokenizer", "config": {"lowercase": True}}
        (path / "tokenizer.json").write_text(json.dumps(settings))
        return len(pieces)
    model = json.loads(made.bytewise(path / "original").to_str())["model"]
    if name == "gpt2":
        model["vocab"] |= {"<|endoftext|>": len(model["vocab"])}
    (assets / "vocabulary.json").write_text(json.dumps(model["vocab"]))
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    (assets / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    return len(model["vocab"])


def _train_unigram(name: str, file: Path) -> int:
    """Trains a sentencepiece model. It does not normalise Unicode, because the table for that would take 200 KB."""
    import sentencepiece

    places = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    if name == "albert":
        places = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "bos_piece": "[CLS]", "eos_piece": "[SEP]"}
        places |= {"control_symbols": "[MASK]"}
    with file.open("wb") as model:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(made.TEXT),
            model_writer=model,
            vocab_size=90,
            normalization_rule_name="identity",
            minloglevel=2,
            **places,
        )
    return 90 + (100 if name == "t5" else 0)
