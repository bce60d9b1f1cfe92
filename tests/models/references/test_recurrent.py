"""AWD-LSTM and what ULMFiT does with it against fastai 2, Flair against flair: the same weights on both sides."""

from collections import deque
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import ulmfit
from ptmbench.bench.adapt.settings.ulmfit import Own
from ptmbench.models.architectures.recurrent_decoders import awd_lstm
from ptmbench.models.architectures.recurrent_encoders import flair as flair_config
from ptmbench.models.card import Size
from ptmbench.models.layers import core, recurrent
from ptmbench.models.layers.recurrent_networks import Awd, Strings, built
from ptmbench.models.layers.vector_heads import BiLmConfig
from ptmbench.models.objectives import awd_lm
from ptmbench.models.objectives.bilm import BiLm
from ptmbench.models.tokenizers import Tokenizer
from tests.models.references.common import TOLERANCE, check_loss, difference, long, torch
from tests.models.test_recurrent import kernels

V = 60
SIZE = Size(layers=3, width=10, inner=14, length=40)
TOKENS = np.random.default_rng(1).integers(1, V, (3, 17)).astype(np.int32)
TEXT = ["the sky is blue, and the sea is not.", "hello, a tree is an idea"] * 9
SENTENCES = [["the", "sea", ",", "hello"], ["a", "tree", "is", "blue", "and", "not"]]


def tensor(value) -> "torch.Tensor":
    return torch.tensor(np.array(value, np.float32))


def gates(value) -> "torch.Tensor":
    """From g, i, f, o in the last axis to torch's i, f, g, o in the first."""
    g, i, f, o = np.split(np.asarray(value), 4, axis=-1)
    return tensor(np.concatenate([i, f, g, o], axis=-1).T)


def shaken(network: keras.layers.Layer) -> keras.layers.Layer:
    """``network`` without dropout, every weight away from its start."""
    network.dropout = 0.0
    for variable in network.variables:
        variable.assign(np.asarray(variable) + 0.2 * np.random.default_rng(0).normal(size=variable.shape))
    return network


def take(lstm: "torch.nn.LSTM", layers: list[SimpleNamespace]) -> None:
    """Our ``layers`` into torch's, whose two biases add up to ours."""
    for index, layer in enumerate(layers):
        values = dict(zip(("weight_ih", "bias_ih", "weight_hh"), kernels(layer), strict=True))
        for name, value in values.items():
            getattr(lstm, f"{name}_l{index}").data.copy_(gates(value))
        second = getattr(lstm, f"bias_hh_l{index}").data.normal_()
        getattr(lstm, f"bias_ih_l{index}").data.sub_(second)


def awd() -> tuple[Awd, "torch.nn.Module", SimpleNamespace]:
    """Our network, fastai's language model with the same weights and the rates of its classifier, which are those of
    the paper, and the modules of fastai."""
    awdlstm = pytest.importorskip("fastai.text.models.awdlstm", reason="the reference needs fastai 2")
    core = pytest.importorskip("fastai.text.models.core")
    keras.utils.set_random_seed(1)
    ours = shaken(built(awd_lstm(SIZE, V), name="encoder"))
    shape = {"emb_sz": SIZE.width, "n_hid": SIZE.inner, "n_layers": SIZE.layers, "pad_token": 0}
    config = {**awdlstm.awd_lstm_clas_config, **shape, "tie_weights": True, "out_bias": True}
    torch.manual_seed(0)
    theirs = core.get_language_model(awdlstm.AWD_LSTM, V, config)
    theirs[0].encoder.weight.data.copy_(tensor(ours.token_embedding))
    for wrapped, layer in zip(theirs[0].rnns, ours.stack, strict=True):
        take(wrapped.module, [layer])
        wrapped.weight_hh_l0_raw.data.copy_(gates(layer.recurrent.kernel))
    return ours, theirs, SimpleNamespace(awdlstm=awdlstm, core=core)


def test_awd_lstm_is_fastais():
    ours, theirs, _ = awd()
    _, raw, _ = theirs.eval()(long(TOKENS))
    assert difference(ours.outputs(tf.constant(TOKENS))[0], raw) < TOLERANCE


def masks_of(awdlstm, monkeypatch) -> deque:
    """(rate, mask) of whatever fastai drops, in its order; what it computes stays what it is."""
    seen, mask_of, dropout = deque(), awdlstm.dropout_mask, awdlstm.F.dropout

    def masked(x, size, p):
        seen.append((p, mask_of(x, size, p)))
        return seen[-1][1]

    def dropped(x, p):
        seen.append((p, dropout(torch.ones_like(x), p=p)))
        return x * seen[-1][1]

    monkeypatch.setattr(awdlstm, "dropout_mask", masked)
    monkeypatch.setattr(awdlstm.F, "dropout", dropped)
    return seen


