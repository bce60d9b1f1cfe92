"""Translation without pairs in TensorFlow: one decoder for two languages, back-translation and noise."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.adapt.seq2seq.network import Decoding as NewDecoder
from ptmbench.bench.adapt.unsupervised import Own
from ptmbench.bench.adapt.unsupervised.head import Text, row, symbols
from ptmbench.bench.engine.cost import Decoder
from ptmbench.bench.engine.generate import Writing
from ptmbench.models.costs import Model
from ptmbench.models.layers.operations import HIDDEN
from ptmbench.models.text.tokenizers import Vocabulary


class Writer:
    """A `models.pretrainable.Writer` for a network whose texts begin with the language symbol at the end of the
    source."""

    def __init__(self, writer: Any, decoding: "Decoding"):
        self.writer, self.decoding = writer, decoding

    def begin(self, tokens: Any, **channels: Any) -> tuple[Any, Any]:
        tokens, first = self.decoding.parted(tokens)
        memory, past = self.writer.begin(tokens, **channels)
        return (first, memory), past

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        first, memory = memory
        begun = tf.repeat(first[:, None, None], tf.shape(written)[1], axis=1)  # [B, K, 1]
        logits, past = self.writer.step(memory, past, tf.concat([begun, written[:, :, 1:]], axis=2), seen)
        return logits + self.decoding.barred(first)[:, None], past


class Decoding(parts.Decoding):
    """``decode`` and ``writer`` for two languages, of ``network`` or of its encoder with a new decoder."""

    def __init__(self, network: Any, vocabulary: Vocabulary, settings: Own):
        new = network.decode is None
        self.under = NewDecoder(network, vocabulary, settings) if new else parts.Decoding.of(network)
        self.symbols, self.own = symbols(vocabulary), self.under.own
        self.writer = Writer(self.under.writer, self) if self.under.writer else None
        self.first, shape = vocabulary.first, (2, vocabulary.size)
        self.unmet = tf.Variable(tf.zeros(shape), trainable=False)
        """[2, V]: a large negative number for pieces that have not occurred in texts of each language, 0 for others."""
        self.remembered = [self.unmet]
        self.constrains = tf.Variable(0.0, trainable=False)
        """1 if only pieces that have occurred may be written, 0 without this constraint."""

    def parted(self, tokens: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Splits ``tokens`` [B, T] into the tokens with padding in place of the language symbol, and the symbol [B]."""
        tokens = tf.convert_to_tensor(tokens, tf.int32)
        symbol = tf.reduce_any([tf.equal(tokens, one) for one in self.symbols], axis=0)
        return tf.where(symbol, 0, tokens), tf.reduce_max(tf.where(symbol, tokens, 0), axis=1)

    def decode(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Next-token logits [B, S, V] after each of ``targets`` [B, S], with the language symbol as first target."""
        tokens, first = self.parted(batch["tokens"])
        targets = tf.concat([first[:, None], tf.convert_to_tensor(batch["targets"], tf.int32)[:, 1:]], axis=1)
        logits = self.under.decode({**batch, "tokens": tokens, "targets": targets}, seed)
        return logits if self.writer else logits + self.barred(first)[:, None]  # without a writer, this writes too

    def barred(self, first: tf.Tensor) -> tf.Tensor:
        """The penalties [B, V] to add to the logits while writing is constrained, for the languages of the symbols
        ``first`` [B]."""
        return self.constrains * tf.gather(self.unmet, tf.cast(tf.equal(first, self.symbols[1]), tf.int32))

    def meet(self, texts: Sequence[Text]) -> None:
        """Allows the pieces of ``texts`` in their languages."""
        unmet = np.array(self.unmet)
        for text in texts:
            unmet[text.language, text.ids] = 0.0
        self.unmet.assign(unmet)

    def begin(self) -> None:
        """Initialises a new decoder (`parts.Decoding.begin`), and forgets the pieces that have occurred."""
        self.unmet.assign(np.where(np.arange(self.unmet.shape[1]) < self.first, 0.0, [[HIDDEN]] * 2))
        self.under.begin()

    def counts(self, model: Model) -> Decoder:
        return self.under.counts(model)


def make(adapted: Any, rows: Sequence[InputRow], settings: Own, seed: tuple[int, int]) -> tuple[list[InputRow], float]:
    """The training rows of a step for the texts of ``rows``, and the FLOPs of back-translation. Each text follows its
    translation by the current weights of ``adapted`` in one row, and its noisy version in another."""
    vocabulary, rng = adapted.vocabulary, np.random.default_rng([*seed, 4])
    texts: list[Text] = [one.note for one in rows]
    read = [text.in_language(text.language, text.ids.tolist()) for text in texts]
    asked = [row(vocabulary, settings, own, [], 1 - text.language, 0) for own, text in zip(read, texts, strict=True)]
    longest = min(settings.target_length - 1, 3 * max(len(text.ids) for text in texts) // 2 + 5)
    how = Writing(sample=bool(settings.back_sample))
    adapted.decoding.meet(texts)
    adapted.decoding.constrains.assign(float(seed[1] < settings.constrained))
    written = adapted.write(how, stack(asked), longest, (seed[0] << 32) + seed[1])
    adapted.decoding.constrains.assign(0.0)
    made = []
    for one, text, ids in zip(rows, texts, written, strict=True):
        source = text.in_language(1 - text.language, ids[ids >= vocabulary.first].tolist())
        made.append(row(vocabulary, settings, source, text.ids.tolist(), text.language, one.example))
    # Writing a text costs as much as a forward pass over the source and the text.
    spent = [InputRow({**one.arrays, "targets": ids}, 0) for one, ids in zip(asked, written, strict=True)]
    if settings.denoising:
        for one, text in zip(rows, texts, strict=True):
            damaged = text.in_language(text.language, noise(text, rng, settings, vocabulary))
            made.append(
                row(vocabulary, settings, damaged, text.ids.tolist(), text.language, one.example, settings.denoising)
            )
    return made, adapted.forward_flops(spent)


def noise(text: Text, rng: np.random.Generator, settings: Own, vocabulary: Vocabulary) -> list[int]:
    """The pieces of ``text`` with noise. Words are moved by at most ``shuffle`` places, and a share ``drop`` of them is
    dropped, but never all. The pieces of a share ``blank`` are replaced by [MASK].

    Lample et al. (2018), section 2.3: a word at place i moves to the rank of i + u, u uniform from 0 to shuffle + 1.
    """
    words = np.split(text.ids, np.flatnonzero(text.heads)[1:])
    order = np.argsort(np.arange(len(words)) + rng.random(len(words)) * (settings.shuffle + 1), kind="stable")
    kept, blank = rng.random(len(words)) >= settings.drop, rng.random(len(words)) < settings.blank
    if not kept.any():
        kept[rng.integers(len(words))] = True
    found: list[int] = []
    for i in order[kept[order]]:
        found += [vocabulary.mask] * len(words[i]) if blank[i] else words[i].tolist()
    return found
