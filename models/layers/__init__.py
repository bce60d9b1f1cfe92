"""Layers of networks. Each layer is built from a configuration.

`models.layers.config` has the configurations, which need no TensorFlow. Model files and architectures compose them. The
other modules have the Keras layers of the same names: `core` products, tables and norms; `embeddings`; `blocks`
attention, feed-forward and stacks; `transformers` whole networks. Extensions attach to layers at named seams.
"""
