"""Stacked: the vectors of several frozen models side by side, word by word, under a tagger that learns.

Akbik, Blythe and Vollgraf (2018), section 2.3: beside its contextual string embedding a word has a classic vector, and
both go, as one longer vector, into a BiLSTM-CRF. With v_m(w) what model m has at the first token of word w,

    x_w = [N v_0(w); N v_1(w); ...]        h = [forward LSTM(x); backward LSTM(x)]

and the head of tagging reads h, with a chain of tags (``crf``). Model 0 is the cell's own; those that ``beside`` names
are pre-trained on the same corpus, at the same size and budget, each over tokens of the kind that its paper has: for
GloVe words, beside Flair's characters. Words are what they share, and so the LSTM reads words, whatever they are cut
into. v_m is the model's top layer, for Flair the states at both ends of the word; ``layers`` says otherwise for all.
``beside=`` names none: the same tagger over the cell's own model, which is what a stack is to be compared with.

A random twin has random weights in place of the cell's own model only, and beside it the same pre-trained ones: the
difference is what pre-training brought where those are there already, not what they bring themselves.

Other forms are not applicable: their heads read one vector of a text, or a token's, and tokens of two models do not
meet. Differences: N brings every vector to mean 0 and deviation 1, for norms differ several fold between models;
dropout falls on single columns of words, in the paper on the same ones throughout a sentence; the optimizer is that of
every adaptation, where the paper's tagger has SGD.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from ptmbench.bench.adapt import taglm
from ptmbench.bench.adapt.settings.stacked import Own
from ptmbench.models.architectures.parts import dropout, layer_norm
from ptmbench.tasks.forms import Form

SUMMARY = "frozen vectors of the model and of others beside it, word by word; a recurrent tagger learns (Flair)"
HEADS = {Form.TAGGING: "stacked"}
Step = taglm.Step


class Reading(keras.layers.Layer):
    """The tagger's states of words, [B, W, 2 C], in the place of the encoder's of tokens. ``pooled`` stays.

    ``neighbours`` are the encoders of the models beside. Of model m the batch has ``firsts_m`` int32 [B, W], where the
    words' first tokens are; ``places`` [B, W] is below 0 behind the last word. Where it has a ``seed``, dropout falls
    on what the LSTM reads and on what the head does.
    """

    def __init__(self, encoder: Any, settings: Own, *neighbours: Any):
        super().__init__(name="stacked")
        encoders = (encoder, *neighbours)
        self.dropout = settings.dropout
        self.which = {"embedding": slice(1), "all": slice(None)}.get(settings.layers, slice(-1, None))
        if settings.layers == "all":
            self.mixes = [
                self.add_weight(shape=(one.depth + 1,), initializer="zeros", name=f"mix_{number}")
                for number, one in enumerate(encoders)
            ]
        width = sum(one.width for one in encoders)
        self.tagger = taglm.BiLstm(width, settings.hidden, name="tagger")
        self.glorot = self.tagger.trainable_variables
        self.flops_per_word = settings.tagger_flops(width)

    def call(self, encoding: Any, batch: dict[str, Any], *neighbours: Any) -> Any:
        seed, count = batch.get("seed"), tf.math.count_nonzero(batch["places"] >= 0, axis=1, dtype=tf.int32)  # [B]
        encodings = enumerate((encoding, *neighbours))
        x = ops.concatenate([self._words(one, number, batch) for number, one in encodings], axis=-1)  # [B, W, sum of D]
        states = self.tagger(dropout(x, self.dropout, seed, 0), count)
        return encoding._replace(tokens=dropout(states, self.dropout, seed, 1))

    def _words(self, encoding: Any, number: int, batch: dict[str, Any]) -> Any:
        """The words' vectors of one model, [B, W, D]."""
        firsts = batch[f"firsts_{number}"]
        words = [tf.gather(layer, firsts, batch_dims=1) for layer in encoding.layers[self.which]]
        layers = [layer_norm(layer, 1.0, 0.0, 1e-6) for layer in words]
        share = ops.softmax(self.mixes[number]) if len(layers) > 1 else [1.0]
        return sum(share[i] * layer for i, layer in enumerate(layers))
