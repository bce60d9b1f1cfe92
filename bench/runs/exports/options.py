"""Options of an export, as a frozen dataclass for the command line and for Python."""

import math
from dataclasses import dataclass
from pathlib import Path

from ptmbench.bench.errors import UsageError
from ptmbench.bench.options import Checked


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Checked):
    """A checkpoint as files of another program: transformers, keras-hub, TensorFlow, LiteRT or onnxruntime."""

    checkpoint: Path
    format: str = "transformers"
    out: Path | None = None
    """Output folder; None for ``exports/NAME-FORMAT``, after the checkpoint."""
    quantize: str | None = None
    """"int8" for kernels as 8-bit integers, in LiteRT and ONNX only."""
    batch: int = 1
    """Batch size of a LiteRT file; other formats take any."""
    length: int | None = None
    """Largest length of an input, in tokens; None for the length that the model was adapted with."""
    texts: int | None = None
    """Number of raw texts (1 or 2) in an input of a SavedModel; None for inputs of token ids."""
    data: Path | None = None
    """Data folder with the examples that the export is checked on; None for random token ids."""
    tolerance: float | None = None
    """Largest difference from the model, as a share of its largest output; None for `export.tolerance_of`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quantize and self.format not in ("litert", "onnx"):
            raise UsageError(f"--quantize is for --format litert and onnx, not {self.format}.")
        if self.texts is not None and self.format != "saved_model":
            raise UsageError(
                f"--texts is for --format saved_model, not {self.format}, which lacks operators for strings."
            )
        if self.texts is not None and self.texts not in (1, 2):
            raise UsageError(f"texts is 1 or 2, not {self.texts!r}.")
        if self.tolerance is not None and not 0 < self.tolerance < math.inf:
            raise UsageError(f"tolerance is a number above 0, not {self.tolerance!r}.")
        if self.out is None:
            object.__setattr__(self, "out", Path("exports") / f"{self.checkpoint.name}-{self.format}")
