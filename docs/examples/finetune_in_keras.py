"""Fine-tunes a pre-trained checkpoint on SST-2 in plain Keras, and prints the accuracy on its development set.

ptmbench data make world
ptmbench run demo --models bert --tasks sst2 --out runs/demo
python docs/examples/finetune_in_keras.py runs/demo/pretrained/bert* world
"""

import sys
from pathlib import Path

import keras
import numpy as np

import ptmbench
from ptmbench import tasks

checkpoint, data = sys.argv[1:3]
keras.utils.set_random_seed(0)
task, encoder = tasks.load("sst2"), ptmbench.load(checkpoint)


def read(split):
    """Token ids [N, T] and the numbers of the labels [N]."""
    examples = task.examples(Path(data), split)
    tokens = encoder.tokenize([example.inputs[0] for example in examples], length=32)["tokens"]
    return tokens, np.array([task.labels.index(example.gold) for example in examples])


tokens = keras.Input((32,), dtype="int32")
model = keras.Model(tokens, keras.layers.Dense(len(task.labels))(encoder(tokens)["pooled"]))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(5e-4), loss, metrics=["accuracy"])
model.fit(*read("train"), batch_size=32, epochs=3, verbose=0)
print(f"accuracy {model.evaluate(*read('dev'), verbose=0)[1]:.3f}")
