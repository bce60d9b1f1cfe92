"""The Markdown table of a proof, and sentences about its limits."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ptmbench import models
from ptmbench.bench.runs.proof.case import CHECKS

Row = Mapping[str, Any]

TOLERANCE = 0.02
"""Largest allowed distance between the weights of a mirrored training and those of one device, as a share of the change
by training. Sums are taken in another order, and bfloat16 rounds to 8 bits."""
GRAPH = ("operations", "dynamic shapes", "refused by a TPU", "64-bit floats")
"""The columns of the check "graph"."""


def columns_of(checks: Sequence[str]) -> list[str]:
    """The headings of the columns of ``checks``."""
    of = {
        "graph": GRAPH,
        "step": ("parameters", "compiled", "loss"),
        "speed": ("steps/s", "tokens/s", "TFLOP/s", "MFU", "memory"),
        "resume": ("resumed",),
        "mirrored": ("mirrored",),
    }
    return ["model", "size", *(heading for check in CHECKS if check in checks for heading in of[check]), "result"]


def head(checks: Sequence[str]) -> str:
    """The first two lines of the Markdown table."""
    headings = columns_of(checks)
    return f"{_line(headings)}\n{_line(['---'] * len(headings))}"


def line(row: Row, device: Row) -> str:
    """The line of ``row`` in the Markdown table, with the columns of its checks."""
    cells = _cells(row, device)
    return _line([cells.get(heading, "") for heading in columns_of(row["checks"])])


def about(device: Row, case: Row) -> str:
    """Returns sentences about the devices, the unit of MFU and the batches."""
    return (
        f"{device['device']}, TensorFlow {device['tensorflow']}. A product of two square matrices of width "
        f"{device['width']} in bfloat16 runs at {device['matrix_flops_per_second'] / 1e12:.3g} TFLOP/s, which is 100% "
        f"MFU. Batches of {case['batch']} sequences of {case['length']} tokens, vocabulary of {case['vocabulary']}."
    )


def objectives(rows: Sequence[Row]) -> str:
    """Returns sentences about the objectives whose steps passed all checks."""
    known = set(models.objective_names())
    passed = {name for row in rows if not mistake(row) for name in models.load(row["model"]).CARD.objectives}
    missing = sorted(known - passed)
    without = f" Without: {', '.join(missing)}." if missing else ""
    return f"{len(known & passed)} of {len(known)} objectives passed.{without}"


def missing(device: Row, rows: Sequence[Row]) -> Iterator[str]:
    """Yields sentences about what was not checked on this machine."""
    if device["kind"] == "CPU":
        yield (
            "Not shown, because TensorFlow finds neither a GPU nor a TPU: speed, MFU and memory on an accelerator, and "
            f"mirroring over several of them. The devices here are {rows[0]['devices']} logical ones of a processor, "
            "and memory is that of the whole process."
        )
    elif device["devices"] < 2:
        yield f"Not shown, because there is one {device['kind']}: mirroring over several devices."
    if device["kind"] != "TPU":
        yield (
            "Not shown, because there is no TPU: that its own compiler takes the steps. Their operations and types are "
            "compared with TensorFlow's tables only."
        )
    if unfinished := [check for check in CHECKS if check not in rows[0]["checks"]]:
        yield f"Not asked for: {', '.join(unfinished)}."


def mistake(row: Row) -> str:
    """Returns what is wrong with ``row``, or "" if all its checks passed."""
    if "failed" in row:
        return row["failed"]
    if row.get("dynamic"):
        return f"shapes are not static: {'; '.join(row['dynamic'][:3])}"
    if row.get("refused"):
        return f"a TPU would refuse {'; '.join(row['refused'][:3])}"
    if not math.isfinite(row.get("loss", 0.0)):
        return "the loss is not finite"
    if row.get("resumed", 0) > 2 * row.get("repeated", 0):
        return f"a resumed training ends elsewhere: {row['resumed']:.1e}"
    if not row.get("replicas_equal", True):
        return "replicas end with different weights"
    if row.get("mirrored_weights", 0) > TOLERANCE:
        return f"a mirrored training ends elsewhere: {row['mirrored_weights']:.1e}"
    return ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Row, device: Row) -> dict[str, str]:
    """Returns the cells of ``row`` by heading, except those without a finding."""
    cells = {"model": row["model"], "size": row["size"]}
    if "operations" in row:
        cells |= {"operations": str(row["operations"]), "64-bit floats": ", ".join(row["wide"]) or "none"}
        cells |= {"dynamic shapes": str(len(row["dynamic"])), "refused by a TPU": ", ".join(row["refused"]) or "none"}
    if "loss" in row:
        cells["parameters"] = f"{row['parameters'] / 1e6:.1f}M"
        cells |= {"compiled": f"{row['compile_seconds']:.1f} s", "loss": f"{row['loss']:.3f}"}
    if "steps_per_second" in row:
        flops = row["flops_per_second"]
        cells |= {"steps/s": f"{row['steps_per_second']:.3g}", "tokens/s": f"{row['tokens_per_second']:,.0f}"}
        cells |= {"TFLOP/s": f"{flops / 1e12:.3g}", "MFU": f"{flops / device['matrix_flops_per_second']:.1%}"}
        if "memory_bytes" in row:
            cells["memory"] = f"{row['memory_bytes'] / 2**30:.2f} GiB"
    if "resumed" in row:
        exact = "exactly" if row["resumed"] == 0 else f"{row['resumed']:.1e}, repeated {row['repeated']:.1e}"
        cells["resumed"] = exact
    if "replicas" in row:
        cells["mirrored"] = f"{row['replicas']}, {row['mirrored_weights']:.1e}"
    return cells | {"result": (mistake(row) or "passed").replace("|", "/")}
