"""Runs one cell, from data to record. An error in a cell becomes a record with a reason."""

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ptmbench import models, tasks
from ptmbench.bench import baselines, environment
from ptmbench.bench.adapt import conditions, load, transforms
from ptmbench.bench.adapt.conditions.contract import Condition
from ptmbench.bench.adapt.contract import Predictor
from ptmbench.bench.adapt.settings import read
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.engine.cost import Meter, add_costs, phase
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import inference
from ptmbench.bench.runs.answers import Context, Outcome, predictor_of
from ptmbench.bench.runs.artefacts import RANDOM, Cell
from ptmbench.bench.runs.examples import parts_of, parts_to_tune
from ptmbench.bench.scoring import score
from ptmbench.leaderboard.records.record import Record
from ptmbench.models.channels import CHANNELS, WIDTHS, lacking
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import few
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import DataError, Example, MissingData, Task


def run(cell: Cell, context: Context) -> Record:
    """Runs ``cell`` and returns its record without writing it. Its errors become part of the record. Only signals end
    the call."""
    task, outcome, meter = tasks.load(cell.task), Outcome(), Meter()
    status, reason = "ok", None
    try:
        with meter:
            _run(cell, context, task, outcome)
    except Exception as error:  # one failing cell never stops the others
        status, reason = failure(error, task.title)
    spent = add_costs(context.spent, meter.cost()) if context.spent else meter.cost()
    outcome.cost |= spent | {"threads": environment.threads()}
    if status == "ok" and cell.row.model:  # a mean over the evaluation, without the time of tracing
        outcome.cost["latency_seconds"] = meter.seconds.get("evaluate", 0.0) / outcome.examples
        if context.profile and not cell.condition and (found := inference.of_cell(cell, context, outcome.predictor)):
            outcome.cost["inference"] = found
    device = environment.device() if cell.row.model else environment.processor()
    return record_of(cell, context, task, outcome, status, reason, device)


def adapt(cell: Cell, context: Context) -> dict[str, Any]:
    """Adapts the model of ``cell`` to its task, or applies the cell's last transform to the model of ``context``, and
    saves it in ``context.out`` without scoring it. Returns the total cost, with the cost of all transforms under
    "transform". Raises the error of a cell that fails."""
    task, outcome = tasks.load(cell.task), Outcome()
    with Meter() as meter:
        settings = read(cell.method, cell.settings)
        _check_channels(cell, task, context.tokenizer)
        with phase("load"):
            parts = parts_of(cell, context.data, task, settings)
        predictor_of(cell, replace(context, keep=True), task, settings, parts, outcome)
    own = meter.cost()
    spent = add_costs(context.spent, own) if context.spent else own
    if cell.transforms:
        before = context.spent.get("transform")
        outcome.cost["transform"] |= add_costs(before, own) if before else own
    return outcome.cost | spent | {"threads": environment.threads()}


def score_on_held_out(cell: Cell, context: Context, held_out: int) -> tuple[float, int, dict[str, Any]]:
    """Holds out at most ``held_out`` training examples of ``cell``, adapts its model on the others, and scores it on
    the held-out ones. Returns the headline of the task, the number of held-out examples, and the cost. Raises the error
    of a cell that fails."""
    task, outcome = tasks.load(cell.task), Outcome()
    with Meter() as meter:
        settings = read(cell.method, cell.settings)
        _check_channels(cell, task, context.tokenizer)
        with phase("load"):
            parts = parts_to_tune(cell, context.data, task, settings, held_out)
        answers = predictor_of(cell, context, task, settings, parts, outcome).answer(parts.report)
        with phase("score"):
            score = task.score([example.gold for example in parts.report], answers.predictions)["headline"]
    outcome.cost["flops_evaluate"] += answers.flops
    return score, len(parts.report), outcome.cost | meter.cost() | {"threads": environment.threads()}


def unrun_record(cell: Cell, context: Context, status: str, reason: Mapping[str, str]) -> Record:
    """The record of a cell that was not run because of ``reason`` ("code", "text"). It names no device."""
    return record_of(cell, context, tasks.load(cell.task), Outcome(), status, reason)


def record_of(
    cell: Cell,
    context: Context,
    task: Task,
    outcome: Outcome,
    status: str,
    reason: Mapping[str, str] | None,
    device: str | None = None,
) -> Record:
    """Makes the record of ``cell`` from its ``outcome``, without writing it."""
    return Record(
        key=cell.key,
        status=status,
        reason=reason,
        row=row_of(cell) | _tokenizer_or_plan(cell, context) | _baseline_label(cell, outcome) | _plugins(cell),
        pretraining=_pretraining(context.weights),
        task=_task_part(task, cell, context, outcome),
        adaptation=_adaptation(cell, context) | _transform(cell, context),
        seed=cell.seed,
        scores=outcome.scores,
        cost=outcome.cost,
        curve=tuple(outcome.curve),
        predictions=outcome.predictions,
        versions=environment.versions(),
        commit=environment.commit(),
        device=device,
        command=context.command,
        finished=now(),
    )


