"""Tests that every model can be built in a process that imports no other model: its own imports register all layers
that it needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptmbench import models
from tests.models.networks import build, small


@pytest.mark.slow
def test_every_model_is_built_without_the_others():
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-m", __name__], cwd=root, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def main() -> int:
    """Builds each model in a fork of a process that has imported TensorFlow and no layer. Returns the number of
    failures."""
    import keras  # noqa: F401  once, before the forks

    failed = 0
    for name in models.names():
        if not (child := os.fork()):
            status = 1
            try:
                module = models.load(name)
                build(module, small(module))
                status = 0
            except Exception as error:
                print(f"{name} cannot be built alone: {error!r}", flush=True)
            finally:
                os._exit(status)
        failed += os.waitpid(child, 0)[1] != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
