"""The parts of training loops: steps, optimizers, devices, checkpoints, learning rates. Independent of tasks."""
