"""Transformer-XL: a language model that remembers the previous segment.

Dai, Yang, Yang, Carbonell, Le and Salakhutdinov (2019). Transformer-XL: Attentive Language Models beyond a Fixed-Length
Context. ACL.
Taxonomy: contextual; Transformer decoder; LM; no extension.

A Transformer that reads text in segments forgets everything at each cut. Here the hidden states of the previous segment
are additional keys and values in every layer, without gradient (segment recurrence). Positions then have to be
relative, because an absolute position would belong to two tokens. A score depends on the distance of query and key,
through fixed waves and two learned biases.

    L = - 1/(T - 1) sum_{t >= 1} ln p(x_t | x_0 ... x_{t-1}, states of the T tokens before x_0)

Nearest relative: GPT (`gpt`), the same objective without memory, with absolute positions and GELU. The memory
reaches one segment back (`models.objectives.segment_lm` says what that leaves out), and the softmax is a plain one.
"""

from ptmbench.models.architectures.relative_decoder import transformer_xl
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import CausalModel
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="Transformer-XL",
    citation="Dai et al. (2019)",
    paper="Transformer-XL: Attentive Language Models beyond a Fixed-Length Context",
    url="https://arxiv.org/abs/1901.02860",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_DECODER,
    objectives=("lm",),
    loss="L_LM",
    tokenizer="word",
    corpus="WikiText-103 (103M words); also enwik8, text8, One Billion Word and Penn Treebank",
    parameters="151M (standard, WikiText-103), 257M (large)",
    reference="transformers' TransfoXLLMHeadModel (last in release 4.35)",
    licence="Apache-2.0",
    reported=(
        Reported(
            task="wikitext103",
            metric="perplexity",
            value=24.0,
            source="Dai et al. (2019), table 1, Transformer-XL Standard, words",
        ),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def describe(size: Size, vocabulary: Vocabulary) -> CausalModel:
    """Returns the configuration of the network of ``size``. The shift of distances needs whole rows of keys, which
    branching hypotheses do not have, so only `Pretrainable.decode` generates."""
    encoder = transformer_xl(size, vocabulary.size)
    return CausalModel(encoder=encoder, vocabulary=vocabulary.size, output_bias=True, reads_again=True)


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.relative_causal import built
    from ptmbench.models.objectives import segment_lm

    encoder = built(describe(size, vocabulary).encoder, name="encoder")
    loss = segment_lm.SegmentLm(encoder)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=segment_lm.batches.of(vocabulary),
        decode=loss.decode,
        log_likelihood=loss.log_likelihood,
    )
