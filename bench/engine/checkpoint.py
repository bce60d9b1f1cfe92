"""Checkpoints: folders of arrays with a manifest of SHA-256 sums.

    manifest.json         a description, the sums of the other files, and a seal over the manifest itself
    weights.safetensors   every variable of the model by its path
    *.safetensors         more arrays (the optimizer's, while training goes on)
    tokenizer.json        the vocabulary

A folder appears whole or not at all: it is written under a temporary name and renamed. Arrays are stored as safetensors
and texts as JSON, so reading a checkpoint cannot run code. Every file is hashed before it is opened. Keras's own
`.weights.h5` format would load a flipped bit without an error.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 2
"""Version of the format of checkpoints. Since version 2, the variables of Transformers have the paths of the layers
that own them ("encoder/stack/layer_0/attention/projection/kernel")."""
_KEPT = 2
"""Number of training states on disk: the newest one, and the one before it in case the newest is damaged."""
MANIFEST = "manifest.json"


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged or of another format; the message names the file."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint with a valid manifest: a description, and the SHA-256 of each file. Arrays are read on demand."""

    folder: Path
    about: Mapping[str, Any]
    files: Mapping[str, str]

    def __fspath__(self) -> str:
        """The folder, so that a checkpoint can be passed as a path."""
        return os.fspath(self.folder)

    def arrays(self, name: str = "weights") -> dict[str, np.ndarray]:
        """Reads the arrays of a file by variable path. Raises `CheckpointError` if the file is missing or damaged."""
        from safetensors.numpy import load

        content = self._checked(f"{name}.safetensors")
        try:
            return load(content)
        except Exception as error:  # safetensors raises its own error types for malformed headers
            raise CheckpointError(f"{self.folder / name}.safetensors cannot be read: {error}.") from error

    def path(self, name: str) -> Path:
        """Checks the SHA-256 of the file ``name`` and returns its path."""
        self._checked(name)
        return self.folder / name

    @property
    def weights_sha256(self) -> str:
        return self.files["weights.safetensors"]

    def _checked(self, name: str) -> bytes:
        path = self.folder / name
        if name not in self.files:
            raise CheckpointError(f"{self.folder} holds no {name}; it holds {', '.join(self.files)}.")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path} of the checkpoint cannot be read: {error.strerror}.") from error
        if hashlib.sha256(content).hexdigest() != self.files[name]:
            raise CheckpointError(
                f"{path} is damaged: its SHA-256 is not the one in {MANIFEST}. Restore it, or make it again."
            )
        return content


