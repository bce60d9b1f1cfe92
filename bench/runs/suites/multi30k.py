"""Multi30k (Elliott et al., 2016) translation, en-de and de-en: a Transformer from scratch, pre-trained
encoder-decoders, and encoders under a new decoder.

    ptmbench run multi30k --data DIR --models random-bart --out runs/multi30k
    ptmbench run multi30k --data DIR --models bart,bert --adaptation finetune,seq2seq,seq2seq:warm_decoder=1

A random twin is the Transformer from scratch. 4 + 4 layers of width 256, one BPE vocabulary of both languages, which
reads and writes: small, since 29,000 captions are few. A batch of 128 captions has about 2,000 tokens of each language.
What is pre-trained learns the captions of both languages too, so that all models have the same vocabulary; --corpus
gives it more. Under a new decoder the encoder's rate is as high as the decoder's, so that the random
twin is trained fairly. For a well-trained encoder, use --set encoder_rate=2e-4.

The encoder as extra memory (BERT-fused NMT) is read by a translator, which learns alone for half of the epochs;
fused:stages=1+drop_net=0 leaves both of its tricks out:

    ptmbench run multi30k --data DIR --models bert --adaptation fused

Without pairs, from a model that has read both languages; fine-tuning sees one side of each example. The suite's corpus
has both sides, each in a file of its own: give other text with --corpus if the model must not see both.

    ptmbench run multi30k --data DIR --models mass,roberta --adaptation unsupervised
"""

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.suites import Suite

SUITE = Suite(
    summary="Multi30k translation: from scratch, pre-trained encoder-decoders, encoders under a new decoder",
    models=("bart", "bert"),
    sizes=("mini",),
    tasks=("multi30k", "multi30k-de-en"),
    adaptations=("finetune", "seq2seq"),
    budget=Budget(tokens=20_000_000),
    corpus=("multi30k/train.en*", "multi30k/train.de*"),
    tokenizer="bpe",
    vocabulary=8000,
    recipe={"length": 64},
    settings={
        "generation": {
            "batch": 128,
            "epochs": 20,
            "learning_rate": 1e-3,
            "warmup": 0.1,
            "dropout": 0.2,
            "label_smoothing": 0.1,
            "length": 64,
            "target_length": 64,
            "patience": 5,
            "beam": 5,
        },
        "generation/seq2seq": {"encoder_rate": 1e-3, "encoder_warmup": 0.1},
    },
)
