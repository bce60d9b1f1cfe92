"""Training steps that leave TensorFlow: a compiled step is StableHLO, which every PJRT runtime can run.

Many machines with a GPU have JAX or PyTorch, but no TensorFlow for their version of CUDA. Two ways lead there:

    ptmbench pretrain ... --runtime pjrt    JAX beside TensorFlow: JAX's runtime runs the steps
    ptmbench pretrain ... --carry FOLDER    JAX without TensorFlow: a folder to carry there, and its states back here

`program` lowers a step, `driver` runs it and imports neither TensorFlow nor this package, `step` puts the two in the
place of a `bench.engine.step.TrainStep`, and `carry` writes and reads the folder.
"""
