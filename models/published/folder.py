"""Reads and writes folders in Hugging Face layout: config.json, the arrays, the vocabulary.

Presets of keras-hub are read as well, with `models.published._keras_hub`.

config.json                                       the kind of model (``model_type``) and its shape
model.safetensors, or its shards and their index  the arrays; else pytorch_model.bin
tokenizer.json, vocab.txt, ...                    see `models.published._vocabulary`
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.published import PublishedError, _arrays, _keras_hub, _vocabulary
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Tokenizer

_WEIGHTS = {"model.safetensors": _arrays.safetensors, "pytorch_model.bin": _arrays.torch}
_SHOWN = 5  # names in a message
_LARGEST = {"layers": 1 << 10, "heads": 1 << 10, "width": 1 << 16, "embedding": 1 << 16}
"""Largest sizes of a network. The limit for lengths and inner widths is 2^20."""
_ELSEWHERE = "Import a checkpoint that is computed here, or run this one with transformers."
"""The next step for a model that is complete, but of another kind."""
_ROUNDING = 1e-2
"""The largest difference that bfloat16 makes to numbers up to 1."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A published model, and the model here that computes it. Arrays are read at each access."""

    path: Path
    model: str
    """The name of our model that computes it."""
    table: ModuleType
    """Its file in `models.published`."""
    config: Mapping[str, Any]
    size: Size
    tokenizer: Tokenizer
    arrays: Mapping[str, np.ndarray]
    sha256: str
    """SHA-256 of the file of weights, or of the hashes of its shards."""
    stored: int
    """Size of the files of weights in bytes."""

    def weights(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, np.ndarray], list[str], list[str]]:
        """Returns the arrays by path for the variables of ``loss``, which have these ``shapes``.

        Also returns the paths of the objective's weights that are missing, and the names of arrays that are not used.
        Raises `PublishedError` if the encoder lacks an array, or if an array does not fit config.json.
        """
        names, found, absent, missing, halves = _Names(self.arrays, self.table.PREFIX), {}, [], [], set()
        self._check_fixed(names)
        for weight in self.table.weights(self.size):
            try:
                found[weight.ours] = self._read(weight, names, shapes[weight.ours])
            except KeyError:
                if weight.head:
                    absent.append(weight.ours)
                else:
                    missing += [name for name in weight.theirs if name not in names]
                    halves.add(weight.ours.partition("/")[0])
            except PublishedError:
                raise
            except ValueError as error:
                sizes = ", ".join(f"{name} {names[name].shape}" for name in weight.theirs)
                raise PublishedError(
                    f"{self.path}: {sizes} does not fit the shape that config.json tells. Are both from one model? "
                    "Fetch both again."
                ) from error
        if halves == {"decoder"} and not any("decoder." in name for name in names):
            made_by = ", ".join(self.config.get("architectures") or ["unknown"])
            raise published.Unsupported(
                f"{self.path} has no decoder (its class is {made_by}), and {self.model} here is an encoder with its "
                "decoder. Save the whole model, whose class in transformers ends with ForConditionalGeneration."
            )
        if missing:
            raise PublishedError(
                f"{self.path} lacks {len(missing)} arrays that {self.model} has: {_some(missing)}. Is it whole, and of "
                f"the model type {self.config.get('model_type')} that config.json tells? Fetch it again."
            )
        return found, absent, names.unused()

    def _check_fixed(self, names: "_Names") -> None:
        """Raises `Unsupported` if the checkpoint has another value for an array that our network computes or lacks."""
        for name, value in getattr(self.table, "fixed", lambda size: {})(self.size).items():
            if name not in names:
                continue
            array = names[name]
            same = array.ndim >= value.ndim and value.shape in ((), array.shape)
            if not same or np.abs(array - value).max(initial=0.0) > _ROUNDING:
                usual = f"fixed numbers of the shape {value.shape}" if value.ndim else "zeros"
                raise published.Unsupported(
                    f"{self.path}: {name} {array.shape} differs from the {usual} that {self.model} has there, so the "
                    f"network here would not compute this model. {_ELSEWHERE}"
                )

    def _read(self, weight: Weight, names: "_Names", shape: tuple[int, ...]) -> np.ndarray:
        given = {name: names[name] for name in weight.theirs if name in names}
        if not given and weight.otherwise in names:
            given[weight.theirs[0]] = names[weight.otherwise]
        for copy in weight.copies:  # one or both names may be there, with equal arrays
            if copy in names and not np.array_equal(given.setdefault(weight.theirs[0], names[copy]), names[copy]):
                raise published.Unsupported(
                    f"{self.path}: {copy} differs from {weight.theirs[0]}, and the network here has one for both. "
                    f"{_ELSEWHERE}"
                )
        whole = next((name for name, array in given.items() if array.dtype.kind != "f"), None)
        if whole:  # their scales are in separate arrays, which no table here has
            raise published.Unsupported(
                f"{self.path}: {whole} holds whole numbers ({given[whole].dtype}), so the model was quantised. Load it "
                "with transformers in float32 and save it."
            )
        if weight.vocabulary:
            given = {name: _vocabulary.to_ours(array, self.tokenizer) for name, array in given.items()}
        return np.ascontiguousarray(weight.read(given, shape))


