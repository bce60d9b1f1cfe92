"""Compares AWD-LSTM and ULMFiT with fastai 2, and Flair with the package flair, on the same weights.

`tests.models.frozen.recurrent` computes our side.
"""

from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest

from tests.models.frozen import recurrent as ours
from tests.models.frozen.recurrent import AWD, PADDED, SENTENCES, TOKENS, V
from tests.models.references.common import long, seeded, torch

DEVIATION = 0.6
"""The standard deviation of all weights, large enough for each term of the loss to count."""


def awd() -> tuple["torch.nn.Module", dict, SimpleNamespace]:
    """Returns fastai's language model, the shapes of its weights, and fastai's modules.

    The model has the dropout rates of fastai's classifier, which are those of the paper.
    """
    awdlstm = pytest.importorskip("fastai.text.models.awdlstm", reason="the reference needs fastai 2")
    core = pytest.importorskip("fastai.text.models.core")
    shape = {"emb_sz": AWD.width, "n_hid": AWD.inner, "n_layers": AWD.layers, "pad_token": 0}
    config = {**awdlstm.awd_lstm_clas_config, **shape, "tie_weights": True, "out_bias": True}
    network = core.get_language_model(awdlstm.AWD_LSTM, V, config)
    return network, seeded(network, deviation=DEVIATION), SimpleNamespace(awdlstm=awdlstm, core=core)


def about() -> str:
    import fastai

    return f"fastai {fastai.__version__}, torch {torch.__version__}"


def test_awd_lstm_and_concat_pooling_are_fastais(hold):
    """Pooling has the last state, the maximum and the mean of the tokens, without padding.

    The layers above differ (`bench.adapt.ulmfit`).
    """
    network, shapes, fastai = awd()
    _, raw, _ = network.eval()(long(TOKENS))
    encoder = fastai.core.SentenceEncoder(TOKENS.shape[1], network[0].eval(), pad_idx=0)
    pooled = fastai.core.masked_concat_pool(*encoder(long(PADDED)), TOKENS.shape[1])
    hold("awd_lstm", about(), shapes, {"raw": raw.detach(), "pooled": pooled.detach()}, deviation=DEVIATION)


def record_masks(awdlstm, monkeypatch) -> deque:
    """Records (rate, mask) of each dropout of fastai, in its order, without changing fastai's results."""
    recorded, mask_of, dropout = deque(), awdlstm.dropout_mask, awdlstm.F.dropout

    def masked(x, size, p):
        recorded.append((p, mask_of(x, size, p)))
        return recorded[-1][1]

    def dropped(x, p):
        recorded.append((p, dropout(torch.ones_like(x), p=p)))
        return x * recorded[-1][1]

    monkeypatch.setattr(awdlstm, "dropout_mask", masked)
    monkeypatch.setattr(awdlstm.F, "dropout", dropped)
    return recorded


def test_awd_training_is_fastais(monkeypatch, hold):
    """Compares the loss with AR and TAR, and all gradients, with the dropout masks that fastai drew.

    fastai's rows end before the last token, from which nothing is predicted. Our TAR has one more step.
    """
    callbacks = pytest.importorskip("fastai.callback.rnn", reason="the reference needs fastai 2")
    losses = pytest.importorskip("fastai.losses")
    network, shapes, fastai = awd()
    torch.manual_seed(0)
    recorded = record_masks(fastai.awdlstm, monkeypatch)
    logits, raw, out = network.train()(long(TOKENS))
    assert len(recorded) == 2 + 3 + 2 + 1
    plain = losses.CrossEntropyLossFlat()(logits[:, :-1], long(TOKENS[:, 1:]))
    learn = SimpleNamespace(loss_grad=plain.clone(), training=True, rnn=None)
    for alpha, beta, end in ((2.0, 0.0, -1), (0.0, 1.0, None)):
        callback = callbacks.RNNRegularizer(alpha=alpha, beta=beta)
        callback.learn, learn.rnn = learn, SimpleNamespace(out=out[:, :end], raw_out=raw[:, :end])
        before = learn.loss_grad.item()
        callback.after_loss()
        assert learn.loss_grad.item() > before + 1e-3  # each term counts
    learn.loss_grad.backward()
    expected = {"nll": plain.detach(), "loss": learn.loss_grad.detach()}
    for name, parameter in network.named_parameters():
        if "bias_hh" not in name and "module.weight_hh" not in name:
            expected[f"gradient/{name}"] = parameter.grad
    given = {f"mask_{index}": mask.detach().numpy() for index, (_, mask) in enumerate(recorded)}
    given["rates"] = np.array([rate for rate, _ in recorded])
    hold("awd_lstm_training", about(), shapes, expected, deviation=DEVIATION, **given)


