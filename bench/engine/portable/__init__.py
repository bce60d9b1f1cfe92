"""Training steps outside TensorFlow: a step is compiled to StableHLO, which every PJRT runtime can run.

Many machines with a GPU have JAX or PyTorch, but no TensorFlow for their version of CUDA. There are two ways to use
them:

    ptmbench pretrain ... --runtime pjrt    JAX and TensorFlow: JAX's runtime runs the steps
    ptmbench pretrain ... --carry FOLDER    JAX without TensorFlow: copy the folder there, and its states back

`program` lowers a step. `driver` runs it, and imports neither TensorFlow nor this package. `step` combines the two to
take the place of a `bench.engine.step.TrainStep`. `carry` writes and reads the folder.
"""