class _Names(Mapping[str, np.ndarray]):
    """Arrays by the names of a table, in any of the spellings of checkpoints.

    The prefix may be missing, and the scale and bias of norms may be called gamma and beta.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], prefix: str):
        self._arrays, self._prefix, self._used = arrays, prefix, set()

    def __getitem__(self, name: str) -> np.ndarray:
        for spelling in self._spellings(name):
            if spelling in self._arrays:
                self._used.add(spelling)
                return self._arrays[spelling]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(spelling in self._arrays for spelling in self._spellings(str(name)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def unused(self) -> list[str]:
        return sorted(set(self._arrays) - self._used)

    def _spellings(self, name: str) -> Iterator[str]:
        for full in dict.fromkeys((name, name.removeprefix(self._prefix))):
            yield full
            for new, old in ((".weight", ".gamma"), (".bias", ".beta")):
                if full.endswith(new):
                    yield full.removesuffix(new) + old


def read(path: Path) -> Folder:
    """Reads the published model in ``path``. Raises `PublishedError` if a part is missing, foreign or damaged."""
    try:
        return _read(path)
    except published.Unsupported as error:
        raise published.Unsupported(f"{_placed(path, error)} {_ELSEWHERE}") from error
    except PublishedError as error:
        raise PublishedError(_placed(path, error)) from error


def _placed(path: Path, error: PublishedError) -> str:
    """Returns the message of ``error``, and adds the folder if the message does not name it."""
    return str(error) if str(path) in str(error) else f"{path} cannot be imported. {error}"


def _read(path: Path) -> Folder:
    if not (path / "config.json").is_file():
        raise PublishedError(
            f"{path} has no config.json, so it is not a folder in Hugging Face layout. Give the folder that "
            "`save_pretrained` wrote, or a snapshot of the hub."
        )
    config = _vocabulary.json_of(path / "config.json")
    preset = _keras_hub.backbone(config)
    if preset:
        config = _of_preset(path, config)
    name, table = table_of(config)
    try:
        size = _possible(table.size(config))
    except KeyError as error:
        raise PublishedError(f"{path / 'config.json'} does not say {error}. Fetch it again.") from error
    except (ArithmeticError, TypeError, ValueError) as error:
        raise PublishedError(
            f"{path / 'config.json'} tells a shape that no network has ({error}): layers, widths, heads and length are "
            "whole numbers above 0, and the heads divide the width, which is even. Fetch it again."
        ) from error
    if preset:
        files, makers = _keras_hub.arrays(path, config)
        arrays = _arrays.Arrays(makers)
    else:
        files, arrays = _open(path)
    return Folder(
        path=path,
        model=name,
        table=table,
        config=config,
        size=size,
        tokenizer=_keras_hub.tokenizer(path, config) if preset else _vocabulary.read(path, config),
        arrays=arrays,
        sha256=_sha256(files),
        stored=sum(file.stat().st_size for file in files),
    )


def _possible(size: Size) -> Size:
    """Returns ``size``. Raises `ValueError` if no network can have it."""
    numbers = asdict(size)
    numbers["embedding"] = numbers["embedding"] or size.width
    if any(type(number) is not int or number < 1 for number in numbers.values()) or size.width % 2:
        raise ValueError(size)
    if large := {name: number for name, number in numbers.items() if number > _LARGEST.get(name, 1 << 20)}:
        raise ValueError(f"no published model is as large as {large}")
    if size.width % size.heads:
        raise ValueError(f"{size.heads} heads in {size.width}")
    return size


def _of_preset(path: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a preset in `transformers`. Raises `PublishedError` if no model here computes it."""
    try:
        found = _keras_hub.settings(config)
        table_of(found)
    except KeyError as error:
        raise PublishedError(f"{path / 'config.json'} does not say {error}. Save the preset again.") from error
    except published.Unsupported as error:
        raise published.Unsupported(f"{path} is a preset of keras-hub. {error}") from error
    except (AttributeError, TypeError) as error:
        raise PublishedError(f"{path / 'config.json'} is no preset's: {error}. Save the preset again.") from error
    return found


def table_of(config: Mapping[str, Any]) -> tuple[str, ModuleType]:
    """Returns the model that reads ``config``, and its file of `models.published`.

    Several models may have the same type, and the first that can read ``config`` counts. Raises `Unsupported` if there
    is none.
    """
    kind, refused = config.get("model_type"), []
    for name in published.names():
        table = published.load(name)
        if kind in table.MODEL_TYPES:
            try:
                table.size(config)
                return name, table
            except published.Unsupported as error:
                refused.append(f"As {name}: {error}")
            except (ArithmeticError, KeyError, TypeError):  # `_read` asks for the size again and reports it
                return name, table
    if refused:
        raise published.Unsupported(" ".join(refused))
    known = sorted({kind for name in published.names() for kind in published.load(name).MODEL_TYPES})
    raise published.Unsupported(f"Models of the type '{kind}' are not read here. Known: {', '.join(known)}.")


