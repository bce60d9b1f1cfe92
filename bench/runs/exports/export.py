"""``ptmbench export`` for engines: writes a file, runs it on examples, and compares it with the model."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.bench import environment
from ptmbench.bench.console import progress, say
from ptmbench.bench.engine.checkpoint import write_text
from ptmbench.bench.errors import OK, EnvironmentProblem
from ptmbench.bench.runs.exports import network, tokenizer_file
from ptmbench.bench.runs.exports.formats import FORMATS
from ptmbench.bench.runs.exports.network import Exportable, Outputs
from ptmbench.bench.runs.exports.options import ExportOptions
from ptmbench.models.channels import TEXT

MANIFEST = "export.json"
EXAMPLES = 64
"""Number of inputs of the check."""
EXACT, ROUNDED, INT8 = 1e-4, 0.02, 0.05
"""Tolerances as shares of the largest output: for float32, for models whose activations are rounded to 8 bits, and for
int8 files."""


def export(options: ExportOptions) -> dict[str, Any]:
    """Exports a checkpoint and returns the manifest.

    Raises `UsageError` for checkpoints that cannot be exported. Raises `EnvironmentProblem` if the packages of the
    format are missing, the converter lacks an operator, or the outputs of the file differ from the model's. In these
    cases nothing is written.
    """
    engine, out = FORMATS[options.format], options.out
    _check_free(out)
    source = replace(network.of(options.checkpoint, options.length), texts=options.texts or 0)
    batch, length = (options.batch, source.length) if engine.static else (1, None)
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        with progress(f"export {options.format}", brief=True):
            engine.write(source, fresh / engine.path, batch, options.quantize)
            run = engine.engine(fresh / engine.path)
            check = _checked(source, run, options, batch, length)
            if source.texts:
                check["texts"] = _text_check(source, fresh / engine.path, check["tolerance"])
        tokenizer_file.write(source.tokenizer, fresh / "tokenizer.json", source.length)
        manifest = _manifest(source, options, fresh / engine.path, check, batch if engine.static else None)
        write_text(fresh / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
        shutil.rmtree(out, ignore_errors=True)
        os.rename(fresh, out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return manifest


def export_command(options: ExportOptions) -> int:
    """`export` for the command line. Prints the file and its difference from the model."""
    manifest = export(options)
    check, same = manifest["check"], manifest["check"]["same_decisions"]
    decided = "" if same is None else f", and {same:.1%} of the decisions are equal"
    say(
        f"Checked on {check['rows']} inputs ({check['inputs']}): outputs differ by at most {check['difference']:.2g} "
        f"of the largest one (tolerance {check['tolerance']:g}){decided}."
    )
    if texts := check.get("texts"):
        say(f"The token ids agree with the tokenizer's on {texts['texts']:,} texts.")
    print(options.out / manifest["file"])
    return OK


def tolerance_of(source: Exportable, quantize: str | None) -> float:
    """The tolerance of an export of ``source``: the largest difference as a share of the largest output."""
    return INT8 if quantize else ROUNDED if source.rounds else EXACT


def compare(source: Exportable, run: Any, rows: Sequence[Any], batch: int, length: int | None) -> dict[str, Any]:
    """Compares the outputs of the engine ``run`` for ``rows`` with the model's.

    Returns "difference", the largest difference as a share of the largest output, and "same_decisions", the share of
    equal predictions (None without predictions).
    """
    found: list[Outputs] = []
    for inputs in source.batches(rows, batch, length):
        try:
            given = run(inputs)
        except Exception as error:  # engines raise errors of several types
            said = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise EnvironmentProblem(
                f"The exported file does not run: the engine says '{said[:200]}'. Nothing was written. "
                "Export with --format saved_model."
            ) from error
        found += [{name: array[n] for name, array in given.items()} for n in range(batch)]
    differences, largest, same = {}, {}, []
    for row, theirs, ours in zip(rows, found, source.answered(rows), strict=False):  # the last batch is padded
        for name, array in ours.items():
            other = theirs[name][: row.tokens] if np.ndim(array) and array.shape[0] == row.tokens else theirs[name]
            if not np.isfinite(other).all():
                raise EnvironmentProblem(f"The output {name} of the exported file is not finite. Export without int8.")
            differences[name] = max(differences.get(name, 0.0), float(np.max(np.abs(other - array))))
            largest[name] = max(largest.get(name, 0.0), float(np.max(np.abs(array))))
            if name == source.decision:
                same += np.atleast_1d(np.argmax(other, -1) == np.argmax(array, -1)).tolist()
    shares = [differences[name] / (largest[name] or 1.0) for name in differences]
    return {"difference": max(shares), "same_decisions": float(np.mean(same)) if same else None}


def _checked(source: Exportable, run: Any, options: ExportOptions, batch: int, length: int | None) -> dict[str, Any]:
    rows, what = source.rows(options.data, EXAMPLES)
    found = compare(source, run, rows, batch, length)
    tolerance = options.tolerance or tolerance_of(source, options.quantize)
    if found["difference"] > tolerance:
        raise EnvironmentProblem(
            f"The outputs of the exported file differ from the model's by {found['difference']:.2g} of the largest "
            f"output, more than the tolerance of {tolerance:g}, on {len(rows)} inputs ({what}). Nothing was written. "
            "Export without --quantize, or allow more with --tolerance."
        )
    return {"inputs": what, "rows": len(rows), "tolerance": tolerance, **found}


def _text_check(source: Exportable, path: Path, tolerance: float) -> dict[str, Any]:
    from ptmbench.bench.runs.exports import texts

    found = texts.check(source, path)
    if found.get("difference", 0.0) > tolerance or found.get("same_tags", 1.0) < 1.0 - tolerance:
        raise EnvironmentProblem(
            f"The predictions of the exported file for texts differ from the model's ({found}). Nothing was written. "
            "Export without --texts."
        )
    return found


def _manifest(
    source: Exportable, options: ExportOptions, path: Path, check: Mapping[str, Any], batch: int | None
) -> dict[str, Any]:
    about = source.found.about
    length = source.length if batch else None
    axes = {"tokens": [batch, length], "segments": [batch, length]}
    given = FORMATS[options.format].engine(path)(
        {name: np.ones((batch or 1, source.length), np.int32) for name in TEXT}
    )
    outputs = {}
    for name, array in sorted(given.items()):
        own = [batch, *array.shape[1:]]
        if array.ndim == 3:
            own[1] = length
        outputs[name] = {"shape": own, "dtype": str(array.dtype)}
    inputs = {name: {"shape": axes[name], "dtype": "int32"} for name in TEXT}
    if source.texts:
        from ptmbench.bench.runs.exports import texts

        inputs, outputs = texts.interface(path)
    return {
        "format": options.format,
        "quantize": options.quantize,
        "file": path.name,
        "bytes": bytes_of(path),
        "sha256": _digest(path),
        "weights_sha256": source.found.files["weights.safetensors"],
        "model": about["model"],
        "shape": about["shape"],
        "task": source.task or None,
        "adaptation": about.get("adaptation"),
        "transform": about.get("transform"),
        "labels": list(source.labels),
        "length": source.length,
        "inputs": inputs,
        "outputs": outputs,
        "tokenizer": {"file": "tokenizer.json", "vocabulary": source.tokenizer.vocabulary.size},
        "check": dict(check),
        "versions": {name: environment.versions()[name] for name in ("ptmbench", "tensorflow", "keras")},
    }


def bytes_of(path: Path) -> int:
    """The size of a file, or of all files of a folder."""
    return sum(file.stat().st_size for file in _files(path))


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of a folder's files."""
    found = hashlib.sha256()
    for file in _files(path):
        found.update(b"" if path.is_file() else str(file.relative_to(path)).encode())
        found.update(file.read_bytes())
    return found.hexdigest()


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def _check_free(out: Path) -> None:
    if out.exists() and not (out / MANIFEST).exists() and (not out.is_dir() or any(out.iterdir())):
        raise EnvironmentProblem(f"{out} exists and is not an export, so it is not overwritten. Give another --out.")
