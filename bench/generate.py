"""Writing: greedy decoding, beam search and sampling over any model that can `decode`.

A search keeps K hypotheses a row side by side. At each place their next tokens are asked for in one batch, the best
2 K continuations of a row are taken (so that K go on even if K of them end), those that end with [SEP] among the best
K are put aside under

    score(y) = ln p(y | x) / |y|^alpha

and the K best of the others go on. |y| counts [SEP], and alpha = 0 means no normalisation; greedy decoding is K = 1.
The best score is the answer once K hypotheses have ended. At the longest length whatever stands there counts as ended.
Of equals the earlier hypothesis and the lower id win, so a row's answer depends on nothing but the row.

With ``coverage`` beta a text loses where it leaves out what it should tell (Wu et al., 2016, equation 14):

    score(y) = ln p(y | x) / |y|^alpha + beta sum_i ln min(sum_j a_ji, 1)

over the source's tokens i, padding left out; a_ji is how much the network looks at x_i to say y_j, the mean over the
heads of its last attention. What goes on is chosen by ln p alone, as before.

Sources: beam search with normalised scores, Sutskever et al. (2014), section 3.2, and Wu et al. (2016), section 7,
whose length penalty has another form; a power of it is what fairseq and transformers compute. Blocked n-grams: Paulus
et al. (2018), section 2.5. Sampling from the k likeliest tokens: Fan et al. (2018), section 5.4; from the likeliest
ones that hold a share p: Holtzman et al. (2020), section 3.1.

The past is never moved when hypotheses branch (`models.pretrainable.Writer`). One graph serves every batch and length.
A step's products are too small for several threads to share, but rows are apart: each thread writes for its own. An
accelerator takes all rows at once.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bench import environment
from bench.adapt import NotApplicable
from bench.cost import Traced
from models.architectures.parts import watching
from models.architectures.products import accelerated
from models.pretrainable import Pretrainable
from models.tokenizers import Vocabulary

_NEVER = -1e9
"""The score of what may not be: finite, so that sums of it stay numbers."""
_LOWEST = _NEVER / 10
"""What is below was forbidden on its way."""
_GROUP = 64
"""Ids at most of which a maximum is taken at once."""


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How a text is chosen. The defaults are greedy decoding."""

    beam: int = 1
    """Hypotheses of a row; with ``sample`` the number of independent samples."""
    length_penalty: float = 1.0
    """alpha: larger favours longer texts, 0 scores by ln p alone."""
    coverage: float = 0.0
    """beta: larger favours texts that look at every token of the source; samples do not care."""
    no_repeat_ngram: int = 0
    """No run of so many tokens occurs twice in a text; 0 lets them."""
    sample: bool = False
    temperature: float = 1.0
    """Samples are drawn from logits / temperature: below 1 likely tokens become likelier."""
    top_k: int = 0
    """Samples are among the k likeliest tokens; 0 is all of them."""
    top_p: float = 1.0
    """Samples are among the fewest likeliest tokens that together have this probability."""


class Written(NamedTuple):
    """What was written for each row."""

    ids: np.ndarray
    """int32 [B, K, S]: tokens up to and with [SEP], then padding; the best text first, samples as they were drawn."""
    scores: np.ndarray
    """float32 [B, K]: score(y), of samples ln p(y | x). -1e9 where fewer than K texts had ended."""


class Generator:
    """Writes with ``network`` as ``writing`` says; padding and [CLS] are never written."""

    def __init__(self, network: Pretrainable, vocabulary: Vocabulary, writing: Writing):
        if network.decode is None:
            raise ValueError("This model has no decoder to write with: take one with `decode`, such as t5.")
        if writing.coverage and network.writer is None:
            raise NotApplicable(
                "no-coverage", "because this model reads all again for each token, without telling where it looks."
            )
        if writing.beam < 1 or writing.temperature <= 0 or not 0 < writing.top_p <= 1:
            raise ValueError("Writing takes a beam of 1 or more, a temperature above 0 and a top_p above 0, up to 1.")
        self.writer = network.writer or _Rereader(network.decode)
        self.vocabulary, self.writing = vocabulary, writing
        self._traced: Any = None

    def __call__(self, tokens: np.ndarray, longest: int, seed: int = 0) -> Written:
        """Texts of at most ``longest`` tokens for ``tokens`` int32 [B, T]. ``seed`` draws samples: the same ones for
        the same source, whatever stands in the batch beside it."""
        if self._traced is None:
            form = _sampled if self.writing.sample else _searched
            function = partial(form, self.writer, self.vocabulary, self.writing)
            specs = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.int32)]
            specs += [tf.TensorSpec([None, self.writing.beam, None], tf.float32)] * self.writing.sample
            self._traced = Traced(lambda: tf.function(function, autograph=False).get_concrete_function(*specs))
            return self._write(tokens, longest, seed)  # in one: TensorFlow also optimises the graph now
        parts = np.array_split(tokens, min(_writers(), len(tokens)))
        with ThreadPoolExecutor(len(parts)) as pool:
            written = list(pool.map(partial(self._write, longest=longest, seed=seed), parts))
        most = max(part.ids.shape[2] for part in written)
        ids = [np.pad(part.ids, [(0, 0), (0, 0), (0, most - part.ids.shape[2])]) for part in written]
        return Written(np.concatenate(ids), np.concatenate([part.scores for part in written]))

    def _write(self, tokens: np.ndarray, longest: int, seed: int) -> Written:
        arguments = [tf.convert_to_tensor(tokens, tf.int32), tf.constant(longest)]
        if self.writing.sample:
            arguments.append(tf.constant(draws(tokens, self.writing.beam, longest, seed)))
        return Written(*(part.numpy() for part in self._traced(*arguments)))


