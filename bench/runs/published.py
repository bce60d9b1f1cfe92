"""Imports published checkpoints, and exports checkpoints to their layouts. `models.published` defines the layouts."""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench import models
from ptmbench.bench.console import say
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.engine.checkpoint import Checkpoint, CheckpointError
from ptmbench.bench.errors import OK, EnvironmentProblem, UsageError
from ptmbench.bench.runs.artefacts import RANDOM
from ptmbench.models.card import Size
from ptmbench.models.published import PublishedError, presets, vectors
from ptmbench.models.published import folder as folders
from ptmbench.models.text.tokenizers import Tokenizer

_SHOWN = 4  # names in a message
_PRESET_TOLERANCE = 2e-5
_PRESET_LENGTH = 32
"""Tokens of the rows that check a preset."""
_MORE = 4
"""Maximum number of the network's weights per stored byte. Heads may be missing, but not most of the network."""
_LAYER = re.compile(r"(\w+/stack/layer_)(\d+)(?=/)")


def import_(
    *,
    source: Path,
    out: Path,
    name: str | None = None,
    model: str | None = None,
    vocabulary: int | None = None,
    layers: tuple[int, ...] = (),
    random: int | None = None,
) -> int:
    """Writes the published model in ``source`` as the checkpoint ``out``. ``source`` is a folder, or a file of word
    vectors, whose first ``vocabulary`` words become ``model``. Missing weights of the objective are initialised with
    seed 0. With ``layers``, counted from 1 in ascending order, the other layers are left out. With ``random``, all
    weights are initialised with this seed: the model's random twin."""
    if (out / checkpoint.MANIFEST).exists():
        raise UsageError(f"{out} holds a finished checkpoint already. Give another --out, or delete it.")
    checkpoint.check_free(out)
    found = _read(source, model, vocabulary)
    if layers:
        _check_layers(found, source, layers)
    _import(found, source, out, name, layers, random)
    print(out)
    return OK


def opened(folder: Path, out: Path, name: str | None = None) -> Checkpoint:
    """Opens the pre-trained checkpoint in ``folder``. A folder in Hugging Face layout or a preset of keras-hub is first
    imported into the run folder ``out``, unless an earlier call did so. Its row is called ``name`` (None for the name
    of the folder).

    Raises `CheckpointError` for a checkpoint that is not pre-trained, `PublishedError` for a folder that cannot be
    imported, and `UsageError` for a ``name`` with a checkpoint.
    """
    if (folder / checkpoint.MANIFEST).exists() or not (folder / "config.json").is_file():
        if name:
            raise UsageError(f"--name is for published folders, and {folder} is a checkpoint. Leave --name out.")
        return _checked(folder, "Use `predict` with it.")
    found = folders.read(folder)
    content = {"weights": found.sha256, "config": dict(found.config), "tokenizer": found.tokenizer.about["sha256"]}
    made = out / "imported" / checkpoint.digest(content | {"name": name or folder.resolve().name})[:12]
    if (made / checkpoint.MANIFEST).exists():
        return checkpoint.read(made)
    return _import(found, folder, made, name)


