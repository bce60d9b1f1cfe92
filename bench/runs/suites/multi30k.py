"""Multi30k (Elliott et al., 2016) translation, en-de and de-en: a Transformer from scratch, pre-trained
encoder-decoders, and encoders under a new decoder.

    ptmbench run multi30k --data DIR --models random-bart --out runs/multi30k
    ptmbench run multi30k --data DIR --models bart,bert --adaptation finetune,seq2seq,seq2seq:warm_decoder=1

A random twin is the Transformer from scratch. It has 4 + 4 layers of width 256, and one BPE vocabulary for both
languages on both sides. It is small, because there are only 29,000 captions. A batch of 128 captions has about 2,000
tokens of each language. Models pre-train on the captions of both languages too, so that all have the same vocabulary;
give more text with --corpus. Under a new decoder, the encoder's learning rate is as high as the decoder's, so that the
random twin is trained fairly. For a well-trained encoder, use --set encoder_rate=2e-4.

In BERT-fused NMT a translator reads the encoder's output as extra memory. The translator learns alone for half of the
epochs. fused:stages=1+drop_net=0 turns off this stage and drop-net:

    ptmbench run multi30k --data DIR --models bert --adaptation fused

Unsupervised translation begins from a model that was pre-trained on both languages. Fine-tuning uses one side of each
example. The suite's corpus has both sides, in separate files. If the model must not see both, give other text with
--corpus:

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
