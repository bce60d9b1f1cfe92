"""What the training loops stand on: a step and its optimizers, devices, states, rates. Nothing here knows a task."""
