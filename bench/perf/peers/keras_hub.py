"""A training step of keras-hub, timed on request: a peer of `bench.perf.pretrain`.

That module runs this file in a separate process, possibly with another Python, so it imports nothing of the project.
Each model is the task that a user of keras-hub would compile and fit, with the configuration of ours, Keras's AdamW and
clipping by the global norm. A step is ``train_on_batch``, compiled by XLA if "xla" is true.

    python keras_hub.py '{"model": "bert", "layers": 4, "xla": true, ...}'      then one request per line on stdin
"""

import json
import os
import sys
import time

import numpy as np


def masked(name, c, rng, **more):
    """A masked language model. As in ours, scores are computed only at the masked positions."""
    import keras_hub

    network = getattr(keras_hub.models, f"{name}Backbone")(
        **shape(c), max_sequence_length=c["positions"], num_segments=2, **more
    )
    tokens = ids(c, rng, "length")
    rows = np.argsort(rng.random(tokens.shape))[:, : c["masked"]]
    features = {
        "token_ids": tokens,
        "segment_ids": np.broadcast_to(np.arange(c["length"]) > c["length"] // 2, tokens.shape).astype(np.int32),
        "padding_mask": np.ones_like(tokens),
        "mask_positions": np.sort(rows).astype(np.int32),
    }
    return getattr(keras_hub.models, f"{name}MaskedLM")(network), features, ids(c, rng, "masked")


def bert(c, rng):
    return masked("Bert", c, rng)


def albert(c, rng):
    return masked("Albert", c, rng, embedding_dim=c["embedding"])


def gpt2(c, rng):
    import keras_hub

    network = keras_hub.models.GPT2Backbone(**shape(c), max_sequence_length=c["positions"])
    tokens = ids(c, rng, "length")
    features = {"token_ids": tokens, "padding_mask": np.ones_like(tokens)}
    return keras_hub.models.GPT2CausalLM(network), features, np.roll(tokens, -1, axis=1)


def translated(name, c, rng, **more):
    """A sequence-to-sequence model, with the shapes of inputs with gaps and their targets."""
    import keras_hub

    network = getattr(keras_hub.models, f"{name}Backbone")(**shape(c), **more)
    tokens, targets = ids(c, rng, "length"), ids(c, rng, "targets")
    features = {
        "encoder_token_ids": tokens,
        "encoder_padding_mask": np.ones_like(tokens),
        "decoder_token_ids": np.roll(targets, 1, axis=1),
        "decoder_padding_mask": np.ones_like(targets),
    }
    return getattr(keras_hub.models, f"{name}Seq2SeqLM")(network), features, targets


def bart(c, rng):
    return translated("Bart", c, rng, max_sequence_length=c["positions"])


def t5(c, rng):
    return translated("T5", c, rng, activation="relu", use_gated_activation=False)


def shape(c):
    return {
        "vocabulary_size": c["vocabulary"],
        "num_layers": c["layers"],
        "num_heads": c["heads"],
        "hidden_dim": c["width"],
        "intermediate_dim": c["inner"],
        "dropout": 0.0,
    }


def ids(c, rng, count):
    return rng.integers(5, c["vocabulary"], (c["batch"], c[count]), dtype=np.int32)


def main():
    c = json.loads(sys.argv[1])
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # like our side; TensorFlow leaves it off on some processors
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(c["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(c["threads"])
    keras.utils.set_random_seed(0)
    network, features, labels = globals()[c["model"]](c, np.random.default_rng(0))
    network.compile(
        optimizer=keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[],
        metrics=[],
        jit_compile=c["xla"],
    )
    square = tf.random.stateless_normal((2048, 2048), (0, 0))
    jobs = {
        "step": lambda: float(network.train_on_batch(features, labels)),
        "sgemm": lambda: float(tf.matmul(square, square)[0, 0]),
        "parameters": network.count_params,
    }
    for line in sys.stdin:
        request = json.loads(line)
        began, used, value = time.perf_counter(), time.process_time(), None
        for _ in range(request["times"]):
            value = jobs[request["job"]]()
        spent = {"seconds": time.perf_counter() - began, "processor": time.process_time() - used}
        print(json.dumps(spent | {"value": value}), flush=True)


if __name__ == "__main__":
    main()