def _import(
    found: folders.Folder | vectors.VectorFile,
    source: Path,
    out: Path,
    name: str | None,
    layers: tuple[int, ...] = (),
    random: int | None = None,
) -> Checkpoint:
    """Writes the model ``found`` in ``source``, its ``layers`` alone, or their twin with weights of the seed
    ``random``, as the checkpoint ``out``."""
    module, words = models.load(found.model), found.tokenizer.vocabulary
    parameters, embedding = module.describe(found.size, words).parameters()
    if source.is_dir() and parameters > _MORE * found.stored:
        raise PublishedError(
            f"{source / 'config.json'} tells of {parameters:,} weights, but the files of weights hold {found.stored:,} "
            "bytes. Are both from one model?"
        )
    network = networks.build(found.model, found.size, found.tokenizer, random or 0)
    arrays = networks.weights(network.loss.variables)
    read, absent, unused = found.weights({path: array.shape for path, array in arrays.items()})
    if broken := [path for path, array in read.items() if not np.isfinite(array).all()]:
        raise PublishedError(
            f"{source} holds weights that are NaN or infinite (here {_some(broken)}): its model diverged, or was saved "
            "in a precision that cannot hold it."
        )
    size, given = found.size, name or source.resolve().name
    if layers:
        size = replace(size, layers=len(layers))
        given = name or f"{given}-layers-{'.'.join(map(str, layers))}"
        network = networks.build(found.model, size, found.tokenizer, random or 0)
        arrays = networks.weights(network.loss.variables)
        read = {path: array for path, array in _renumbered(read, layers).items() if path in arrays}
        absent = [path for path in absent if path in arrays]
        parameters, embedding = module.describe(size, words).parameters()
    training: dict[str, Any] = dict.fromkeys(("seed", "steps", "tokens", "flops", "seconds", "loss", "corpus_sha256"))
    if random is not None:
        say(f"The random twin: all weights have their initial values, with seed {random}.")
        read, absent, unused = {}, [], []
        training |= {"seed": random, "steps": 0, "tokens": 0, "flops": 0, "seconds": 0.0, "random": True}
    if absent:
        say(f"Not in {source.name}, so initialised at random: {_some(absent)}.")
    if unused:
        say(f"Not used: {_some(unused)}.")
    about = training | {
        "kind": "pretrained",
        "division": "published",
        "name": given if name or random is None else f"{RANDOM}{given}",
        "model": found.model,
        "size": _size_name(module, size),
        "shape": asdict(size),
        "corpus": "published" if random is None else "",
        "source": {"folder": source.resolve().name, "sha256": found.sha256, "config": dict(found.config)}
        | ({"layers": list(layers)} if layers else {}),
        "afresh": absent,
        "parameters": parameters,
        "parameters_embedding": embedding,
        "tokenizer": found.tokenizer.about,
    }
    texts = {"tokenizer.json": found.tokenizer.to_json()}
    made = checkpoint.write(out, about=about, arrays={"weights": arrays | read}, texts=texts)
    some = f", {len(layers)} of {found.size.layers} layers" if layers else ""
    say(f"{module.CARD.title}{some}, {parameters:,} weights, {words.size:,} pieces.")
    return made


def _check_layers(found: folders.Folder | vectors.VectorFile, source: Path, layers: tuple[int, ...]) -> None:
    """Raises `UsageError` if the model ``found`` in ``source`` has no such ``layers``, or a decoder too."""
    if isinstance(found, vectors.VectorFile):
        raise UsageError(f"{source} is a file of word vectors, which have no layers: leave --layers out.")
    if layers[-1] > found.size.layers:
        raise UsageError(f"--layers names layer {layers[-1]}, and {source} has {found.size.layers}.")
    if any(weight.ours.startswith("decoder/") for weight in found.table.weights(found.size)):
        raise UsageError(f"{source} has an encoder and a decoder, and --layers takes models with one stack of layers.")