def _writers() -> int:
    """How many threads write at once."""
    return 1 if accelerated() else environment.threads()


def draws(tokens: np.ndarray, samples: int, longest: int, seed: int) -> np.ndarray:
    """Uniform numbers float32 [B, ``samples``, ``longest``] that follow from ``seed`` and each row's own tokens."""
    rows = [np.random.default_rng([seed, 3, *row[row > 0].tolist()]) for row in np.asarray(tokens)]
    return np.stack([rng.random((samples, longest), dtype=np.float32) for rng in rows])


class _Rereader:
    """The `Writer` of a model that has none: everything is read again for each token."""

    def __init__(self, decode: Callable):
        self.decode = decode

    def begin(self, tokens: tf.Tensor) -> tuple[Any, Any]:
        return tokens, ()

    def step(self, memory: tf.Tensor, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        rows, beam, length = (tf.shape(written)[axis] for axis in range(3))
        targets = tf.reshape(written, [rows * beam, length])
        logits = self.decode({"tokens": tf.repeat(memory, beam, axis=0), "targets": targets}, None)[:, -1]  # [B * K, V]
        return tf.reshape(logits, [rows, beam, logits.shape[-1]]), past


def _searched(
    writer: Any, vocabulary: Vocabulary, writing: Writing, tokens: tf.Tensor, longest: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """`Written` for ``tokens`` [B, T], by beam search."""
    beam, rows = writing.beam, tf.shape(tokens)[0]
    memory, past = writer.begin(tokens)

    def body(
        written: tf.Tensor, origin: tf.Tensor, scores: tf.Tensor, ended: Any, full: tf.Tensor, past: Any, looked: Any
    ) -> tuple:
        # written, origin [B, K, S]; ended: ids [B, K, S - 1] and scores [B, K]; full [B]; looked [B, K, T] or ()
        length = tf.shape(written)[2]
        with watching() as looks:
            logits, past = writer.step(memory, past, written, _seen(origin, beam))  # [B, K, V]
        totals, parents, ids = _continuations(logits, written, scores, vocabulary, writing)  # [B, 2 K] each
        ends = tf.equal(ids, vocabulary.sep)

        # The pool: what ended among the best K, beside what had ended before.
        size = tf.cast(length, tf.float32) ** writing.length_penalty
        counts = (ends | (length >= longest))[:, :beam] & (totals[:, :beam] > _LOWEST) & ~full[:, None]
        texts = _appended(written, parents[:, :beam], ids[:, :beam])[:, :, 1:]  # [B, K, S]
        pool_ids = tf.concat([tf.pad(ended[0], [[0, 0], [0, 0], [0, 1]]), texts], axis=1)  # [B, 2 K, S]
        values = totals[:, :beam] / size
        if writing.coverage:
            looked += _looks(looks, beam, tf.shape(tokens)[1])
            values += writing.coverage * tf.gather(_covered(looked, tokens), parents[:, :beam], batch_dims=1)
        pool = tf.concat([ended[1], tf.where(counts, values, _NEVER)], axis=1)  # [B, 2 K]
        pool, best = tf.math.top_k(pool, beam)
        ended = (tf.gather(pool_ids, best, batch_dims=1), pool)

        # What goes on: the best K that did not end, in the order of their scores.
        totals, best = tf.math.top_k(tf.where(ends, _NEVER, totals), beam)
        parents, ids = tf.gather(parents, best, batch_dims=1), tf.gather(ids, best, batch_dims=1)
        full |= pool[:, -1] > _LOWEST
        here = tf.broadcast_to(tf.range(beam), [rows, beam])
        looked = tf.gather(looked, parents, batch_dims=1) if writing.coverage else looked
        return _appended(written, parents, ids), _appended(origin, parents, here), totals, ended, full, past, looked

    first = tf.where(tf.range(beam) > 0, _NEVER, 0.0)  # K times the same beginning: one of them counts
    state = (
        tf.fill([rows, beam, 1], vocabulary.cls),
        tf.broadcast_to(tf.range(beam)[:, None], [rows, beam, 1]),
        tf.broadcast_to(first, [rows, beam]),
        (tf.zeros([rows, beam, 0], tf.int32), tf.fill([rows, beam], _NEVER)),
        tf.zeros([rows], tf.bool),
        past,
        tf.zeros([rows, beam, tf.shape(tokens)[1]]) if writing.coverage else (),
    )

    def more(written: tf.Tensor, *others: Any) -> tf.Tensor:
        return (tf.shape(written)[2] <= longest) & ~tf.reduce_all(others[3])

    *_, ended, _, _, _ = tf.while_loop(more, body, state, shape_invariants=_growing(state, beam))
    return ended


def _sampled(
    writer: Any, vocabulary: Vocabulary, writing: Writing, tokens: tf.Tensor, longest: tf.Tensor, draws: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """`Written` for ``tokens`` [B, T], by sampling with ``draws`` float32 [B, K, ``longest``]."""
    beam, rows = writing.beam, tf.shape(tokens)[0]
    memory, past = writer.begin(tokens)
    own = tf.broadcast_to(tf.range(beam)[:, None], [rows, beam, 1])

    def body(written: tf.Tensor, scores: tf.Tensor, open_: tf.Tensor, past: Any) -> tuple:
        length = tf.shape(written)[2]
        logits, past = writer.step(memory, past, written, _seen(tf.repeat(own, length, axis=2), beam))
        logits = tf.cast(logits, tf.float32)
        whole = tf.reduce_logsumexp(logits, axis=-1)  # [B, K]
        allowed = _allowed(logits, written, vocabulary, writing)
        most = min(writing.top_k or logits.shape[-1], logits.shape[-1])
        values, ids = tf.math.top_k(allowed, most)  # [B, K, C], the likeliest first
        chances = tf.nn.softmax(values / writing.temperature)
        before = tf.cumsum(chances, axis=-1, exclusive=True)
        chances = tf.where(before < writing.top_p, chances, 0.0)
        reached = tf.cumsum(chances, axis=-1)
        aim = draws[:, :, length - 1, None] * reached[..., -1:]
        last = tf.math.count_nonzero(chances, axis=-1, dtype=tf.int32) - 1
        place = tf.minimum(tf.math.count_nonzero(reached <= aim, axis=-1, dtype=tf.int32), last)  # [B, K]
        chosen = tf.gather(ids, place, batch_dims=2)
        gained = tf.gather(values, place, batch_dims=2) - whole
        scores += tf.where(open_, gained, 0.0)
        written = tf.concat([written, tf.where(open_, chosen, vocabulary.pad)[:, :, None]], axis=2)
        return written, scores, open_ & tf.not_equal(chosen, vocabulary.sep), past

    state = (
        tf.fill([rows, beam, 1], vocabulary.cls),
        tf.zeros([rows, beam]),
        tf.ones([rows, beam], tf.bool),
        past,
    )

    def more(written: tf.Tensor, *others: Any) -> tf.Tensor:
        return (tf.shape(written)[2] <= longest) & tf.reduce_any(others[1])

    written, scores, _, _ = tf.while_loop(more, body, state, shape_invariants=_growing(state, beam))
    return written[:, :, 1:], scores


def _looks(looks: list[tf.Tensor], beam: int, length: tf.Tensor) -> tf.Tensor:
    """float32 [B, K, T]: how much each hypothesis looks at each of the ``length`` tokens of the source, from the
    weights of all attentions of a step. The source's keys come first where there are others, and the queries that
    predict come last."""
    if not looks:
        raise NotApplicable("no-coverage", "because this model has no attention to take a coverage penalty from.")
    return tf.cast(tf.reduce_mean(looks[-1][:, :, -beam:, :length], axis=1), tf.float32)


def _covered(looked: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """[B, K], 0 at most: the sum of the logarithms of what was ``looked`` [B, K, T] at, each at most 1, for the
    ``tokens`` [B, T]."""
    each = tf.math.log(tf.clip_by_value(looked, 1e-9, 1.0))  # a weight can be too small for float32
    return tf.reduce_sum(tf.where(tf.not_equal(tokens, 0)[:, None], each, 0.0), axis=2)


def _seen(origin: tf.Tensor, beam: int) -> tf.Tensor:
    """Bool [B, K, S * K], from the hypothesis whose column each place [B, K, S] of a hypothesis stands in."""
    rows, length = tf.shape(origin)[0], tf.shape(origin)[2]
    return tf.reshape(tf.one_hot(origin, beam, True, False), [rows, beam, length * beam])


def _appended(texts: tf.Tensor, parents: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """``texts`` [B, K, S] of the ``parents`` [B, N], each with one more entry, ``last`` [B, N]: [B, N, S + 1]."""
    return tf.concat([tf.gather(texts, parents, batch_dims=1), last[:, :, None]], axis=2)


def _continuations(
    logits: tf.Tensor, written: tf.Tensor, scores: tf.Tensor, vocabulary: Vocabulary, writing: Writing
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The best 2 K continuations of each row: ln p, the hypothesis that each continues, and its token, [B, 2 K]."""
    beam, logits = writing.beam, tf.cast(logits, tf.float32)
    each = min(2 * beam + 2, logits.shape[-1])  # of one hypothesis no more can be among the best, and two are no words
    whole = tf.reduce_logsumexp(logits, axis=-1)  # [B, K]
    values, ids = _largest(_unrepeated(logits, written, writing), each)  # [B, K, C]
    no_word = tf.equal(ids, vocabulary.pad) | tf.equal(ids, vocabulary.cls)
    values = tf.maximum(tf.where(no_word, _NEVER, values - whole[..., None]) + scores[..., None], _NEVER)
    totals, index = tf.math.top_k(tf.reshape(values, [-1, beam * each]), 2 * beam)
    ids = tf.gather(tf.reshape(ids, [-1, beam * each]), index, batch_dims=1)
    return totals, index // each, ids


def _largest(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """`tf.math.top_k` of ``logits`` [B, K, V], of equals the lower id first, in less than half of its time.

    It looks at the numbers one by one, where a maximum takes eight at once: the ``count`` largest of all are among the
    ``count`` groups of ids that have the largest maxima.
    """
    beam, ids = logits.shape[1:]
    size = next(size for size in range(_GROUP, 0, -1) if ids % size == 0)
    if ids // size <= count:
        return tf.math.top_k(logits, count)
    groups = tf.reshape(logits, [-1, ids // size, size])  # [B * K, G, V / G]
    _, best = tf.math.top_k(tf.reduce_max(groups, axis=-1), count)
    best = tf.sort(best)  # of equals in two groups the lower id comes first
    values, index = tf.math.top_k(tf.reshape(tf.gather(groups, best, batch_dims=1), [-1, count * size]), count)
    found = tf.gather(best, index // size, batch_dims=1) * size + index % size
    return tf.reshape(values, [-1, beam, count]), tf.reshape(found, [-1, beam, count])


def _allowed(logits: tf.Tensor, written: tf.Tensor, vocabulary: Vocabulary, writing: Writing) -> tf.Tensor:
    """``logits`` [B, K, V] with what may not follow ``written`` [B, K, S] at `_NEVER`."""
    words = np.ones(logits.shape[-1], bool)
    words[[vocabulary.pad, vocabulary.cls]] = False  # padding and the start symbol are no words
    return _unrepeated(tf.where(words, logits, _NEVER), written, writing)


def _unrepeated(logits: tf.Tensor, written: tf.Tensor, writing: Writing) -> tf.Tensor:
    """``logits`` [B, K, V] with what would repeat an n-gram of ``written`` [B, K, S] at `_NEVER`."""
    size = writing.no_repeat_ngram
    if not size:
        return logits
    length = tf.shape(written)[2]
    windows = tf.maximum(length - size + 1, 0)  # runs of n tokens, each of which must not come again
    same = tf.ones([tf.shape(written)[0], written.shape[1], windows], tf.bool)
    for step in range(size - 1):
        end = tf.maximum(length - size + 1 + step, 0)  # where there is no window, any token does
        same &= tf.equal(written[:, :, step : step + windows], written[:, :, end, None])
    where = tf.where(same)  # [M, 3]
    ids = tf.gather_nd(written, where + tf.constant([0, 0, size - 1], tf.int64))
    where = tf.concat([where[:, :2], tf.cast(ids, tf.int64)[:, None]], axis=1)
    return tf.tensor_scatter_nd_update(logits, where, tf.fill([tf.shape(where)[0]], _NEVER))


def _growing(state: Any, beam: int) -> Any:
    """The shapes of a loop's ``state``: rows and what grows, the third axis, are free."""

    def free(tensor: tf.Tensor) -> tf.TensorShape:
        dims = [None, *tensor.shape[1:]]
        if len(dims) in (2, 3):
            dims[1] = beam
        if len(dims) > 2:
            dims[2] = None
        return tf.TensorShape(dims)

    return tf.nest.map_structure(free, state)
