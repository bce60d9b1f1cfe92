"""CTRL: a language model with control codes for the kind of text to write.

Keskar, McCann, Varshney, Xiong and Socher (2019). CTRL: A Conditional Transformer Language Model for Controllable
Generation. arXiv:1909.05858.
Taxonomy: contextual; Transformer decoder; LM; no extension.

The text of a language model is hard to control. CTRL puts a control code, the name of the source, before every training
text. Later the same code makes the model write text of that kind. Codes are ordinary tokens; nothing else about the
objective changes.

    L = - 1/T sum_t ln p(x_t | c, x_0 ... x_{t-1})

Nearest relative: GPT-2 (`gpt2`), without codes; CTRL's positions are fixed sines and its inner layers ReLU. The codes
here are for stretches of the corpus (`models.objectives.conditional_lm` gives the reason). Tasks have no code.
"""

from ptmbench.models.architectures import decoders
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Representation, Size
from ptmbench.models.costs import CausalModel
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="CTRL",
    citation="Keskar et al. (2019)",
    paper="CTRL: A Conditional Transformer Language Model for Controllable Generation",
    url="https://arxiv.org/abs/1909.05858",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_DECODER,
    objectives=("conditional_lm",),
    loss="L_LM given a control code",
    tokenizer="bpe",
    corpus="140 GB: Wikipedia, Project Gutenberg, Reddit, news, reviews, translations and questions",
    parameters="1.63B",
    reference="transformers' CTRLLMHeadModel",
    optimizer="Adagrad",
    licence="BSD-3-Clause",
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def describe(size: Size, vocabulary: Vocabulary) -> CausalModel:
    """Returns the configuration of the network of ``size``."""
    return CausalModel(encoder=decoders.ctrl(size, vocabulary.size), vocabulary=vocabulary.size, output_bias=True)


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import conditional_lm

    encoder = built(describe(size, vocabulary).encoder, name="encoder")
    loss = conditional_lm.ConditionalLm(encoder, vocabulary.absent)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=conditional_lm.batches.of(vocabulary),
        decode=loss.decode,
        writer=loss,
        log_likelihood=loss.log_likelihood,
    )
