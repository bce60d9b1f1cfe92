"""What is saved, sealed and restored: folders of arrays under a manifest with SHA-256 sums.

    manifest.json         what this is, the sums of the other files, and a seal over itself
    weights.safetensors   every variable of the model by its path
    *.safetensors         more arrays (the optimizer's, while training goes on)
    tokenizer.json        the vocabulary

A folder appears whole or not at all: it is written under a temporary name and renamed. Arrays are safetensors, text is
JSON; nothing that is read here can run code. Keras's own `.weights.h5` loads a flipped bit in silence, so every file
is hashed before it is opened.
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
"""Number of the layout of checkpoints. Raised to 2 when the variables of Transformers took the paths of the layers that
own them ("encoder/stack/layer_0/attention/projection/kernel")."""
_KEPT = 2
"""Training states on disk: the newest one, and the one before it in case that the newest is damaged."""
MANIFEST = "manifest.json"


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged or of another format; the message names the file."""


@dataclass(frozen=True)
class Checkpoint:
    """An intact checkpoint: its folder and what its manifest says. Arrays are read when asked for."""

    folder: Path
    about: Mapping[str, Any]
    files: Mapping[str, str]

    def __fspath__(self) -> str:
        """Its folder, so that a checkpoint may be given where a path is asked for."""
        return os.fspath(self.folder)

    def arrays(self, name: str = "weights") -> dict[str, np.ndarray]:
        """Arrays by variable path, after the file's sum has been checked."""
        from safetensors.numpy import load

        content = self._checked(f"{name}.safetensors")
        try:
            return load(content)
        except Exception as error:  # safetensors raises its own error types for malformed headers
            raise CheckpointError(f"{self.folder / name}.safetensors cannot be read: {error}.") from error

    def path(self, name: str) -> Path:
        """The path of a file whose sum has been checked."""
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
    """The content of a file of ``arrays``, in the format safetensors."""
    from safetensors.numpy import save

    return save({name: np.array(array, order="C") for name, array in arrays.items()})


def write(
    folder: Path, *, about: Mapping[str, Any], arrays: Mapping[str, Mapping[str, np.ndarray]], texts: Mapping[str, str]
) -> Checkpoint:
    """Write a checkpoint at ``folder``, whole or not at all; one that was there before is replaced only by a complete
    one.

    ``arrays`` maps file stems ("weights", "optimizer") to arrays by variable path, ``texts`` file names to contents.
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
    """`CheckpointError` where `write` would refuse ``folder``: to be told before hours of training, not after."""
    if folder.exists() and not (folder / MANIFEST).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CheckpointError(
            f"{folder} exists and is not a checkpoint, so it is not overwritten. Give another folder."
        )


def read(folder: Path) -> Checkpoint:
    """The checkpoint at ``folder``, its manifest verified; `CheckpointError` says what is wrong with it."""
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
    """The newest checkpoint below ``folder`` of which every array can be read, with its arrays; damaged ones are named
    to ``warn``."""
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
    """Write the training state after ``step`` below ``folder``; it and the one before it are kept."""
    state = folder / f"step-{step:09d}"
    shutil.rmtree(state, ignore_errors=True)  # one of this step is damaged, or the training would not be here again
    write(state, about=about, arrays=arrays, texts={})
    keep_up_to(state, _KEPT)


def keep_up_to(last: Path, count: int) -> None:
    """Keeps the training state ``last`` and the ones before it in the same folder, ``count`` in all.

    Later ones are damaged, or the training would not have gone back behind them. The remains of killed
    saves are removed too.
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
    return sorted(found, key=_number, reverse=True)  # more than nine digits push a name before shorter ones


def _number(state: Path) -> int:
    digits = state.name.removeprefix("step-")
    return int(digits) if digits.isdecimal() else -1


def write_text(path: Path, text: str) -> None:
    """`write_bytes` for text, as UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part."""
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
        error.filename = error.filename or str(path)  # a full disk does not say which file it had no room for
        raise


def _replace(fresh: Path, folder: Path) -> None:
    """Put ``fresh`` in the place of ``folder``. A directory cannot be swapped in one call, so the old one steps aside
    first."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        os.rename(folder, old)
    os.rename(fresh, folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Make the names in ``folder`` survive a power cut, as fsync does for the content of files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(value: Any) -> str:
    """SHA-256 of ``value`` as canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()
