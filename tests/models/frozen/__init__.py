"""What `transformers` computes for tiny networks, kept as small arrays, so that the comparison needs no torch.

`make` writes one file for each model: the hidden vectors, and the names and shapes of the weights. The weights are not
kept: both sides draw each of them from a seed that is its name in `transformers`.
"""

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from ptmbench.models.card import Size
from ptmbench.models.tokenizers import Vocabulary

FOLDER = Path(__file__).parent
SIZE = Size(layers=2, width=16, heads=2, inner=24, length=20)
SIZES = {"electra": replace(SIZE, embedding=8), "gpt": replace(SIZE, inner=64)}
"""ELECTRA's token vectors are widened; the reference of GPT fixes the inner width."""
VOCABULARY = Vocabulary(size=41)
CLASSES = {
    "bert": "BertForPreTraining",
    "roberta": "RobertaForMaskedLM",
    "electra": "ElectraForPreTraining",
    "albert": "AlbertForPreTraining",
    "gpt": "OpenAIGPTLMHeadModel",
    "gpt2": "GPT2LMHeadModel",
    "ctrl": "CTRLLMHeadModel",
    "bart": "BartForConditionalGeneration",
    "pegasus": "PegasusForConditionalGeneration",
    "t5": "T5ForConditionalGeneration",
    "t5_1_1": "T5ForConditionalGeneration",
}
"""The reference of each model."""


def inputs() -> dict[str, np.ndarray]:
    """``tokens`` and ``segments`` [2, 10], the second row padded after 7; ``targets`` [2, 5]."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, VOCABULARY.size, (2, 10)).astype(np.int32)
    tokens[1, 7:] = 0
    segments = (np.arange(10) >= 4) * (tokens > 0)
    targets = rng.integers(1, VOCABULARY.size, (2, 5)).astype(np.int32)
    return {"tokens": tokens, "segments": segments.astype(np.int32), "targets": targets}


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The weight called ``name`` in `transformers`: normal with deviation 0.1, scales of norms around 1."""
    drawn = np.random.default_rng(zlib.crc32(name.encode())).normal(0.0, 0.1, shape)
    return (drawn + (len(shape) == 1 and name.endswith("weight"))).astype(np.float32)
