"""The file formats SavedModel, LiteRT and ONNX. Each class writes a file from an `Exportable`, and runs it.

The packages of a format are imported when it is used. LiteRT is part of TensorFlow; if the package ai-edge-litert is
installed, its newer interpreter is used. ONNX needs the optional packages of ``ptmbench[onnx]``.
"""

import importlib.util
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.errors import EnvironmentProblem
from ptmbench.bench.runs.exports import portable
from ptmbench.bench.runs.exports.network import Exportable
from ptmbench.models.channels import TEXT

Engine = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]
"""Maps the inputs "tokens" and "segments", int32 [B, T], to the outputs by name."""
ONNX = ("onnx", "onnxruntime", "tf2onnx")
"""The packages that ONNX needs."""
OPSET = 17
"""Version of ONNX's operators."""


class SavedModel:
    """A folder for `tf.saved_model.load` and TensorFlow Serving; batch size and length are free.

    An export that reads texts has the signatures of `bench.runs.exports.texts`. `engine` runs it on token ids.
    """

    path = "saved_model"
    static = False
    packages: tuple[str, ...] = ()

    def write(self, source: Exportable, path: Path, batch: int, quantize: str | None) -> None:
        if source.texts:
            from ptmbench.bench.runs.exports import texts

            module, signatures = texts.module_of(source)
        else:
            module, function = _module(source, None, None)
            signatures = {"serving_default": function}
        tf.saved_model.save(module, str(path), signatures=signatures)

    def engine(self, path: Path, threads: int = 1) -> Engine:
        loaded = tf.saved_model.load(str(path))
        serve = loaded.signatures["token_ids" if "token_ids" in loaded.signatures else "serving_default"]

        def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            given = serve(**{name: tf.constant(inputs[name]) for name in TEXT})
            return {name: array.numpy() for name, array in given.items()}

        run.model = loaded  # keeps the variables from being garbage-collected
        return run


class LiteRt:
    """A file of LiteRT, formerly TensorFlow Lite, for one batch size and one length."""

    path = "model.tflite"
    static = True
    packages: tuple[str, ...] = ()

    def write(self, source: Exportable, path: Path, batch: int, quantize: str | None) -> None:
        graph, inputs, outputs, names = _portable(source, batch, source.length)
        module = tf.Module()

        def serve(tokens: tf.Tensor, segments: tf.Tensor) -> dict[str, tf.Tensor]:
            given = dict(zip(inputs, (tokens, segments), strict=True))
            return dict(zip(names, tf.graph_util.import_graph_def(graph, given, outputs, name=""), strict=True))

        specs = [tf.TensorSpec([batch, source.length], tf.int32, name=name) for name in TEXT]
        module.serve = tf.function(serve, autograph=False, input_signature=specs)
        converter = tf.lite.TFLiteConverter.from_concrete_functions([module.serve.get_concrete_function()], module)
        if quantize:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]  # int8 weights; activation ranges at run time
        try:
            path.write_bytes(converter.convert())
        except Exception as error:  # the converter raises errors of several types
            raise _unwritten(source, "LiteRT", error) from error

    def engine(self, path: Path, threads: int = 1) -> Engine:
        runner = _interpreter(path, threads).get_signature_runner()
        return lambda inputs: runner(**{name: inputs[name] for name in TEXT})


class Onnx:
    """A file of ONNX, which onnxruntime runs; batch size and length are free."""

    path = "model.onnx"
    static = False
    packages = ONNX

    def write(self, source: Exportable, path: Path, batch: int, quantize: str | None) -> None:
        check_packages(ONNX)
        import onnx

        graph, inputs, outputs, names = _portable(source, None, None)
        told = StringIO()
        try:
            with redirect_stdout(told), redirect_stderr(told):
                model = _onnx_model(graph, dict(zip(inputs, TEXT, strict=True)), dict(zip(outputs, names, strict=True)))
                onnx.checker.check_model(model)
        except Exception as error:
            raise _unwritten(source, "ONNX", error) from error
        onnx.save(model, path)
        if quantize:
            _quantize(path)

    def engine(self, path: Path, threads: int = 1) -> Engine:
        check_packages(("onnxruntime",))
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_outputs()]
        read = {one.name for one in session.get_inputs()}

        def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            given = {name: inputs[name] for name in TEXT if name in read}
            return dict(zip(names, session.run(names, given), strict=True))

        return run


