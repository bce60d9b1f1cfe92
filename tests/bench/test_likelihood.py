"""Windows over long texts: every token is scored once, given the tokens before it."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt.likelihood import network as likelihood
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.task import Example

WORDS = ["the", "old", "miller", "lives", "near", "a", "cold", "river", "and", "sings"]
TOKENIZER = Tokenizer.train("word", [" ".join(WORDS)] * 3, 40)
TEXT = Example(id="0", inputs=(" ".join(WORDS * 3),))  # 30 tokens


@pytest.mark.parametrize("length, stride", [(40, 8), (31, 8), (12, 4), (12, 11), (12, 12), (12, 64), (2, 64)])
def test_every_token_is_scored_once_whatever_the_stride(length, stride):
    settings, ids = Settings(length=length, stride=stride), TOKENIZER.encode(TEXT.inputs)[0]
    found = likelihood.windows(TOKENIZER, settings, [TEXT])
    assert [token for _, begin, own in found for token in own[begin:]] == ids
    least = [0, *(max(0, length - 1 - stride) for _ in found[1:])]  # tokens of context; one position is for [CLS]
    assert [begin for _, begin, _ in found] == least and all(len(own) < length for _, _, own in found)
    surprise = np.arange(TOKENIZER.vocabulary.size, dtype=np.float32)
    network = SimpleNamespace(log_likelihood=lambda batch: -tf.gather(tf.constant(surprise), batch["tokens"]))
    ((nats, words, _),) = likelihood.predictions(network, "x", TOKENIZER, settings, [TEXT], found)
    assert (nats, words) == (sum(ids), 30)
