"""GPT-2: a language model large enough to do tasks that it was not trained for.

Radford, Wu, Child, Luan, Amodei and Sutskever (2019). Language Models are Unsupervised Multitask Learners. OpenAI.
Taxonomy: contextual; Transformer decoder; LM; no extension.

A page that explains, translates or answers is ordinary text, and a model that predicts it well has learnt the task in
it. GPT-2 has GPT's objective and adds nothing for tasks: the text before the answer, a prompt, describes the task. The
network is pre-normalised, so that many layers can be trained. It reads bytes joined by merges (byte-level BPE), so that
it can read every text.

    L = - 1/(T - 1) sum_{t >= 1} ln p(x_t | x_0 ... x_{t-1})

Nearest relative: GPT (`gpt`), post-normalised and fine-tuned. `bench.adapt.prompt` prompts GPT-2 as in the paper, with
or without examples.
"""

from ptmbench.models.architectures import decoders
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import CausalModel
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_3 = "Radford et al. (2019), table 3, 117M, not fine-tuned"

CARD = Card(
    title="GPT-2",
    citation="Radford et al. (2019)",
    paper="Language Models are Unsupervised Multitask Learners",
    url="https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_DECODER,
    objectives=("lm",),
    loss="L_LM",
    tokenizer="bpe",
    corpus="WebText (40 GB of pages that Reddit links to)",
    parameters="117M, 345M, 762M, 1542M",
    reference="transformers' GPT2LMHeadModel",
    licence="Modified MIT",
    reported=(Reported(task="wikitext2", metric="perplexity", value=29.41, source=_TABLE_3),),
)

SIZES = {
    "tiny": TINY,
    "mini": MINI,
    "small": SMALL,
    "base": Size(layers=12, width=768, heads=12, inner=3072, length=1024),
}


def describe(size: Size, vocabulary: Vocabulary) -> CausalModel:
    """Returns the configuration of the network of ``size``."""
    return CausalModel(encoder=decoders.gpt2(size, vocabulary.size), vocabulary=vocabulary.size)


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
