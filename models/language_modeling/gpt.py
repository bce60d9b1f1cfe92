"""GPT: one left-to-right language model, fine-tuned for every task.

Radford, Narasimhan, Salimans and Sutskever (2018). Improving Language Understanding by Generative Pre-Training. OpenAI.
Taxonomy: contextual; Transformer decoder; LM; no extension.

To predict the next word, a model needs no labels and, over long texts, has to learn more than grammar. GPT trains a
Transformer decoder on this objective. It then fine-tunes the whole network with one linear layer on the vector of the
last token, the only one that depends on the whole input. Pairs are concatenated with a delimiter between them; there
are no segments.

    L = - 1/(T - 1) sum_{t >= 1} ln p(x_t | x_0 ... x_{t-1})

Nearest relative: BERT (`bert`), the same layers without the causal mask. In contrast, GPT learns from every token of a
row and not from 15 %, but each prediction depends on the left context only.
"""

from ptmbench.models.architectures import decoders
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import CausalModel
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_2 = "Radford et al. (2018), table 2"
_TABLE_4 = "Radford et al. (2018), table 4"

CARD = Card(
    title="GPT",
    citation="Radford et al. (2018)",
    paper="Improving Language Understanding by Generative Pre-Training",
    url="https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf",
    year=2018,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_DECODER,
    objectives=("lm",),
    loss="L_LM",
    tokenizer="bpe",
    corpus="BooksCorpus (over 7,000 unpublished books)",
    parameters="117M",
    reference="transformers' OpenAIGPTLMHeadModel",
    licence="MIT",
    reported=(
        Reported(task="glue", metric="average", value=72.8, source="Qiu et al. (2020), table 2"),
        Reported(task="cola", metric="mcc", value=45.4, source=_TABLE_4),
        Reported(task="sst2", metric="accuracy", value=91.3, source=_TABLE_4),
        Reported(task="mrpc", metric="f1", value=82.3, source=_TABLE_4),
        Reported(task="stsb", metric="pearson", value=82.0, source=_TABLE_4),
        Reported(task="qqp", metric="f1", value=70.3, source=_TABLE_4),
        Reported(task="mnli", metric="accuracy", value=82.1, source=_TABLE_2),
        Reported(task="mnli_mm", metric="accuracy", value=81.4, source=_TABLE_2),
        Reported(task="qnli", metric="accuracy", value=88.1, source=_TABLE_2),
        Reported(task="rte", metric="accuracy", value=56.0, source=_TABLE_2),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

LEARNING_RATE = 6e-4
"""At width 128; `bench.engine.recipe` lowers it with the width. Post-normalisation does not tolerate a higher rate: at
1e-3, the mini size stays at unigram loss (6.9 after 320 steps on wikitext-2 and novels); at 3e-4 it learns (6.1 after
230)."""


def describe(size: Size, vocabulary: Vocabulary) -> CausalModel:
    """Returns the configuration of the network of ``size``."""
    return CausalModel(encoder=decoders.gpt(size, vocabulary.size), vocabulary=vocabulary.size)


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import lm

    encoder = built(describe(size, vocabulary).encoder, name="encoder")
    loss = lm.CausalLm(encoder, vocabulary.absent)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=lm.batches.of(vocabulary),
        decode=loss.decode,
        writer=loss,
        log_likelihood=loss.log_likelihood,
    )
