"""AWD-LSTM and what ULMFiT does with it against fastai 2, Flair against flair: the same weights on both sides.

`tests.models.frozen.recurrent` computes ours.
"""

from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest

from tests.models.frozen import recurrent as ours
from tests.models.frozen.recurrent import AWD, PADDED, SENTENCES, TOKENS, V
from tests.models.references.common import long, seeded, torch

DEVIATION = 0.6
"""Of all weights: large enough for each term of the loss to count."""


def awd() -> tuple["torch.nn.Module", dict, SimpleNamespace]:
    """fastai's language model with the rates of its classifier, which are those of the paper; the shapes of its
    weights; the modules of fastai."""
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
    """Of pooling last state, maximum and mean of the tokens, padding left out; the layers above differ, as
    `bench.adapt.ulmfit` says."""
    network, shapes, fastai = awd()
    _, raw, _ = network.eval()(long(TOKENS))
    encoder = fastai.core.SentenceEncoder(TOKENS.shape[1], network[0].eval(), pad_idx=0)
    pooled = fastai.core.masked_concat_pool(*encoder(long(PADDED)), TOKENS.shape[1])
    hold("awd_lstm", about(), shapes, {"raw": raw.detach(), "pooled": pooled.detach()}, deviation=DEVIATION)


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


def test_awd_training_is_fastais(monkeypatch, hold):
    """Loss, AR, TAR and all gradients, under the masks that fastai drew. Its runs end before the last token, from which
    nothing is predicted, where our TAR has one step more."""
    callbacks = pytest.importorskip("fastai.callback.rnn", reason="the reference needs fastai 2")
    losses = pytest.importorskip("fastai.losses")
    network, shapes, fastai = awd()
    torch.manual_seed(0)
    seen = masks_of(fastai.awdlstm, monkeypatch)
    logits, raw, out = network.train()(long(TOKENS))
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
    expected = {"nll": plain.detach(), "loss": learn.loss_grad.detach()}
    for name, parameter in network.named_parameters():
        if "bias_hh" not in name and "module.weight_hh" not in name:
            expected[f"gradient/{name}"] = parameter.grad
    given = {f"mask_{index}": mask.detach().numpy() for index, (_, mask) in enumerate(seen)}
    given["rates"] = np.array([rate for rate, _ in seen])
    hold("awd_lstm_training", about(), shapes, expected, deviation=DEVIATION, **given)


def test_rates_are_fastais(hold):
    """Straight up and straight down, put together from fastai's parts, since its own recipe is another; and layers at
    evenly multiplied rates."""
    schedule = pytest.importorskip("fastai.callback.schedule", reason="the reference needs fastai 2")
    core = pytest.importorskip("fastai.torch_core")
    up, down = schedule.SchedLin(1 / 32, 1.0), schedule.SchedLin(1.0, 1 / 32)
    course = schedule.combine_scheds([0.1, 0.9], [up, down])
    expected = {"slanted": [float(course(t / 40)) for t in range(41)], "layers": core.even_mults(2.6**-4, 1.0, 5)}
    hold("awd_lstm_rates", about(), {}, expected)


def flair_models(layers: int) -> tuple[list, dict]:
    """flair's two language models, and the shapes of their weights.

    flair's lines begin with a line feed in both directions. It is [CLS] here, or [SEP] from the right; a space "▁",
    which our first word has, too, so that the forward model's line begins with a line feed and a space.
    """
    flair = pytest.importorskip("flair", reason="the reference needs flair and transformers 4", exc_type=ImportError)
    vocabulary = ours.flair_rows()[0].vocabulary
    found, shapes = [], {}
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
        model.decoder.weight.data.copy_(model.encoder.weight)  # one table, as ours
        found.append(model.eval())
    del shapes["decoder.weight"]
    return found, shapes


@pytest.mark.parametrize("layers", (1, 2))
def test_flair(layers, hold):
    """States at every character, losses, and vectors of words: as in section 2.2 of the paper and flair without
    ``with_whitespace``, and by default one character further, at the spaces around the word, which here are the "▁" of
    the next word and the word's own."""
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