def test_rates_are_fastais(hold):
    """Compares the learning rate schedule, and the rates of layers, which are evenly spaced on a log scale.

    The schedule is linear up and linear down. It is combined from fastai's parts, because fastai's own differs.
    """
    schedule = pytest.importorskip("fastai.callback.schedule", reason="the reference needs fastai 2")
    core = pytest.importorskip("fastai.torch_core")
    up, down = schedule.SchedLin(1 / 32, 1.0), schedule.SchedLin(1.0, 1 / 32)
    combined = schedule.combine_scheds([0.1, 0.9], [up, down])
    expected = {"slanted": [float(combined(t / 40)) for t in range(41)], "layers": core.even_mults(2.6**-4, 1.0, 5)}
    hold("awd_lstm_rates", about(), {}, expected)


def flair_models(layers: int) -> tuple[list, dict]:
    """Returns flair's two language models, and the shapes of their weights.

    In flair, lines begin with a line feed in both directions. Our counterpart is [CLS], or [SEP] from the right. The
    counterpart of a space is "▁". Our first word has one, too, so the forward model's line begins with a line feed and
    a space.
    """
    flair = pytest.importorskip("flair", reason="the reference needs flair and transformers 4", exc_type=ImportError)
    vocabulary = ours.flair_rows()[0].vocabulary
    models, shapes = [], {}
    for forward, feed in ((True, vocabulary.cls), (False, vocabulary.sep)):
        dictionary = flair.data.Dictionary(add_unk=False)
        for number, piece in enumerate(vocabulary.pieces):
            dictionary.add_item("\n" if number == feed else " " if piece == "▁" else piece)
        model = flair.models.LanguageModel(
            dictionary, forward, 8, layers, embedding_size=8, document_delimiter="\n " if forward else "\n"
        )
        shapes |= seeded(model.rnn, f"{'forward' if forward else 'backward'}.rnn.", DEVIATION)
        for part, prefix in ((model.encoder, "encoder."), (model.decoder, "decoder.")):
            shapes |= seeded(part, prefix, DEVIATION)
        model.decoder.weight.data.copy_(model.encoder.weight)  # one table, as in our network
        models.append(model.eval())
    del shapes["decoder.weight"]
    return models, shapes


@pytest.mark.parametrize("layers", (1, 2))
def test_flair(layers, hold):
    """Compares states at every character, losses, and word vectors.

    Word vectors follow section 2.2 of the paper, like flair without ``with_whitespace``. flair's default is one
    character further, at the spaces around the word. In our tokens these are the "▁" of the next word and the word's
    own.
    """
    (forward, backward), shapes = flair_models(layers)
    import flair

    embeddings, data = flair.embeddings, flair.data
    expected, (_, rows, _) = {}, ours.flair_rows()
    for number, (row, sentence) in enumerate(zip(rows, SENTENCES, strict=True)):
        ids, text = row[: np.count_nonzero(row)], " ".join(sentence)
        expected[f"{number}/forward"] = forward.get_representation([text], "\n ", "")[:, 0].detach()
        expected[f"{number}/backward"] = backward.get_representation([text], "\n", " ")[:, 0].detach()
        for model, way, line in ((forward, "forward", ids), (backward, "backward", ids[::-1])):
            logits, _, _ = model(long(line[:, None].copy()), model.init_hidden(1))
            nll = torch.nn.functional.cross_entropy(logits[:-1, 0], long(line[1:].copy()))
            expected[f"{number}/{way}_nll"] = nll.detach()
        for spaces, key in ((False, "words"), (True, "spaced_words")):
            words, halves = data.Sentence(sentence), []
            for model in (forward, backward):
                embeddings.FlairEmbeddings(model, with_whitespace=spaces).embed(words)
                halves.append(torch.stack([token.get_embedding() for token in words]).detach().clone())
                words.clear_embeddings()
            vectors = torch.cat(halves, dim=1)
            expected[f"{number}/{key}"] = vectors[:-1] if spaces else vectors
    about = f"flair {flair.__version__}, torch {torch.__version__}"
    hold(f"flair_{layers}", about, shapes, expected, deviation=DEVIATION)