def row_of(cell: Cell) -> dict[str, Any]:
    """The part ``row`` of a record: the model, random twin or baseline, with its card."""
    row = cell.row
    if row.kind == "baseline":
        label, card = baselines.label(row.name), None
    elif row.kind == "external":
        label, card = row.name, None
    else:
        module = models.load(row.model)
        label, card = module.CARD.title, module.CARD.facts()
        card["layers"] = card["layers"] or str(module.SIZES["base"].layers)
        if row.division == "published":  # named after the checkpoint; papers report scores of their base size
            label = row.name.removeprefix(RANDOM) if row.kind == "random" else row.name
            if row.size != "base":
                card["reported"] = ()
    return {
        "name": row.name,
        "label": label,
        "kind": row.kind,
        "size": row.size or "",
        "division": row.division,
        "card": card,
    }


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _run(cell: Cell, context: Context, task: Task, outcome: Outcome) -> None:
    settings = read(cell.method, cell.settings)
    _check_condition(cell)
    with phase("load"):
        parts = parts_of(cell, context.data, task, settings)
    outcome.examples, outcome.training_split = len(parts.report), parts.training_split
    if cell.row.kind == "baseline":
        examples = _examples_under_condition(cell, task, parts.report, None)
        with phase("train"):
            predictions = baselines.predict(cell.row.name, task, parts.train, examples)
    else:
        _check_channels(cell, task, context.tokenizer)
        predictor = outcome.predictor = predictor_of(cell, context, task, settings, parts, outcome)
        answers = predictor.answer(_examples_under_condition(cell, task, parts.report, predictor))
        predictions = answers.predictions
        outcome.cost["flops_evaluate"] += answers.flops
        outcome.cost["flops_per_example"] = answers.flops / outcome.examples
        outcome.signatures = dict(answers.signatures)
        outcome.cost |= answers.extra_costs
    with phase("score"):
        outcome.scores = score.scores(task, parts.report, predictions)
        if context.compared and (found := score.redrawn(task, parts.report, predictions)):
            outcome.scores["headline"]["redrawn"] = found  # for `leaderboard.scores.retention`
        if context.overlap is not None:
            clean, outcome.left_out_of_clean = score.clean(task, parts.report, predictions, context.overlap.overlapping)
            outcome.scores |= clean
        outcome.signatures |= score.signatures(task, parts.report)
        outcome.predictions = score.keep_predictions(context.out, cell.key, parts.report, predictions)


def _check_channels(cell: Cell, task: Task, tokenizer: Tokenizer | None) -> None:
    if reason := lacking(models.load(cell.row.model).CARD.reads, task.needs):
        raise NotApplicable("no-channel", reason)
    known = tokenizer.widths if tokenizer else {}
    if unknown := [CHANNELS[name].noun for name in task.needs if name in WIDTHS and name not in known]:
        raise NotApplicable("no-channel", f"because the text that this model learned from has no {unknown[0]}.")


def _check_condition(cell: Cell) -> None:
    if cell.condition and not _condition(cell).fits(cell.form):
        forms = ", ".join(form for form in Form if _condition(cell).fits(form))
        raise NotApplicable("condition", f"because the condition {cell.condition} is for {forms} tasks.")


def _condition(cell: Cell) -> Condition:
    return conditions.load(cell.condition.partition(":")[0])


def _examples_under_condition(
    cell: Cell, task: Task, report: Sequence[Example], predictor: Predictor | None
) -> Sequence[Example]:
    """The examples of ``report`` as the model reads them: unchanged, or changed by the cell's condition."""
    if not cell.condition:
        return report
    condition = _condition(cell)
    with phase("condition"):
        settings = condition.settings(**cell.condition_settings)
        return condition.changed(task, report, settings, cell.seed, predictor)


def _task_part(task: Task, cell: Cell, context: Context, outcome: Outcome) -> dict[str, Any]:
    sheet = {
        "name": cell.column,
        "title": f"{task.title} under {cell.condition}" if cell.condition else task.title,
        "version": task.version,
        "form": str(task.form),
        "source": context.source.get("name", "official") + (f", first {cell.limit}" if cell.limit else ""),
        "split": task.report,
        "examples": outcome.examples,
        "data_sha256": cell.data_sha256,
        "headline": task.headline,
        "higher_is_better": task.higher_is_better,
        "decimals": task.decimals,
        "chance": task.chance,
        "licence": context.source.get("licence", task.source.licence),
    }
    counts = context.overlap.counts | {"left_out": outcome.left_out_of_clean} if context.overlap is not None else {}
    more = {
        "signatures": outcome.signatures,
        "overlap": counts,
        "auxiliary": {name: dict(about) for name, about in cell.auxiliary.items()},
        "training": {"examples": task.train_examples, "drawn": few.DRAWN} if task.train_examples else {},
    }
    if cell.condition:
        about = {"name": cell.condition, "settings": dict(cell.condition_settings), "version": cell.condition_version}
        more["condition"] = about
    return sheet | {name: value for name, value in more.items() if value}