FORMATS = {"saved_model": SavedModel(), "litert": LiteRt(), "onnx": Onnx()}


def missing(packages: tuple[str, ...]) -> list[str]:
    """Returns the ``packages`` that are not installed."""
    return [name for name in packages if importlib.util.find_spec(name) is None]


def check_packages(packages: tuple[str, ...]) -> None:
    """Raises `EnvironmentProblem` if one of ``packages`` is not installed."""
    if absent := missing(packages):
        raise EnvironmentProblem(
            f"The format onnx needs {' and '.join(absent)}. Not installed: {', '.join(absent)}. "
            "Install the optional packages with `pip install 'ptmbench[onnx]'`."
        )


def _module(source: Exportable, batch: int | None, length: int | None) -> tuple[tf.Module, Any]:
    """Returns a module with the variables of ``source``, and its function as a `tf.function`."""
    module = tf.Module()
    module.layers = list(source.layers)
    specs = [tf.TensorSpec([batch, length], tf.int32, name=name) for name in TEXT]
    module.serve = tf.function(source.function, autograph=False, input_signature=specs)
    return module, module.serve


def _portable(source: Exportable, batch: int | None, length: int | None) -> tuple[Any, list[str], list[str], list[str]]:
    """Returns the portable graph of ``source``, the names of its inputs and outputs in the graph, and the names of the
    outputs in `Exportable.function`."""
    module, function = _module(source, batch, length)
    concrete = function.get_concrete_function()
    graph, inputs, outputs = portable.graph_of(concrete)
    return graph, inputs, outputs, sorted(concrete.structured_outputs)  # in the order in which tf.nest flattens a dict


def _interpreter(path: Path, threads: int) -> Any:
    if missing(("ai_edge_litert",)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of its removal in a version already released
            return tf.lite.Interpreter(model_path=str(path), num_threads=threads)
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(model_path=str(path), num_threads=threads)


def _onnx_model(graph: Any, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> Any:
    """Returns ``graph`` as an ONNX model whose ``inputs`` and ``outputs`` have new names.

    `tf2onnx.convert` would also apply "reshape_optimizer" (tf2onnx 1.17), which reshapes the queries of attention with
    one head wrongly.
    """
    from tf2onnx import optimizer, tf_loader, tfonnx

    optimizers = {name: one for name, one in optimizer._get_optimizers().items() if name != "reshape_optimizer"}
    with tf.Graph().as_default() as converted:
        tf.import_graph_def(tf_loader.tf_optimize(list(inputs), list(outputs), graph), name="")
        model = tfonnx.process_tf_graph(
            converted,
            opset=OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            tensors_to_rename={**inputs, **outputs},
        )
        return optimizer.optimize_graph(model, optimizers=optimizers).make_model("ptmbench")


def _quantize(path: Path) -> None:
    """Quantises the matrix products in the ONNX file ``path``: int8 weights, and activation ranges at run time.

    Weights use 7 bits (``reduce_range``). With 8 bits, processors without VNNI overflow, because they add pairs of
    products in 16 bits. Embedding tables use 8 bits.
    """
    import logging

    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.disable(logging.WARNING)  # onnxruntime recommends another tool to pre-process the file
    try:
        quantize_dynamic(path, path, weight_type=QuantType.QInt8, reduce_range=True)
    finally:
        logging.disable(logging.NOTSET)


def _unwritten(source: Exportable, engine: str, error: Exception) -> EnvironmentProblem:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    wrong = next((line for line in lines if "is neither a custom op" in line or "not supported" in line), "")
    wrong = wrong or (lines[0] if lines else type(error).__name__)
    return EnvironmentProblem(
        f"{source.found.folder} cannot be written for {engine}: the converter says '{wrong[-200:]}'. "
        "Use --format saved_model, which has all operators of TensorFlow."
    )