def _renumbered(arrays: Mapping[str, np.ndarray], layers: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Returns ``arrays``, by path, without those of layers that are not in ``layers``. The first of these becomes
    layer_0, and so on. A block that all layers share (ALBERT) is unchanged. ELECTRA's generator has as many layers as
    its encoder, and keeps the same ones."""
    places = [_LAYER.match(path) for path in arrays]
    if {place[2] for place in places if place} == {"0"}:
        return dict(arrays)
    new = {str(number - 1): str(place) for place, number in enumerate(layers)}
    found = {}
    for (path, array), place in zip(arrays.items(), places, strict=True):
        if not place:
            found[path] = array
        elif place[2] in new:
            found[place[1] + new[place[2]] + path[place.end() :]] = array
    return found


def _read(source: Path, model: str | None, most: int | None) -> folders.Folder | vectors.VectorFile:
    if not source.is_dir():
        return vectors.read(source, model, most)
    if model or most:
        raise UsageError(f"{source} is a folder, which says what it holds: leave --model and --vocabulary out.")
    return folders.read(source)


def export_checkpoint(*, checkpoint: Path, out: Path) -> int:
    """Writes the pre-trained model in ``checkpoint`` in the layout of `models.published`, and word vectors in the text
    format of word2vec."""
    found, tokenizer, arrays = _pretrained(checkpoint)
    if vectors.TABLE in arrays:
        vectors.write(out, tokenizer, arrays)
    else:
        size = Size(**found.about["shape"])
        folders.write(out, model=found.about["model"], size=size, tokenizer=tokenizer, arrays=arrays)
    print(out)
    return OK


def export_preset(*, checkpoint: Path, out: Path, tolerance: float | None = None) -> int:
    """Writes the pre-trained model in ``checkpoint`` as a preset of keras-hub.

    Loads the preset with keras-hub to check it. Raises `EnvironmentProblem` and writes nothing if its outputs differ
    from the network's by more than ``tolerance``, a fraction of the largest output (None for 2e-5).
    """
    found, tokenizer, arrays = _pretrained(checkpoint)
    model, size = found.about["model"], Size(**found.about["shape"])
    network = networks.build(model, size, tokenizer, 0)
    networks.assign(network.loss.variables, arrays)
    with folders.new_folder(out) as fresh:
        written = presets.write(fresh, model=model, size=size, tokenizer=tokenizer, arrays=arrays)
        difference = _difference(fresh, written, network, tokenizer)
        if difference > (tolerance or _PRESET_TOLERANCE):
            raise EnvironmentProblem(
                f"The outputs of keras-hub's {written.backbone} differ from the model's by {difference:.2g} of the "
                f"largest output, more than the tolerance of {tolerance or _PRESET_TOLERANCE:g}. Nothing was written. "
                "Export with --format transformers, or allow more with --tolerance."
            )
    say(f"keras-hub's {written.backbone} loads it; its outputs differ by at most {difference:.2g} of the largest one.")
    if written.unwritten:
        say(f"A backbone has no place for the objective's weights: {_some(written.unwritten)}.")
    if written.deviations:
        say(f"keras-hub's tokenizer gives other ids for texts with: {', '.join(written.deviations)}.")
    print(out)
    return OK


def _pretrained(path: Path) -> tuple[Any, Tokenizer, dict[str, np.ndarray]]:
    """Returns the checkpoint at ``path``, its tokenizer and its arrays. Raises `CheckpointError` if it is not
    pre-trained."""
    advice = "This layout has no place for the head of a task: export it with --format saved_model, litert or onnx."
    found = _checked(path, advice)
    return found, Tokenizer.load(found.path("tokenizer.json")), found.arrays()


def _checked(path: Path, advice: str) -> Checkpoint:
    """Returns the checkpoint at ``path``. Raises `CheckpointError` with ``advice`` if it is not pre-trained."""
    found = checkpoint.read(path)
    if found.about.get("kind") != "pretrained":
        raise CheckpointError(f"{path} holds a model that is {found.about.get('kind')}, not pretrained. {advice}")
    return found


def _difference(preset: Path, written: presets.PresetContents, network: Any, tokenizer: Tokenizer) -> float:
    """Returns the largest difference between outputs of the ``preset`` in keras-hub and of ``network``, as a fraction
    of the largest output. Compares the hidden states and the decoder's logits for two rows of random tokens; the second
    row is padded."""
    import keras_hub

    backbone = getattr(keras_hub.models, written.backbone).from_preset(str(preset), dtype="float32")
    length = min(network.encoder.length or _PRESET_LENGTH, _PRESET_LENGTH)
    absent = tokenizer.vocabulary.absent  # their logits are far below all others in ``network``
    known = np.array([n for n, place in enumerate(written.places) if place is not None and n not in absent])
    ours = np.random.default_rng(0).choice(known[known > tokenizer.vocabulary.mask], (2, length))
    present = np.arange(length) < np.array([[length], [length * 2 // 3]])
    theirs = np.array([-1 if place is None else place for place in written.places])[ours] * present
    ours = (ours * present).astype(np.int32)
    segments = (np.arange(length) > length // 3) & present
    rows = {"token_ids": theirs, "padding_mask": present, "segment_ids": segments}
    given = {
        name: rows[name.removeprefix("encoder_").removeprefix("decoder_")].astype(np.int32) for name in backbone.input
    }
    answer = backbone(given)
    answer = answer if isinstance(answer, dict) else {"sequence_output": answer}
    segments = segments.astype(np.int32) if "segment_ids" in given else np.zeros_like(ours)
    hidden = np.asarray(network.encoder({"tokens": ours, "segments": segments}).tokens)
    pairs = [(answer.get("encoder_sequence_output", answer.get("sequence_output")), hidden)]
    if "decoder_sequence_output" in answer:
        states = np.asarray(answer["decoder_sequence_output"])
        scale = states.shape[-1] ** -0.5 if written.backbone == "T5Backbone" else 1.0  # T5 scales before the logits
        table = np.asarray(backbone.token_embedding.embeddings)[[written.places[number] for number in known]]
        logits = np.asarray(network.decode({"tokens": ours, "targets": ours}))[..., known]
        pairs.append((states @ table.T * scale, logits))
    shares = []
    for theirs, ours in pairs:
        apart = np.abs(np.asarray(theirs) - ours)[present]
        shares.append(float(apart.max() / np.abs(ours[present]).max()))
    return max(shares)


def _size_name(module: Any, size: Size) -> str:
    """The name of ``size`` in the model's file, compared without the length. If there is none, "LAYERSxWIDTH", or
    "WIDTH" for a lookup table."""
    same = (
        name for name, known in module.SIZES.items() if asdict(known) | {"length": 0} == asdict(size) | {"length": 0}
    )
    return next(same, f"{size.layers}x{size.width}" if size.layers else str(size.width))


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