def _open(path: Path) -> tuple[list[Path], _arrays.Arrays]:
    """Returns the files of weights and their arrays."""
    for name, reader in _WEIGHTS.items():
        if (path / name).is_file():
            files = [path / name]
        elif (path / f"{name}.index.json").is_file():
            files = _shards(path, f"{name}.index.json")
        else:
            continue
        found = {}
        for file in files:
            if not file.is_file():
                raise PublishedError(f"{path} lacks {file.name}, one of its shards. Fetch it again.")
            found |= reader(file)
        if not found:
            raise PublishedError(f"{files[0]} holds no arrays. Fetch it again.")
        return files, _arrays.Arrays(found)
    raise PublishedError(
        f"{path} has no weights: {' or '.join(_WEIGHTS)} has to be there, or its index. Weights of TensorFlow or Flax: "
        "load them with transformers and save them."
    )


def _shards(path: Path, index: str) -> list[Path]:
    names = _vocabulary.json_of(path / index).get("weight_map")
    if not isinstance(names, dict) or not names or any(Path(str(name)).name != name for name in names.values()):
        raise PublishedError(f"{path / index} does not name files of this folder. Fetch it again.")
    return [path / name for name in sorted(set(names.values()))]


def _sha256(files: list[Path]) -> str:
    sums = []
    for file in files:
        with file.open("rb") as content:
            sums.append(hashlib.file_digest(content, "sha256").hexdigest())
    return sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()


def write(path: Path, *, model: str, size: Size, tokenizer: Tokenizer, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes ``arrays``, by path of variable, into the folder ``path``, which must be new or empty.

    An imported vocabulary gets its original ids and files. Raises `PublishedError` for a model without a file in
    `models.published`, and for a vocabulary whose padding has another id than the model's code in `transformers` uses.
    """
    from safetensors.numpy import save

    tokenizer, config, found = in_their_layout(model, size, tokenizer, arrays)
    weights = published.load(model).weights(size)
    segmented = any("segment" in weight.ours and len(arrays[weight.ours]) > 1 for weight in weights)
    with new_folder(path) as fresh:
        (fresh / "model.safetensors").write_bytes(save(found, metadata={"format": "pt"}))
        (fresh / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        for name, text in _vocabulary.file_texts(tokenizer, size.length, segmented).items():
            (fresh / name).write_text(text, encoding="utf-8")


def in_their_layout(
    model: str, size: Size, tokenizer: Tokenizer, arrays: Mapping[str, np.ndarray]
) -> tuple[Tokenizer, dict[str, Any], dict[str, np.ndarray]]:
    """Returns the vocabulary with its original ids, the content of config.json, and the arrays for `transformers`.

    Raises the same errors as `write`.
    """
    if model not in published.names():
        names = ", ".join(published.names())
        raise PublishedError(f"There is no published layout for {model}. There is one for {names}.")
    table = published.load(model)
    if tokenizer.imported is None:
        padding = table.config(size, tokenizer.vocabulary).get("pad_token_id", 0)
        tokenizer = _vocabulary.as_imported(tokenizer, padding)
    special = _special_ids(tokenizer)
    config = special | table.config(size, _vocabulary.original_vocabulary(tokenizer))
    if special["pad_token_id"] not in (None, config["pad_token_id"]):
        raise PublishedError(
            f"This vocabulary's padding has the id {special['pad_token_id']}, but {model} in transformers counts "
            f"positions by the id {config['pad_token_id']}. Train it with a vocabulary made here, which is renumbered."
        )
    found: dict[str, np.ndarray] = {}
    for weight in table.weights(size):
        written = weight.write(np.asarray(arrays[weight.ours], np.float32))
        if weight.vocabulary:
            written = {name: _vocabulary.to_theirs(array, tokenizer) for name, array in written.items()}
        # Tied arrays are written once, as in `save_pretrained`. Loading ties them again.
        found |= {name: array for name, array in written.items() if name not in weight.copies}
    return tokenizer, config, found


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yields a folder that becomes ``path`` at the end, and is deleted after an error.

    Raises `PublishedError` if ``path`` exists and is not an empty folder.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise PublishedError(f"{path} is there already and not empty, so it is not overwritten. Give another folder.")
    fresh = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        yield fresh
        if path.exists():
            path.rmdir()
        fresh.rename(path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _special_ids(tokenizer: Tokenizer) -> dict[str, int | None]:
    """Returns the ids of special tokens for config.json, None for tokens that a published vocabulary lacks."""
    pad, _, cls, sep, *_ = tokenizer.imported["rows"]
    return {"pad_token_id": pad, "bos_token_id": cls, "eos_token_id": sep}


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
