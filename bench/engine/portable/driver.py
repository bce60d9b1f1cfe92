"""Runs pre-trainings that ``ptmbench pretrain --carry`` wrote, on a machine with JAX and NumPy. No TensorFlow.

    python FOLDER/driver.py

Each folder holds a compiled training step, its first state and its batches. The driver writes training states below
``FOLDER/states``, and resumes from the newest intact one. On a processor the result is then the same, bit for bit. Copy
the states back, and run the same ``ptmbench`` command with this folder again to make the checkpoint.

    FOLDER/plan.json         steps, rates, FLOPs, and the inputs and outputs of the program
    FOLDER/program.mlir.gz   the training step, StableHLO
    FOLDER/first/            the state before the first step
    FOLDER/batches/*.npz     the batches of several steps each
    FOLDER/states/step-*/    the states that the driver writes

The files of a state hold the bytes of all arrays in pieces, each compressed by zlib. Its ``state.json`` has their
SHA-256 sums.
"""

import argparse
import gzip
import hashlib
import json
import math
import os
import shutil
import signal
import sys
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

PLAN, PROGRAM, STATE = "plan.json", "program.mlir.gz", "state.json"
FIRST, BATCHES, STATES = "first", "batches", "states"
CONSTANT = "constant/"
"""Prefix of the arrays that a step reads and never changes."""
_CHECK_STEPS = 50
"""Steps between two checks of the losses, as in `bench.runs.pretrain`."""
_MIB = 2**20


class Damaged(ValueError):
    """A folder or state that cannot be read; the message names it."""


class Stopped(Exception):
    """A pre-training that ended before its last step, or was refused."""