def replay(seen: deque):
    """Our dropout with the masks that fastai had, each at the same rate over axes of the same length. Texts are rows
    there, and gates in another order."""

    def dropout(x, rate, seed, salt):
        p, mask = seen.popleft()
        assert rate == pytest.approx(p)
        mask = mask.numpy()
        if salt == 0:  # [V, 1]: words
            mask = mask[:, 0]
        elif salt >= 100:  # [4 C, C]: recurrent weights
            i, f, g, o = np.split(mask.T, 4, axis=1)
            mask = np.concatenate([g, i, f, o], axis=1)
        elif x.shape[0] == 1:  # [B, 1, D]: states, one mask for all steps
            mask = mask.transpose(1, 0, 2)
        assert mask.shape == tuple(x.shape)
        return x * mask

    return dropout


def test_awd_training_is_fastais(monkeypatch):
    """Loss, AR, TAR and all gradients, under the masks that fastai drew. Its runs end before the last token, from which
    nothing is predicted, where our TAR has one step more."""
    callbacks = pytest.importorskip("fastai.callback.rnn", reason="the reference needs fastai 2")
    losses = pytest.importorskip("fastai.losses")
    ours, theirs, fastai = awd()
    objective = awd_lm.AwdLm(ours)
    objective.output_bias.assign(np.random.default_rng(5).normal(size=V))
    theirs[1].decoder.bias.data.copy_(tensor(objective.output_bias))
    seen = masks_of(fastai.awdlstm, monkeypatch)
    logits, raw, out = theirs.train()(long(TOKENS))
    assert len(seen) == 2 + 3 + 2 + 1
    plain = losses.CrossEntropyLossFlat()(logits[:, :-1], long(TOKENS[:, 1:]))
    learn = SimpleNamespace(loss_grad=plain.clone(), training=True, rnn=None)
    for alpha, beta, end in ((2.0, 0.0, -1), (0.0, 1.0, None)):
        callback = callbacks.RNNRegularizer(alpha=alpha, beta=beta)
        callback.learn, learn.rnn = learn, SimpleNamespace(out=out[:, :end], raw_out=raw[:, :end])
        before = learn.loss_grad.item()
        callback.after_loss()
        assert learn.loss_grad.item() > before + 1e-3  # so that each term counts
    learn.loss_grad.backward()
    for module, replayed in ((core, replay(seen)), (recurrent, replay(seen))):
        monkeypatch.setattr(module, "dropout", replayed)
    ours.dropout = 0.4
    with tf.GradientTape() as tape:
        values = objective({"tokens": TOKENS}, seed=tf.constant([1, 2]))
    assert not seen
    check_loss(values["nll"], plain)
    check_loss(values["loss"], learn.loss_grad)
    variables = [
        objective.output_bias,
        ours.token_embedding,
        *(weight for layer in ours.stack for weight in kernels(layer)),
    ]
    found = iter(tape.gradient(values["loss"], [variable.value for variable in variables]))
    assert difference(tf.convert_to_tensor(next(found)), theirs[1].decoder.bias.grad) < TOLERANCE
    assert difference(tf.convert_to_tensor(next(found)), theirs[0].encoder.weight.grad) < TOLERANCE
    for rnn in theirs[0].rnns:
        for weight in (rnn.module.weight_ih_l0, rnn.module.bias_ih_l0, rnn.weight_hh_l0_raw):
            assert difference(gates(next(found)), weight.grad) < TOLERANCE


def test_concat_pooling_is_fastais():
    """Last state, maximum and mean of the tokens, padding left out; the layers above differ, as `bench.adapt.ulmfit`
    says."""
    ours, theirs, fastai = awd()
    tokens = TOKENS.copy()
    tokens[1, 9:], tokens[2, 1:] = 0, 0
    encoder = fastai.core.SentenceEncoder(tokens.shape[1], theirs[0].eval(), pad_idx=0)
    expected = fastai.core.masked_concat_pool(*encoder(long(tokens)), tokens.shape[1])
    reading = ulmfit.Reading(ours, Own())
    reading.hidden = lambda x: x
    assert difference(reading(ours({"tokens": tokens}), {"tokens": tokens}).pooled, expected) < TOLERANCE


def test_rates_are_fastais():
    """Straight up and straight down, put together from fastai's parts, since its own recipe is another; and layers at
    evenly multiplied rates."""
    schedule = pytest.importorskip("fastai.callback.schedule", reason="the reference needs fastai 2")
    core = pytest.importorskip("fastai.torch_core")
    up, down = schedule.SchedLin(1 / 32, 1.0), schedule.SchedLin(1.0, 1 / 32)
    course = schedule.combine_scheds([0.1, 0.9], [up, down])
    assert [ulmfit.slanted(step, 40) for step in range(41)] == pytest.approx([course(t / 40) for t in range(41)], 1e-5)
    paths = ["encoder/tokens", *(f"encoder/layer_{index}_input" for index in range(3)), "head/kernel"]
    step = SimpleNamespace(variables=[SimpleNamespace(path=path) for path in paths], shares=tf.Variable(tf.zeros(5)))
    ulmfit.rate(step, 39, 40, Own())
    assert step.shares.numpy() == pytest.approx(np.array(core.even_mults(2.6**-4, 1.0, 5)))


