"""Training steps whose weights are split over devices, for networks that do not fit one device.

    ptmbench pretrain bert --size base ... --strategy tensor --model-parallel 4

`models.layers.split` says which weights are split. `devices` is the strategy: a mesh of devices with two axes, data and
model. `layouts` computes how much memory each device needs, and refuses networks that cannot be split. `step` takes the
place of a `bench.engine.step.TrainStep` and runs on DTensors, with the `updates` of Adam and LAMB. DTensor adds the
collective operations, so no layer changes.

`bench.engine.distribute`, `bench.runs.pretrain` and `bench.perf` use this package.
"""
