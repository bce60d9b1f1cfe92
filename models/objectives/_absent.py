"""Ids without a token, which get no probability.

Every vocabulary here begins with the same special tokens. A published vocabulary may lack some of them (GPT-2 has no
[MASK]), or have one token for two of them ([CLS] and [SEP] of GPT-2). `models.text.tokenizers.Vocabulary.absent` lists
the ids that no token of the original vocabulary has. The objectives that read published models pass their output logits
through `mask_logits`, so that the softmax is that of the original.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

NEVER = -1e9
"""The logit of an absent id. Its exponential is 0 in float32 and in bfloat16."""


def mask_logits(logits: tf.Tensor, absent: Sequence[int]) -> tf.Tensor:
    """Returns ``logits`` [..., V] with `NEVER` at the ids ``absent``; the same tensor if there are none."""
    if not absent:
        return logits
    mask = np.zeros(logits.shape[-1], bool)
    mask[list(absent)] = True
    return tf.where(tf.constant(mask), tf.constant(NEVER, logits.dtype), logits)


def are_targets(ids: tf.Tensor, absent: Sequence[int]) -> tf.Tensor:
    """Returns whether each of ``ids`` is a token to predict, bool of the same shape: neither padding nor ``absent``."""
    found = tf.not_equal(ids, 0)
    for number in absent:
        found &= tf.not_equal(ids, number)
    return found
