"""A translator that attends to a frozen encoder: the paper's equations in NumPy, BART's layers, and cached decoding."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import erf

from ptmbench.bench.adapt import fused as of_fused
from ptmbench.bench.adapt import heads, settings
from ptmbench.bench.adapt.built import adapted, random_weights
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.fused import network as fused
from ptmbench.bench.adapt.heads import generation
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.generate import Generator, Writing
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.models import load as model
from ptmbench.models.architectures import encoder_decoders
from ptmbench.models.card import Size
from ptmbench.models.layers.core import NO_DROP, Drop
from ptmbench.models.layers.fused import mix_attentions
from ptmbench.models.layers.transformers import built
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks import load, microworld
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example

SHAPE = Size(layers=2, width=32, heads=2, inner=64, length=96)
SMALL = Size(layers=2, width=8, heads=2, inner=12, length=10)
WORDS = Vocabulary(size=60)
SOURCES = np.array([[2, 40, 41, 42, 3], [2, 50, 3, 0, 0]], np.int32)
TARGETS = np.array([[2, 30, 31], [2, 33, 3]], np.int32)


def drawn(*layers):
    """Draws weights that are large enough for every term of a sum to matter."""
    rng = np.random.default_rng(5)
    for variable in {id(v): v for layer in layers for v in layer.trainable_variables}.values():
        variable.assign(rng.normal(float(variable.path.endswith("/scale")), 0.4, variable.shape))


def small(drop_net=0.0, memory=6):
    ours, theirs = encoder_decoders.fused(SMALL, WORDS.size, memory=memory, drop_net=drop_net)
    encoder = built(ours, name="fused_encoder")
    encoder.dropout = 0.0
    decoder = built(theirs, encoder, name="fused_decoder")
    drawn(encoder, decoder)
    return encoder, decoder, np.random.default_rng(6).normal(size=(2, 5, memory)).astype(np.float32)


def normalised(x, norm):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * norm.scale.numpy() + norm.bias.numpy()


def linear(x, layer):
    return x @ layer.kernel.numpy() + layer.bias.numpy()


def attended(q, k, v, seen, attention):
    """Attention, computed head by head: q [S, D], k and v [T, D], seen [S, T]."""
    parts = []
    for head in np.split(np.arange(8), 2):
        scores = np.where(seen, q[:, head] @ k[:, head].T / 2.0, -np.inf)  # the square root of the 4 columns of a head
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        parts.append(weights / weights.sum(-1, keepdims=True) @ v[:, head])
    return linear(np.concatenate(parts, -1), attention.projection)


def cross_attended(x, memory, seen, attention):
    return attended(linear(x, attention.query), *np.split(linear(memory, attention.key_value), 2, -1), seen, attention)


def feed_forward(x, w):
    inner = linear(x, w.feed_forward.inner)
    return normalised(x + linear(inner * (1 + erf(inner / 2**0.5)) / 2, w.feed_forward.outer), w.norm)


def by_hand(encoder, decoder, source, target, memory, share):
    """Logits [S, V] of one row without its padding by equations 1 and 2. ``share`` is the weight of attn_M."""
    source = source[source > 0]
    memory, here = memory[: len(source)], np.ones((1, len(source)), bool)

    def embedded(layer, tokens):
        positions = layer.embeddings.positions.table.numpy()[: len(tokens)]
        return normalised(encoder.token_embedding.numpy()[tokens] + positions, layer.embeddings.norm)

    def mixed(own, other):
        return (1 - share) * own + share * other

    x = embedded(encoder, source)
    for w in encoder.stack:
        own = attended(*np.split(linear(x, w.attention.query_key_value), 3, -1), here, w.attention)
        x = feed_forward(normalised(x + mixed(own, cross_attended(x, memory, here, w.other)), w.attention_norm), w)
    y, past = embedded(decoder, target), np.tri(len(target), dtype=bool)
    for w in decoder.stack:
        own = attended(*np.split(linear(y, w.attention.query_key_value), 3, -1), past, w.attention)
        y = normalised(y + own, w.attention_norm)
        both = mixed(cross_attended(y, x, here, w.cross), cross_attended(y, memory, here, w.other))
        y = feed_forward(normalised(y + both, w.cross_norm), w)
    return y @ encoder.token_embedding.numpy().T


def logits(encoder, decoder, memory, seed=None):
    tokens = tf.constant(SOURCES)
    encoded = encoder({"tokens": tokens, "memory": memory}, seed=seed).tokens
    return decoder(tf.constant(TARGETS), (encoded, memory), tokens, seed).numpy()


@pytest.mark.parametrize("counts", [1.0, 0.0])
def test_layers_are_the_papers_equations(counts):
    encoder, decoder, memory = small()
    encoder.fused.assign(counts)
    found = logits(encoder, decoder, memory)
    for row in range(2):
        expected = by_hand(encoder, decoder, SOURCES[row], TARGETS[row], memory[row], counts / 2)
        assert found[row] == pytest.approx(expected, abs=2e-4)


def test_without_memory_the_network_is_barts():
    encoder, decoder, memory = small()
    encoder.fused.assign(0.0)
    reader, writer = encoder_decoders.bart(SMALL, WORDS.size)
    other = built(reader, name="encoder")
    other.dropout = 0.0
    over = built(writer, other, name="decoder")
    ours = {v.path: v for v in (*encoder.weights, *decoder.weights)}
    for variable in over.weights:
        variable.assign(ours[f"fused_{variable.path}"])
    tokens = tf.constant(SOURCES)
    expected = over(tf.constant(TARGETS), other({"tokens": tokens}).tokens, tokens).numpy()
    assert logits(encoder, decoder, memory) == pytest.approx(expected, abs=1e-5)


def test_drop_net_takes_either_attention_or_the_mean_of_both():
    own, other, both = (2.0, 4.0), (6.0, 0.0), (4.0, 2.0)
    seeds = tf.stack([tf.ones(1000, tf.int32), tf.range(1000)], axis=1)

    @tf.function
    def drawn_at(seeds, fused, drop_net):
        """[N, 2, D]: the outputs of two layers at each of N steps."""
        pair = tf.constant([own]), tf.constant([other])
        return tf.map_fn(
            lambda seed: tf.concat(
                [mix_attentions(*pair, fused, drop_net, Drop(0.0, seed, place)) for place in (7, 17)], axis=0
            ),
            seeds,
            fn_output_signature=tf.float32,
        )

    def taken(seeds, fused, drop_net):
        return [tuple(map(tuple, step)) for step in drawn_at(seeds, fused, drop_net).numpy().tolist()]

    found = taken(seeds, 1.0, 0.6)
    shares = [sum(layer == value for step in found for layer in step) / 2000 for value in (own, other, both)]
    assert sum(shares) == 1.0 and shares == pytest.approx([0.3, 0.3, 0.4], abs=0.045)  # four standard deviations
    alike = sum(first == second for first, second in found) / 1000
    assert alike == pytest.approx(0.3**2 + 0.3**2 + 0.4**2, abs=0.065)  # layers draw independently
    assert {layer for step in taken(seeds[:50], 1.0, 0.0) for layer in step} == {both}
    assert {layer for step in taken(seeds[:50], 1.0, 1.0) for layer in step} == {own, other}
    assert {layer for step in taken(seeds[:50], 0.0, 1.0) for layer in step} == {own}  # the first stage
    writing = mix_attentions(tf.constant([own]), tf.constant([other]), 1.0, 0.6, NO_DROP)
    assert tuple(writing.numpy()[0].tolist()) == both


def test_drop_net_draws_only_in_training_and_depends_on_the_seed():
    encoder, decoder, memory = small(drop_net=1.0)
    seeds = None, tf.constant([0, 1]), tf.constant([0, 9])
    still, one, two = (logits(encoder, decoder, memory, seed) for seed in seeds)
    assert np.array_equal(one, logits(encoder, decoder, memory, seeds[1]))
    assert np.abs(one - still).max() > 1e-2 and np.abs(one - two).max() > 1e-2
    assert still[0] == pytest.approx(by_hand(encoder, decoder, SOURCES[0], TARGETS[0], memory[0], 0.5), abs=2e-4)


def decoding(name, **changes):
    network = model(name).build(SHAPE, WORDS)
    network.encoder.dropout = 0.0
    made = fused.Decoding(network, WORDS, of_fused.Own(dropout=0.0, **changes))
    drawn(made.decoder)
    made.begin()
    return network, made


def test_decoding_token_by_token_equals_decoding_the_whole_text():
    _, made = decoding("bert")
    steps = [  # the tokens of two hypotheses, and the cache column of each position of the second one
        ([[2], [2]], [1]),
        ([[2, 30], [2, 33]], [1, 1]),
        ([[2, 30, 31], [2, 30, 35]], [1, 0, 1]),  # it continues the first one
        ([[2, 30, 31, 32], [2, 30, 35, 36]], [1, 0, 1, 1]),
    ]
    memory, past = made.writer.begin(SOURCES)
    for written, places in steps:
        own = [[0] * len(places), places]
        seen = [[column == place for place in own[k] for column in range(2)] for k in range(2)]
        found, past = made.writer.step(memory, past, tf.constant([written] * 2), tf.constant([seen] * 2))
        for k, text in enumerate(written):
            whole = made.decode({"tokens": SOURCES, "targets": np.array([text] * 2, np.int32)})[:, -1]
            assert found[:, k].numpy() == pytest.approx(whole.numpy(), abs=2e-4)


def test_new_weights_have_gradients_and_the_frozen_encoder_has_none():
    network, made = decoding("bert", drop_net=0.0)
    assert not {id(v) for v in network.encoder.variables} & {id(v) for v in made.own}
    assert len({v.path for v in made.own}) == len({id(v) for v in made.own}) == len(made.own)
    theirs = network.encoder.trainable_variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(made.decode({"tokens": SOURCES, "targets": TARGETS}, tf.constant([0, 1])) ** 2)
    found = tape.gradient(loss, [v.value for v in (*made.own, *theirs)])
    names = [v.path for v, g in zip((*made.own, *theirs), found, strict=True) if g is None]
    assert names == ["fused_encoder/fused", *(v.path for v in theirs)]
    before = made.decode({"tokens": SOURCES, "targets": TARGETS}).numpy()
    network.encoder.token_embedding.assign(-network.encoder.token_embedding.value)
    assert np.abs(made.decode({"tokens": SOURCES, "targets": TARGETS}).numpy() - before).max() > 1e-3


def test_the_second_stage_begins_halfway_with_its_own_learning_rate():
    switch = tf.Variable(1.0)
    named = SimpleNamespace(path="fused_encoder/fused", assign=switch.assign)
    step = SimpleNamespace(variables=[SimpleNamespace(path="fused_encoder/tokens"), named])
    chosen = of_fused.Own(learning_rate=1.0, warmup=0.1)

    def at(number, **changes):
        return fused.rate(step, number, 200, dataclasses.replace(chosen, **changes)), float(switch)

    # Each stage has 100 steps: a warm-up of 10, then decay with the inverse square root of the steps.
    assert at(4) == (pytest.approx(0.5), 0.0) and at(99) == (pytest.approx(0.1**0.5), 0.0)
    assert at(104) == (pytest.approx(0.5), 1.0) and at(199) == (pytest.approx(0.1**0.5), 1.0)
    assert at(9, stages=1) == (pytest.approx(0.5), 1.0) and at(79, stages=1) == (pytest.approx(0.25**0.5), 1.0)
    assert fused.rate(step, 0, 1, chosen) == pytest.approx(1.0) and float(switch) == 1.0  # one step cannot be halved


def test_a_translator_has_its_own_shape():
    network, made = decoding("word2vec")
    assert made.size == Size(layers=1, width=32, heads=1, inner=128, length=96)
    _, made = decoding("bert", own_layers=3, own_width=48)
    assert made.size == Size(layers=3, width=48, heads=1, inner=192, length=96) and made.memory == 32
    assert len(made.encoder.stack.blocks) == len(made.decoder.stack.blocks) == 3
    assert of_fused.Own(own_width=192).shape(32, 2, 9).heads == 3 and of_fused.Own().shape(200, 2, 9).heads == 2
    assert made.decode({"tokens": SOURCES, "targets": TARGETS}).shape == (2, 3, 60)


def test_flops_by_hand():
    """One layer of width 4 and inner width 16, a memory of width 6, 5 source tokens, 3 target tokens, and 60 words."""
    shape = Size(layers=1, width=4, heads=1, inner=16, length=10)
    products = [(5, 4, 12), (5, 4, 4), (5, 4, 4), (5, 6, 8), (5, 4, 4), (5, 4, 16), (5, 16, 4)]  # the encoder's
    products += [(5, 4, 5), (5, 5, 4)] * 2  # its two attentions: scores and sums, all heads together
    products += [(5, 4, 8), (5, 6, 8)]  # keys and values that the decoder attends to
    products += [(3, 4, 12), (3, 4, 4), *[(3, 4, 4)] * 4, (3, 4, 16), (3, 16, 4), (3, 4, 60)]
    products += [(3, 4, 3), (3, 3, 4), *[(3, 4, 5), (3, 5, 4)] * 2]
    alone = sum(2 * a * b * c for a, b, c in products)
    assert of_fused.flops(shape, 6, 60, 5, 3) == alone
    network, made = decoding("bert")
    described = model("bert").describe(SHAPE, WORDS)
    whole = made.decode_flops(described, 5, 3)
    assert whole == described.encoder_flops(5) + of_fused.flops(made.size, 32, 60, 5, 3)


@pytest.mark.parametrize("name, value", [("drop_net", 1.1), ("drop_net", -0.1), ("stages", 3), ("own_layers", -1)])
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(settings.SettingError, match=f"{name}={value} is not valid"):
        settings.changed(of_fused.Own(), {name: value})
    assert {"drop_net", "stages"} <= set(settings.recorded(settings.defaults(Form.GENERATION, "fused")))


def test_other_forms_are_not_applicable():
    with pytest.raises(NotApplicable, match="because the adaptation fused is for generation tasks"):
        heads.of(Form.TAGGING, "fused")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "elmo", "word2vec"])
def test_beam_search_with_cached_states_equals_decoding_the_whole_text(name):
    _, made = decoding(name)
    kept = Generator(made, WORDS, Writing(beam=3))(SOURCES, 6)
    again = Generator(SimpleNamespace(decode=made.decode, writer=None), WORDS, Writing(beam=3))(SOURCES, 6)
    assert np.array_equal(kept.ids, again.ids)
    assert kept.scores == pytest.approx(again.scores, abs=1e-4)
    assert np.abs(kept.scores[0] - kept.scores[1]).max() > 1e-3  # the text depends on the source


@pytest.mark.slow
def test_a_cell_is_trained_and_scored_with_a_frozen_encoder(tmp_path):
    microworld.make(tmp_path / "data")
    tokenizer = Tokenizer.load(corpora.tokenizer([tmp_path / "data" / "corpus"], "wordpiece", 400))
    shape = dataclasses.replace(SHAPE, layers=1)
    context = Context(data=tmp_path / "data", out=tmp_path, shape=shape, tokenizer=tokenizer, keep=True)
    chosen = {"epochs": 4, "length": 64, "target_length": 16, "beam": 2, "coverage": 0.1}
    chosen = settings.changed(settings.defaults(Form.GENERATION, "fused"), chosen)
    cell = Cell(
        row=Row(name="random-bert", kind="random", model="bert", size="tiny"),
        task="multi30k-en-mw",
        task_version=1,
        form=Form.GENERATION,
        data_sha256="x",
        adaptation="fused",
        settings=settings.recorded(chosen),
        seed=0,
        tokenizer="x",
        limit=64,
    )
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    assert result.cost["steps"] == 8 and len(result.curve) == 4
    assert result.curve[-1]["loss"] < result.curve[0]["loss"]
    assert result.cost["flops"] > 0 and result.cost["flops_evaluate"] > 0
    network = adapted("bert", shape, tokenizer, Form.GENERATION, "fused", 0.0, settings.baked(chosen))
    encoder = model("bert").describe(shape, tokenizer.vocabulary).parameters().total
    assert result.cost["parameters"] == encoder + sum(int(np.prod(v.shape)) for v in network.own)
    kept = checkpoint.read(next((tmp_path / "adapted").iterdir())).arrays()
    assert all(np.array_equal(kept[f"adapted/{i:03d}"], v.numpy()) for i, v in enumerate(network.own))
    assert network.own[-1].numpy() == 1.0 and network.step.optimizer.iterations.numpy() == 8
    first = random_weights("bert", shape, tokenizer, 0)
    assert all(np.array_equal(v, first[v.path]) for v in network.network.encoder.variables)
    assert not {v.path for v in network.learning} & set(first)


def test_training_flops_have_no_backward_pass_of_the_frozen_encoder():
    """A step costs three forward passes of the translator and one of the frozen encoder."""
    tokenizer = Tokenizer.train("wordpiece", ["one two three four five six seven eight"] * 20, 90)
    chosen = settings.defaults(Form.GENERATION, "fused")
    network = adapted("bert", SHAPE, tokenizer, Form.GENERATION, "fused", 0.0, settings.baked(chosen))
    codec = generation.Codec(load("multi30k"), tokenizer, chosen, [])
    rows = codec.rows([Example(id="0", inputs=("one two three",), gold=("four five",))])
    source, target = (np.count_nonzero(rows[0].arrays[name]) for name in ("tokens", "targets"))
    alone = of_fused.flops(network.decoding.size, 32, tokenizer.vocabulary.size, source, target)
    frozen = model("bert").describe(SHAPE, tokenizer.vocabulary).encoder_flops(source)
    assert network.forward_flops(rows) == pytest.approx(frozen + alone)
    assert network.training_flops(rows) == pytest.approx(frozen + 3 * alone)
    planned = Network(model("bert"), SHAPE, Vocabulary(size=50))
    learning, _ = chosen.flops(planned, Form.GENERATION)
    alone = of_fused.flops(network.decoding.size, 32, 50, chosen.length, chosen.target_length)
    assert learning == pytest.approx(planned.reading(chosen.length) + 3 * alone)
