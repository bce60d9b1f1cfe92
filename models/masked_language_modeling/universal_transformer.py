"""The Universal Transformer: one layer in a loop, repeated as often as each word needs.

Dehghani, Gouws, Vinyals, Uszkoreit and Kaiser (2019). Universal Transformers. ICLR.
Taxonomy: contextual; Transformer encoder (weights shared by all layers, adaptive depth); MLM here; no extension.

A Transformer has the same number of layers for easy and hard inputs. This one applies a single layer repeatedly, with
a fixed signal for the step, and a halting unit decides for each word when to stop. The loss has a cost for steps, so
that easy words stop early. The survey lists it as an architecture: the paper trains it on tasks from scratch, with a
decoder for tasks that need one. Here its encoder is pre-trained by MLM on rows of full sentences, so that it can be
compared. ``Size.layers`` is the largest number of steps.

    L = L_MLM + 0.01 mean_t (N_t + R_t),        N_t steps taken for token t, R_t the weight of the last one

Nearest relative: RoBERTa (`roberta`), the same objective and rows with as many different layers. ALBERT shares
its layers too, but applies all of them to every word.
"""

from ptmbench.models.architectures.universal_encoder import universal
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import MaskedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="Universal Transformer",
    citation="Dehghani et al. (2019)",
    paper="Universal Transformers",
    url="https://arxiv.org/abs/1807.03819",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm",),
    loss="L_MLM + 0.01 mean(N + R)",
    tokenizer="wordpiece",
    corpus="none: the paper trains on each task by itself (bAbI, LAMBADA, WMT 2014 and others)",
    parameters="those of one layer, whatever the depth",
    reference="none to install: its equations, term by term",
    reported=(Reported(task="wmt14_en_de", metric="bleu", value=28.9, source="Dehghani et al. (2019), WMT, base"),),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

ADAM = {"beta2": 0.997, "epsilon": 1e-9}
"""The authors' code: tensor2tensor's ``transformer_base``, on which ``universal_transformer_base`` builds."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    words = MaskedLmConfig(width=size.width, inner=size.width, vocabulary=vocabulary.size)
    return EncoderModel(encoder=universal(size, vocabulary.size), heads=(words,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.universal import built
    from ptmbench.models.objectives import _ponder, mlm, sampling

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    (words,) = described.heads

    def batches(corpus, batch, length):
        texts = sampling.FullSentences(corpus, vocabulary, length)

        def make(step, seed):
            rows, _ = texts(step, batch, seed)
            return mlm.noise(rows, sampling.generator(seed, step), vocabulary)

        return make

    loss = _ponder.Ponder(encoder, built(words, encoder, name="mlm"))
    return Pretrainable(encoder=encoder, loss=loss, batches=Sampler(batches))