def content_of(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Returns ``arrays`` as the bytes of a safetensors file."""
    from safetensors.numpy import save

    return save({name: np.array(array, order="C") for name, array in arrays.items()})


def write(
    folder: Path, *, about: Mapping[str, Any], arrays: Mapping[str, Mapping[str, np.ndarray]], texts: Mapping[str, str]
) -> Checkpoint:
    """Writes a checkpoint to ``folder``, whole or not at all. Only a complete checkpoint replaces an older one.

    ``arrays`` maps file stems ("weights", "optimizer") to arrays by variable path. ``texts`` maps file names to
    contents. Raises `CheckpointError` if ``folder`` has other files.
    """
    check_free(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        contents = {f"{stem}.safetensors": content_of(named) for stem, named in arrays.items()}
        contents |= {name: text.encode() for name, text in texts.items()}
        files = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())}
        manifest = {"format": FORMAT, "about": dict(about), "files": files}
        contents[MANIFEST] = json.dumps(manifest | {"seal": _seal(manifest)}, indent=1).encode()
        for name, content in contents.items():
            _write_synced(fresh / name, content)
        _sync(fresh)
        _replace(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Checkpoint(folder, manifest["about"], files)


def check_free(folder: Path) -> None:
    """Raises `CheckpointError` if `write` would refuse ``folder``. Called before training, to save hours of work."""
    if folder.exists() and not (folder / MANIFEST).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CheckpointError(
            f"{folder} exists and is not a checkpoint, so it is not overwritten. Give another folder."
        )


def read(folder: Path) -> Checkpoint:
    """Reads the checkpoint in ``folder`` and verifies its manifest. Raises `CheckpointError` if it is not valid."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise CheckpointError(
            f"{folder} is not a checkpoint: it has no {MANIFEST}. Give the folder that `pretrain`, `import` or "
            "`run --keep` wrote."
        )
    try:
        manifest = json.loads(path.read_bytes())
        seal = manifest.pop("seal")
        version, about, files = manifest["format"], manifest["about"], manifest["files"]
        outside = [name for name in files if Path(name).name != name]
        if not isinstance(about, dict) or not isinstance(files, dict) or not all(map(_is_text, files.values())):
            raise TypeError("types")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: it cannot be read as a manifest.") from error
    if isinstance(version, int) and version < FORMAT:
        raise CheckpointError(
            f"{path} was made by an earlier version of ptmbench, which named weights otherwise: it has format "
            f"{version}, and this version reads format {FORMAT}. Make it again, or use the earlier version."
        )
    if version != FORMAT:
        raise CheckpointError(f"{path} has format {version}; this version of ptmbench reads format {FORMAT}.")
    if seal != _seal(manifest) or outside:
        raise CheckpointError(f"{path} is damaged: its seal does not fit its content.")
    return Checkpoint(Path(folder), about, files)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def newest_intact(
    folder: Path, warn: Callable[[str], None]
) -> tuple[Checkpoint, dict[str, dict[str, np.ndarray]]] | None:
    """Returns the newest training state below ``folder`` whose arrays can all be read, and the arrays by file stem.
    None if there is none. Calls ``warn`` for each damaged one."""
    for candidate in _steps(folder):
        try:
            found = read(candidate)
            stems = [name.removesuffix(".safetensors") for name in found.files if name.endswith(".safetensors")]
            return found, {stem: found.arrays(stem) for stem in stems}
        except CheckpointError as error:
            warn(f"{error} Going back to the one before it.")
    return None


def write_state(
    folder: Path, step: int, *, about: Mapping[str, Any], arrays: Mapping[str, Mapping[str, np.ndarray]]
) -> None:
    """Writes the training state after ``step`` below ``folder``, and keeps it and the one before it."""
    state = folder / f"step-{step:09d}"
    shutil.rmtree(state, ignore_errors=True)  # an existing one is damaged, or the training would have resumed from it
    write(state, about=about, arrays=arrays, texts={})
    keep_up_to(state, _KEPT)


def keep_up_to(last: Path, count: int) -> None:
    """Keeps the training state ``last`` and those before it, ``count`` in all. Removes all others in its folder.

    Later states are damaged, or the training would have resumed from them. Remains of interrupted saves are removed
    too.
    """
    for other in set(_steps(last.parent)) - set(
        [p for p in _steps(last.parent) if _number(p) <= _number(last)][:count]
    ):
        shutil.rmtree(other, ignore_errors=True)
    for remains in last.parent.glob(".step-*"):
        shutil.rmtree(remains, ignore_errors=True)


def newest(folder: Path) -> Path | None:
    """The newest training state below ``folder`` that has a manifest."""
    return next((path for path in _steps(folder) if (path / MANIFEST).exists()), None)


def _steps(folder: Path) -> list[Path]:
    """Training states below ``folder``, the newest first."""
    found = (path for path in folder.glob("step-*") if path.is_dir())
    return sorted(found, key=_number, reverse=True)  # a name of more than nine digits sorts before shorter names


def _number(state: Path) -> int:
    digits = state.name.removeprefix("step-")
    return int(digits) if digits.isdecimal() else -1


def write_text(path: Path, text: str) -> None:
    """As `write_bytes`, for text in UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file atomically: a reader sees the old content or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _write_synced(fresh, content)
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _seal(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _write_synced(path: Path, content: bytes) -> None:
    try:
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = error.filename or str(path)  # the error of a full disk does not name the file
        raise


def _replace(fresh: Path, folder: Path) -> None:
    """Renames ``fresh`` to ``folder``. A folder cannot be replaced in one call, so the old one is renamed first."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        os.rename(folder, old)
    os.rename(fresh, folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Makes the names in ``folder`` survive a power cut, as fsync does for the content of files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(value: Any) -> str:
    """SHA-256 of ``value`` as canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()