def _pretraining(found: Checkpoint | None) -> dict[str, Any] | None:
    if found is None:
        return None
    about = found.about
    names = ("seed", "steps", "tokens", "flops", "seconds", "loss", "corpus_sha256", "tokenizer")
    newer = ("peak_memory_bytes", "energy", "threads", "device")  # missing in old checkpoints
    newer += ("budget",)  # the planned budget; steps, tokens and flops are what was spent
    newer += ("base", "teacher", "including")  # its base and teacher, and the total cost including theirs
    newer += ("tuning",)  # the trials that chose its recipe
    newer += ("model_version",)  # the version of the model's card, where it is not 1
    held_out = about.get("held_out", {})  # the loss on text that was not trained on, and what measuring it cost
    finite = {name: one for name, one in held_out.items() if not isinstance(one, float) or math.isfinite(one)}
    return {
        "corpus": about.get("corpus", ""),
        "weights_sha256": found.weights_sha256,
        **{name: about[name] for name in names},
        **{name: about[name] for name in newer if name in about},
        **({"held_out": finite} if finite else {}),
    }


def _baseline_label(cell: Cell, outcome: Outcome) -> dict[str, Any]:
    """The label of a baseline that was fitted without a training file. It has its own row on the board."""
    if outcome.training_split == "train":
        return {}
    return {"label": f"{baselines.label(cell.row.name)} (of the {outcome.training_split} split)"}


def _tokenizer_or_plan(cell: Cell, context: Context) -> dict[str, Any]:
    """The "tokenizer" of a random twin; the record of a pre-trained model has it in the part ``pretraining``. A row of
    several pre-trainings has the "planned" budget and seed instead, if this pre-training failed."""
    if context.planned and context.weights is None:
        return {"planned": dict(context.planned)}
    return {"tokenizer": context.tokenizer.about} if cell.row.kind == "random" and context.tokenizer else {}


def _plugins(cell: Cell) -> dict[str, Any]:
    """The hashes of the plugin files that the cell was made with, by path."""
    return {"plugins": dict(cell.plugins)} if cell.plugins else {}


def _adaptation(cell: Cell, context: Context) -> dict[str, Any]:
    """The part ``adaptation`` of a record, with the `_pretraining` of each extra encoder, the intermediate task and the
    teacher."""
    about = {"name": cell.treatment, "version": cell.adaptation_version, "settings": dict(cell.settings)}
    found = {one.about["model"]: _pretraining(one) for one in context.neighbours}
    taught = context.teacher
    teacher = {**taught.about, "pretraining": _pretraining(taught.weights)} if taught else {}
    if others := {name: dict(one.about) for name, one in context.auxiliary_teachers.items()}:
        teacher["auxiliary"] = others
    more = {"neighbours": found, "intermediate": dict(context.intermediate), "teacher": teacher}
    more["tuning"] = dict(cell.tuning)
    more["compression"] = load(cell.method).compression if cell.row.model else ""  # a baseline has no adaptation
    return about | {name: value for name, value in more.items() if value}


def _transform(cell: Cell, context: Context) -> dict[str, Any]:
    """The transforms of the adapted model for the record: their settings, their own cost, and the adapted model."""
    if not cell.transforms:
        return {}
    about = transforms.joined(cell.transforms) | transforms.described([transforms.read(one) for one in cell.transforms])
    made = context.predictor.about.get("transform", {}) if context.predictor else {}
    more = {"of": made.get("of"), "cost": context.spent.get("transform")}
    return {"transform": about | {name: value for name, value in more.items() if value}}


def failure(error: Exception, title: str = "") -> tuple[str, dict[str, str]]:
    """Returns status and reason for the record of a cell that raised ``error``; ``title`` is the title of its task."""
    from ptmbench.bench.errors import Diverged
    from ptmbench.models.text.pieces import CorpusUnfit

    if isinstance(error, MissingData):
        return "not_applicable", {"code": "missing-data", "text": f"because {_lower(str(error), title)}"}
    if isinstance(error, NotApplicable):
        return "not_applicable", {"code": error.code, "text": str(error)}
    if isinstance(error, DataError):
        return "failed", {"code": "malformed-data", "text": str(error)}
    if isinstance(error, MemoryError):
        return "failed", {"code": "out-of-memory", "text": "The machine ran out of memory."}
    if isinstance(error, Diverged):
        return "diverged", {"code": "diverged", "text": str(error)}
    if isinstance(error, CorpusUnfit):
        return "not_applicable", {"code": "unfit-corpus", "text": f"because {str(error)[:1].lower()}{str(error)[1:]}"}
    kind = type(error).__name__
    if kind == "ResourceExhaustedError":
        return "failed", {
            "code": "out-of-memory",
            "text": "TensorFlow ran out of memory. Try a smaller batch or length.",
        }
    return "failed", {
        "code": "error",
        "text": f"{kind}: {str(error).splitlines()[0][:500] if str(error) else 'no message'}",
    }


def _lower(text: str, name: str) -> str:
    """``text`` with a lower-case first letter, for the middle of a sentence, unless ``name`` or an acronym is first."""
    return text if text.startswith(name) or not text[1:2].islower() else text[:1].lower() + text[1:]