def flair_models(layers: int) -> tuple[Strings, BiLm, list, np.ndarray, list]:
    """Our network and loss, flair's two language models with the same weights, `SENTENCES` as our tokens, and of each
    word the places of its first and last character.

    flair's lines begin with a line feed in both directions. It is [CLS] here, or [SEP] from the right; a space "▁",
    which our first word has, too, so that the forward model's line begins with a line feed and a space.
    """
    flair = pytest.importorskip("flair", reason="the reference needs flair and transformers 4", exc_type=ImportError)
    tokenizer = Tokenizer.train("character", TEXT, 80)
    vocabulary = tokenizer.vocabulary
    keras.utils.set_random_seed(1)
    ours = shaken(built(flair_config(Size(layers=layers, width=16, length=64), vocabulary), name="encoder"))
    loss = BiLm.over(ours, BiLmConfig(width=8, vocabulary=vocabulary.size))
    loss.output_bias.assign(np.random.default_rng(2).normal(size=vocabulary.size))
    found = []
    ways = (True, vocabulary.cls, ours.forward_stack), (False, vocabulary.sep, ours.backward_stack)
    for forward, feed, weights in ways:
        dictionary = flair.data.Dictionary(add_unk=False)
        for number, piece in enumerate(vocabulary.pieces):
            dictionary.add_item("\n" if number == feed else " " if piece == "▁" else piece)
        model = flair.models.LanguageModel(
            dictionary, forward, 8, layers, embedding_size=8, document_delimiter="\n " if forward else "\n"
        )
        model.encoder.weight.data.copy_(tensor(ours.token_embedding))
        model.decoder.weight.data.copy_(tensor(ours.token_embedding))
        model.decoder.bias.data.copy_(tensor(loss.output_bias))
        take(model.rnn, weights)
        found.append(model.eval())
    rows, spans = np.zeros((2, 32), np.int32), []
    for row, sentence in zip(rows, SENTENCES, strict=True):
        words, place = tokenizer.encode(sentence), 1
        assert all(vocabulary.unk not in word for word in words)
        ids = [vocabulary.cls, *(number for word in words for number in word), vocabulary.sep]
        row[: len(ids)] = ids
        spans.append([])
        for word in words:
            spans[-1].append((place + 1, place + len(word) - 1))
            place += len(word)
    return ours, loss, found, rows, spans


@pytest.mark.parametrize("layers", (1, 2))
def test_states_at_every_character_are_flairs(layers):
    ours, loss, (forward, backward), rows, _ = flair_models(layers)
    for row, sentence in zip(rows, SENTENCES, strict=True):
        count = np.count_nonzero(row)
        text, tokens = " ".join(sentence), tf.constant(row[None, :count])
        states = forward.get_representation([text], "\n ", "")
        assert difference(ours.forward(tokens)[-1][:-1], states) < TOLERANCE  # all but [SEP]
        states = backward.get_representation([text], "\n", " ")
        assert difference(ours.both(tokens)[1][-1][:0:-1], states) < TOLERANCE  # all but [CLS]
        values = loss({"tokens": tokens})
        for model, name, ids in ((forward, "forward_nll", row[:count]), (backward, "backward_nll", row[:count][::-1])):
            logits, _, _ = model(long(ids[:, None].copy()), model.init_hidden(1))
            check_loss(values[name], torch.nn.functional.cross_entropy(logits[:-1, 0], long(ids[1:].copy())))


def test_vectors_of_words_are_flairs():
    """At a word's last and first character, as in section 2.2 of the paper and flair without ``with_whitespace``. By
    default flair reads one character further, at the spaces around the word, which here are the "▁" of the next word
    and the word's own."""
    ours, _, (forward, backward), rows, spans = flair_models(1)
    embeddings = pytest.importorskip("flair.embeddings")
    data = pytest.importorskip("flair.data")
    encoding = ours({"tokens": rows})
    ahead, back = (np.asarray(x[-1]).transpose(1, 0, 2) for x in ours.both(rows))
    for spaces in (False, True):
        sentences = [data.Sentence(words) for words in SENTENCES]
        halves = [embeddings.FlairEmbeddings(model, with_whitespace=spaces) for model in (forward, backward)]
        found = []
        for half in halves:
            half.embed(sentences)
            found.append([[token.get_embedding() for token in sentence] for sentence in sentences])
            for sentence in sentences:
                sentence.clear_embeddings()
        for row, places in enumerate(spans):
            for word, (first, last) in enumerate(places):
                mine, theirs = encoding.tokens[row, last], [half[row][word] for half in found]
                assert np.array_equal(mine, encoding.tokens[row, first])
                if spaces and word == len(places) - 1:  # behind it a space there, [SEP] here
                    mine, theirs = back[row, first - 1], theirs[1:]
                elif spaces:
                    mine = np.concatenate([ahead[row, last + 1], back[row, first - 1]])
                assert difference(mine, torch.cat(theirs)) < TOLERANCE
