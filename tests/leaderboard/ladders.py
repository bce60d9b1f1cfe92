"""Test helpers: made-up records of budget ladders."""

import math
import random
from dataclasses import replace

from tests.leaderboard.made import record

RUNGS = (1e12, 1e13, 1e14)


def rung(flops=1e12, pretraining=0, budget=None, **more):
    """Returns the pre-training entry of a record for a budget. Its FLOPs are 1 % lower, because steps are whole."""
    loss = 9 * flops**-0.06
    made = {
        "budget": budget or {"flops": flops},
        "held_out": {"loss": loss, "mlm_loss": loss - 0.5, "nsp_loss": 0.5, "rows": 64, "corpus_sha256": "e" * 64},
        "flops": 0.99 * flops,
        "tokens": int(flops / 1e6),
        "seed": pretraining,
    }
    return made | {"steps": int(flops / 1e9), "weights_sha256": f"{flops:g}-{pretraining}"} | more


def rungs(name="bert", base=60.0, slope=2.0, seeds=3, pretrainings=1, tasks=("cola", "sst2"), spread=1.0, **changes):
    """Yields records of a ladder whose scores rise by ``slope`` per doubling of FLOPs, and of its twin."""
    rng = random.Random(name)
    for task in tasks:
        for flops in RUNGS:
            for pretraining in range(pretrainings):
                for seed in range(seeds):
                    value = base + slope * math.log2(flops / 1e12) + rng.gauss(0, spread)
                    command = f"ptmbench run ladder --models {name} --flops {flops:g} --tasks {task}"
                    command += f" --pretraining-seed {pretraining} --seed {seed}"
                    made = rung(flops, pretraining, weights_sha256=f"{name}-{flops:g}-{pretraining}")
                    yield record(task, name, seed, value, pretraining=made, command=command, **changes)
        for seed in range(seeds):
            yield record(task, name, seed, base - 8, kind="random", row={"label": name.upper()})


def failed(flops, pretraining=0, seed=0):
    """Makes the record of a cell whose pre-training failed, in a ladder with several pre-trainings."""
    about = {"budget": {"flops": flops}, "seed": pretraining, "corpus": "c", "corpus_sha256": "c" * 64}
    reason = {"code": "diverged", "text": "Its pre-training failed: the loss was not finite."}
    made = record(seed=seed, status="diverged", reason=reason, scores={}, row={"planned": about})
    return replace(made, pretraining=None, key=f"{int(flops):x}".rjust(12, "0") + f"{pretraining}{seed}")