def write_state(folder: Path, about: dict, arrays: dict[str, np.ndarray], piece: int = 15 * _MIB) -> None:
    """Writes ``arrays`` {name: array} and ``about`` (JSON) to ``folder``, whole or not at all, in files of about
    ``piece`` bytes at most."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    arrays = {name: np.asarray(array, order="C") for name, array in sorted(arrays.items())}
    content = b"".join(array.tobytes() for array in arrays.values())
    files = {}
    for number, begin in enumerate(range(0, max(1, len(content)), piece)):
        part = zlib.compress(content[begin : begin + piece], 1)
        name = f"{number:03d}.bin"
        files[name] = hashlib.sha256(part).hexdigest()
        _write(fresh / name, part)
    index = [[name, str(array.dtype), list(array.shape)] for name, array in arrays.items()]
    told = {"about": about, "arrays": index, "files": files}
    _write(fresh / STATE, json.dumps({**told, "seal": _seal(told)}).encode())
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(fresh, folder)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _seal(told: dict) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def read_state(folder: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """(about, {name: array}) of the state in ``folder``. Raises `Damaged` if a file is missing or damaged."""
    try:
        told = json.loads((folder / STATE).read_bytes())
        seal = told.pop("seal")
        contents = {name: (folder / name).read_bytes() for name in told["files"]}
    except OSError as error:
        raise Damaged(f"{error.filename} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{folder / STATE} is damaged: it cannot be read.") from error
    if seal != _seal(told):
        raise Damaged(f"{folder / STATE} is damaged: its seal does not fit its content.")
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != told["files"][name]:
            raise Damaged(f"{folder / name} is damaged: its SHA-256 is not the one in {STATE}.")
    content = b"".join(zlib.decompress(contents[name]) for name in sorted(contents))
    offset, arrays = 0, {}
    for name, dtype, shape in told["arrays"]:
        count = math.prod(shape)
        arrays[name] = np.frombuffer(content, dtype, count, offset).reshape(shape)
        offset += count * np.dtype(dtype).itemsize
    return told["about"], arrays


def newest_state(folder: Path, warn: Callable[[str], object] = print) -> tuple[dict, dict[str, np.ndarray]] | None:
    """(about, arrays) of the newest intact state below ``folder``; None if there is none. Calls ``warn`` for damaged
    ones."""
    for state in sorted(folder.glob("step-*"), reverse=True):
        try:
            return read_state(state)
        except Damaged as error:
            warn(f"{error} Going back to the state before it.")
    return None


class Program:
    """A training step, compiled for one device of JAX. The state stays on the device between steps.

    ``text`` is the StableHLO of the step. ``plan["inputs"]`` and ``plan["outputs"]`` name its arguments and results:
    "batch/...", "seed", "scalar/..."; all other names are arrays of the state. ``plan["rate"]`` is the name of the
    state's learning rate.
    """

    def __init__(self, text: str, plan: dict, device: Any = None):
        import jax

        jax.config.update("jax_enable_x64", True)  # the step counter has 64 bits
        from jaxlib import xla_client

        self.plan, self.device = plan, device or jax.devices()[0]
        self._put = jax.device_put
        client = self.device.client
        devices = xla_client.DeviceList((self.device,))
        self._run = client.compile_and_load(text, devices, xla_client.CompileOptions()).execute_sharded
        self._held = {}

    def begin(self, state: dict[str, np.ndarray]) -> None:
        """Puts the arrays of ``state`` on the device."""
        self._held = {name: self._on_device(array) for name, array in state.items()}

    def __call__(self, batch: dict[str, np.ndarray], seed: tuple[int, int], rate: float) -> dict[str, Any]:
        """One step. Returns its scalars by name, still on the device."""
        given = {f"batch/{name}": array for name, array in batch.items()}
        given |= {"seed": np.asarray(seed, np.int32), self.plan["rate"]: np.asarray(rate, np.float32)}
        arguments = [
            self._on_device(given[name]) if name in given else self._held[name] for name in self.plan["inputs"]
        ]
        results = self._run(arguments).disassemble_into_single_device_arrays()
        found = {name: result[0] for name, result in zip(self.plan["outputs"], results, strict=True)}
        scalars = {name.removeprefix("scalar/"): found.pop(name) for name in [*found] if name.startswith("scalar/")}
        self._held |= found
        self._held[self.plan["rate"]] = given[self.plan["rate"]]
        return scalars

    def state(self) -> dict[str, np.ndarray]:
        """The arrays of the state, without constants, as NumPy arrays of their own."""
        return {name: np.array(array) for name, array in self._held.items() if not name.startswith(CONSTANT)}

    def _on_device(self, array: np.ndarray) -> Any:
        # A copy: a device that shares memory would use NumPy's array itself, and the step writes to its arguments.
        return self._put(np.array(array), self.device)


class Batches:
    """Reads ``batches[step]`` from the files of ``folder``. The next file is read in advance."""

    def __init__(self, folder: Path, plan: dict):
        self.folder, self.plan = folder, plan
        self._reader, self._ahead, self._now = ThreadPoolExecutor(1), {}, (-1, {})

    def __getitem__(self, step: int) -> dict[str, np.ndarray]:
        number, place = divmod(step - self.plan["first_step"], self.plan["steps_per_file"])
        if self._now[0] != number:
            found = self._ahead.pop(number, None) or self._reader.submit(self._read, number)
            self._now = (number, found.result())
            if (self.folder / self.name(number + 1)).exists():
                self._ahead = {number + 1: self._reader.submit(self._read, number + 1)}
        return {name: array[place] for name, array in self._now[1].items()}

    @staticmethod
    def name(number: int) -> str:
        return f"{number:06d}.npz"

    def _read(self, number: int) -> dict[str, np.ndarray]:
        path = self.folder / self.name(number)
        try:
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name].astype(dtype) for name, dtype in self.plan["batch"].items()}
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise Damaged(f"{path} cannot be read: {error}. Copy the folder again.") from error


def read_plan(folder: Path) -> dict:
    """``plan.json`` of ``folder``. Raises `Damaged` if there is none."""
    path = folder / PLAN
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise Damaged(f"{path} cannot be read. Give a folder that `ptmbench pretrain --carry` wrote.") from error


def run(
    folder: Path,
    out: Path,
    *,
    save_every: float = 120.0,
    until: float = math.inf,
    piece: int = 15 * _MIB,
    peak: float | None = None,
    say: Callable[[str], object] = print,
) -> None:
    """Runs the pre-training in ``folder`` and writes states below ``out``. At the `time.monotonic` ``until``, it saves
    and ends. ``peak`` is the FLOP/s of the device, to compute a utilisation. Raises `Stopped` if it ends before the
    last step."""
    plan = read_plan(folder)
    title, steps = plan["title"], plan["steps"]
    begun = newest_state(out, say)
    about, arrays = begun or read_state(folder / FIRST)
    step, curve, spent = about["step"], about["curve"], dict(about["spent"])
    if step == steps:
        say(f"{title}: finished before, {steps} steps.")
        return
    if begun:
        arrays = {**read_state(folder / FIRST)[1], **arrays}  # with the constants
    started = time.perf_counter()
    program = Program(gzip.decompress((folder / PROGRAM).read_bytes()).decode(), plan)
    spent["compile"] = spent.get("compile", 0.0) + time.perf_counter() - started
    program.begin(arrays)
    batches, pending, first = Batches(folder / BATCHES, plan), [], step
    stop = Signals()

    def settle() -> dict[str, float]:
        for number, scalars in pending:
            values = {name: float(value) for name, value in scalars.items()}
            if not math.isfinite(values["loss"]) or not math.isfinite(values["gradient_norm"]):
                raise Stopped(f"{title} diverged: the loss is not finite at step {number}.")
        pending.clear()
        return values

    def save() -> None:
        state = program.state()
        if step == steps:
            state = {name: array for name, array in state.items() if name.startswith("weights/")}
        if not all(np.isfinite(array).all() for array in state.values() if array.dtype.kind == "f"):
            raise Stopped(f"{title} diverged: the weights are not finite after step {step}.")
        now = {**spent, "train": spent.get("train", 0.0) + time.perf_counter() - timed}
        said = {"step": step, "curve": curve, "spent": now, "device": device_of(program.device)}
        said |= {"peak_memory_bytes": _memory(program.device)}
        write_state(out / f"step-{step:09d}", said, state, piece)
        for old in sorted(out.glob("step-*"))[:-2]:
            shutil.rmtree(old, ignore_errors=True)

    timed, saved, steady = time.perf_counter(), time.monotonic(), math.inf
    while step < steps:
        batch = batches[step]
        pending.append((step + 1, program(batch, (plan["seed"], step), plan["rates"][step - plan["first_step"]])))
        step += 1
        if step == steps or step % max(1, steps // 100) == 0:
            curve.append({"step": step, **{name: round(value, 6) for name, value in settle().items()}})
        elif step % _CHECK_STEPS == 0:
            settle()
        if step - first == 1:  # the first step is not timed
            if pending:
                settle()
            steady = time.perf_counter()
        ends = stop.signal or time.monotonic() > until
        if step < steps and (ends or time.monotonic() - saved > save_every):
            if pending:
                settle()
            save()
            saved = time.monotonic()
            if ends:
                raise Stopped(f"{title}: stopped after {step} of {steps} steps. Run the driver again to go on.")
    save()
    seconds = time.perf_counter() - steady
    rate = (step - first - 1) / seconds if step - first > 1 else 0.0
    say(f"{title}: {steps} steps, {_speed(rate, plan, peak)}, loss {curve[-1]['loss']:.3f}.")


def measure(folder: Path, steps: int, *, peak: float | None = None, say: Callable[[str], object] = print) -> None:
    """Measures the speed and the memory of ``steps`` steps after the first one. Writes nothing. It begins with random
    weights, so the folder may lack ``first``."""
    plan, rng = read_plan(folder), np.random.default_rng(0)
    started = time.perf_counter()
    program = Program(gzip.decompress((folder / PROGRAM).read_bytes()).decode(), plan)
    compiled = time.perf_counter() - started

    def drawn(name: str, dtype: str, shape: list[int]) -> np.ndarray:
        if name.startswith("optimizer/") or not dtype.startswith("float"):
            return np.zeros(shape, dtype)
        return (0.02 * rng.standard_normal(shape)).astype(dtype)

    program.begin({name: drawn(name, dtype, shape) for name, dtype, shape in plan["state"]})
    batches, scalars = Batches(folder / BATCHES, plan), {}
    there = min(plan["steps_per_file"], plan["steps"] - plan["first_step"])
    for number in range(steps + 1):
        scalars = program(batches[plan["first_step"] + number % there], (plan["seed"], number), plan["rates"][0])
        if number == 0:
            float(scalars["loss"])  # waits for the step
            begun = time.perf_counter()
    float(scalars["loss"])
    say(f"{plan['title']}: {_speed(steps / (time.perf_counter() - begun), plan, peak)}, compiled in {compiled:.1f} s.")
    taken = _memory(program.device)
    if taken:
        say(f"{plan['title']}: {taken / 2**30:.2f} GiB of the device at most.")


def _speed(rate: float, plan: dict, peak: float | None) -> str:
    flops = rate * plan["flops_per_step"]
    use = f", {flops / peak:.1%} of a product of matrices" if peak else ""
    return f"{rate:.1f} steps/s, {flops / 1e12:.3g} TFLOP/s{use}"


def _memory(device: Any) -> int:
    """The peak memory of ``device`` in bytes; 0 if it is not known."""
    return (getattr(device, "memory_stats", lambda: None)() or {}).get("peak_bytes_in_use", 0)


def device_of(device: Any) -> str:
    """The description of ``device`` for a manifest."""
    import jax

    return f"{device.device_kind} ({device.platform}, PJRT of JAX {jax.__version__})"


def matrix_rate(dtype: str = "bfloat16", seconds: float = 1.0) -> float:
    """FLOP/s of a product of two square matrices on the first device, the best of several."""
    import jax
    import jax.numpy as jnp

    width = 8192 if jax.devices()[0].platform != "cpu" else 1024
    one = jax.random.normal(jax.random.key(0), (width, width)).astype(dtype)
    product = jax.jit(jnp.matmul)
    product(one, one).block_until_ready()
    best, end = math.inf, time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.perf_counter()
        product(one, one).block_until_ready()
        best = min(best, time.perf_counter() - begun)
    return 2 * width**3 / best


class Signals:
    """Holds back SIGINT and SIGTERM and keeps the number as ``signal``. The same signal again ends the process."""

    def __init__(self) -> None:
        self.signal = None
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, self._hold)
        except ValueError:  # not the main thread, which gets no signals
            pass

    def _hold(self, number: int, frame: object) -> None:
        self.signal = number
        signal.signal(number, signal.SIG_DFL)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    folders = parser.add_argument("folders", nargs="*", metavar="FOLDER", type=Path)
    folders.help = "pre-trainings; by default the one around this file, or all in the folders beside it"
    parser.add_argument("--out", type=Path, help="write the states of each folder to OUT/<name of the folder>")
    parser.add_argument("--save-every", type=float, default=120.0, metavar="SECONDS", help="time between states (120)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="minutes after which to save and exit")
    parser.add_argument("--piece", type=int, default=15, metavar="MIB", help="size of the state files in MiB (15)")
    parser.add_argument("--utilisation", action="store_true", help="measure a product of bfloat16 matrices first")
    parser.add_argument("--measure", type=int, metavar="STEPS", help="measure this many steps, and write nothing")
    chosen = parser.parse_args(arguments)
    here = Path(__file__).resolve().parent
    found = chosen.folders or sorted(plan.parent for plan in [*here.glob(PLAN), *here.glob(f"*/{PLAN}")])
    until, failed = time.monotonic() + 60 * chosen.minutes, False
    peak = matrix_rate() if chosen.utilisation else None
    if peak:
        print(f"A product of matrices in bfloat16 runs at {peak / 1e12:.3g} TFLOP/s.", flush=True)
    for folder in found:
        out = chosen.out / folder.resolve().name if chosen.out else folder / STATES
        try:
            if chosen.measure:
                measure(folder, chosen.measure, peak=peak)
                continue
            run(folder, out, save_every=chosen.save_every, until=until, piece=chosen.piece * _MIB, peak=peak)
        except (Damaged, Stopped) as error:
            print(error, file=sys.stderr, flush=True)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
