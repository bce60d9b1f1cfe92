"""Test helpers: runs of made-up records with known predictions, and the gate between two such runs."""

import json

import numpy as np

from ptmbench.leaderboard.gate.gate import gate
from ptmbench.leaderboard.gate.resampling import Scored
from ptmbench.leaderboard.records import pack
from ptmbench.leaderboard.records.record import FOLDER, write
from tests.leaderboard.made import record

EASE = np.random.default_rng(99).standard_normal(1000)
KNOWN = {}
"""Per-example scores of the records made here, by key."""


def scorer(found, roots):
    each = KNOWN.get(found.key)
    if each is None:
        return None
    ids = tuple(map(str, range(len(each))))

    def redraw(counts):
        return counts @ each / counts.sum(axis=1)

    return Scored(ids=ids, groups=None, value=float(each.mean()), each=each, redraw=redraw)


def cells(seeds=range(5), level=1.2, sd=0.03, task="sst2", salt=0, predictions=True, **changes):
    """Yields one record per seed. A prediction is right if level + ease + noise is above 0."""
    for seed in seeds:
        rng = np.random.default_rng([seed, salt, int(1000 * level) + 10_000])
        each = 100.0 * (level + rng.normal(0, sd) + EASE + 0.5 * rng.standard_normal(1000) > 0)
        found = record(task=task, seed=seed, value=float(each.mean()), **changes)
        kept = {"file": f"predictions/{salt}{seed}.gz", "sha256": f"{found.key}"} if predictions else None
        found = record(task=task, seed=seed, value=float(each.mean()), key=found.key, predictions=kept, **changes)
        KNOWN[found.key] = each
        yield found


def noisy(drop, seeds=range(5), **changes):
    """Yields `cells` of a task under a condition, with a level that is lower by ``drop``."""
    condition = {"name": "misspellings", "settings": {"share": 0.2}, "version": 1}
    task = {"name": "sst2@misspellings", "condition": condition}
    return cells(seeds, level=0.9 - drop, task_=task, **changes)


def side(folder, *groups):
    (folder / FOLDER).mkdir(parents=True)
    for group in groups:
        for one in group:
            write(folder, one)
    return folder


def unpacked(baseline):
    """Converts ``baseline`` to the layout of earlier versions: loose records, a manifest and a file with its digest."""
    found = pack.read(baseline / pack.PACK)
    (baseline / FOLDER).mkdir()
    for name, content in found.records.items():
        (baseline / FOLDER / name).write_bytes(content)
    (baseline / "baseline.json").write_text(json.dumps(dict(found.manifest), indent=1) + "\n")
    (baseline / ".baseline").write_text(f"{found.manifest['digest']}\n")
    (baseline / pack.PACK).unlink()
    return baseline


def between(tmp_path, base, head, **options):
    return gate(side(tmp_path / "base", *base), side(tmp_path / "head", *head), scorer, **options)


def only(found):
    assert len(found.cells) == 1
    return found.cells[0]
