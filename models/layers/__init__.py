"""Layers that networks are composed of, each made from a configuration.

`models.layers.config` has the configurations, which need no TensorFlow: model files and architectures are made of them.
The other modules have the Keras layers of the same names: `core` products, tables and norms; `embeddings`; `blocks`
attention, feed-forward and stacks; `transformers` whole networks. Extensions attach to them at named seams.
"""
