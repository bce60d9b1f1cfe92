"""Plans the pre-trainings of a run and their tokenizers: corpus, initial weights, recipe and teacher."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ptmbench import models
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint as checkpoints
from ptmbench.bench.engine.budget import Budget, rungs
from ptmbench.bench.engine.checkpoint import Checkpoint, CheckpointError
from ptmbench.bench.engine.networks import differences, sized
from ptmbench.bench.engine.recipe import adam_of, recipe_of, resolved
from ptmbench.bench.errors import UsageError
from ptmbench.bench.options import TrainingOptions
from ptmbench.bench.runs import plugins, teachers
from ptmbench.bench.runs.artefacts import Artefact, Given
from ptmbench.bench.runs.suites import Suite
from ptmbench.bench.runs.trainings import FIRST, GIVEN, Draw, Pretraining, TokenizerTraining, tokenizer_key
from ptmbench.bench.runs.tuning import tuned, tuned_settings
from ptmbench.bench.runs.tuning.tuned import Tuned
from ptmbench.bench.runs.tuning.tuned_settings import TunedSettings
from ptmbench.models.text.tokenizers import Vocabulary

Planned = TypeVar("Planned", bound=Artefact)


class Trainings:
    """Plans the pre-trainings of a run of ``suite`` with the options ``asked``, and their tokenizers. Each is planned
    once, at its first use.

    A model may be pre-trained several times, with several budgets and seeds (`draws`). The teacher of a student is the
    same pre-training as in the teacher's own row, for the same draw. Raises `UsageError` for given checkpoints that do
    not fit the run, and `CorpusError` if there is no text.
    """

    def __init__(self, suite: Suite, asked: TrainingOptions, data: Path):
        self._suite, self._options = suite, asked
        self._changes = dict(suite.recipe) | dict(asked.recipe)
        self._text = _Text(corpora.files_of(asked.corpus, suite.corpus, data))
        self._stage = None if asked.bases else suite.base
        self._first = _Text(corpora.files_of((), self._stage.corpus, data)) if self._stage else self._text
        self._bases = {(one.about["model"], one.about["size"]): one for one in map(pretrained_in, asked.bases)}
        self._teachers = tuple(map(pretrained_in, asked.teachers))
        self._kind, self._size = asked.tokenizer or suite.tokenizer, asked.vocabulary or suite.vocabulary
        self._planned: dict[str, Artefact] = {}
        self._teachers_in_use: set[str] = set()
        sharing = [one for (model, _), one in self._bases.items() if not teachers.has_own_vocabulary(model)]
        self._given = (*sharing, *self._teachers)
        for given in self._given:
            check_tokenizer(given, asked)
        self._tuned, self.tuned_settings = self._tunings(asked.tuned) if asked.tuned else (None, None)
        if self._tuned:
            self._tuned.check(self._text.sha256, self.tokenizer().key, self._changes)
        if self.tuned_settings:
            self.tuned_settings.check(self.tokenizer().key)
        if len({given.about["tokenizer"]["sha256"] for given in self._given}) > 1:
            options = " and ".join(f"--{name}" for name in ("base", "teacher") if getattr(asked, f"{name}s"))
            raise UsageError(
                f"The checkpoints of {options} have different tokenizers. Run each of their models separately."
            )

    def _tunings(self, given: Path) -> tuple[Tuned | None, TunedSettings | None]:
        """Reads the results of tuning pre-trainings and of tuning adaptations from the folder or file ``given``. None
        stands for a missing one. Raises `UsageError` for a folder without results."""
        names = (tuned.FILE, tuned_settings.FILE)
        files = [given / name for name in names if (given / name).is_file()] if given.is_dir() else [given]
        if not files:
            raise UsageError(
                f"{given} holds neither {' nor '.join(names)}: no tuning has ended there. `ptmbench tune SUITE` makes "
                "one."
            )
        recipes = [Tuned.read(path) for path in files if path.name != tuned_settings.FILE]
        settings = [TunedSettings.read(path) for path in files if path.name == tuned_settings.FILE]
        return next(iter(recipes), None), next(iter(settings), None)

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        return tuple(self._planned.values())

    def tokenizer(self, kind: str = "", model: str = "") -> Artefact:
        """The tokenizer of ``kind``; "" for the tokenizer of the given checkpoints or, without these, of the run. A
        student ``model`` with its own vocabulary has its own tokenizer of this kind."""
        if model and teachers.has_own_vocabulary(model):
            return self._own_tokenizer(kind, model)
        given = self._any_given
        if given is not None and kind in ("", given.about["tokenizer"]["kind"]):
            path = given.path("tokenizer.json")
            return self._plan(Given(key=given.about["tokenizer"]["sha256"], path=str(path.resolve())))
        text = self._first
        return self._plan(
            TokenizerTraining(
                tokenizer=kind or self._kind, vocabulary=self._size, corpus=text.files, corpus_sha256=text.sha256
            )
        )

    def own_tokenizers(self, names: Iterable[str | None]) -> dict[str, str]:
        """The keys of the tokenizers of those models ``names`` that have their own."""
        own = [name for name in names if name and teachers.has_own_vocabulary(name)]
        return {name: self.tokenizer("", name).key for name in own}

    def _own_tokenizer(self, kind: str, model: str) -> Artefact:
        """The tokenizer of a ``model`` with its own vocabulary: that of its base, or one trained on the corpus."""
        base = next((one for (name, _), one in self._bases.items() if name == model), None)
        if base is not None:
            path = base.path("tokenizer.json")
            return self._plan(Given(key=base.about["tokenizer"]["sha256"], path=str(path.resolve())))
        usual, text = self.tokenizer(kind), self._first
        kind, size = self._kind_and_size(usual)
        size = teachers.vocabulary_of(model, size)
        return self._plan(
            TokenizerTraining(tokenizer=kind, vocabulary=size, corpus=text.files, corpus_sha256=text.sha256)
        )

    def draws(self, model: str, size: str) -> tuple[Draw, ...]:
        """The pre-trainings of the row of ``model`` at ``size``: each of its budgets with each of its seeds."""
        rungs = range(len(self._budgets(model, size)))
        return tuple(Draw(rung, seed) for rung in rungs for seed in self._seeds(model))

    def chosen_by(self, model: str, size: str, draw: Draw) -> str:
        """`Pretraining.chosen_by` of ``model`` at ``size`` for that ``draw``."""
        budget = self._budget(model, size, draw).short() if len(self._budgets(model, size)) > 1 else ""
        return " ".join(filter(None, (budget, self._seed(model, draw))))

    def _seed(self, model: str, draw: Draw) -> str:
        return f"--pretraining-seed {draw.seed}" if self._seeds(model) != (draw.seed,) else ""

    def _budgets(self, model: str, size: str) -> tuple[Budget, ...]:
        own = self._suite.budgets
        usual = own.get(f"{model}-{size}", own.get(model, self._suite.budget))
        return self._options.budgets or rungs(usual)

    def _budget(self, model: str, size: str, draw: Draw) -> Budget:
        """The budget of ``draw``, or the last one of a model that has fewer."""
        found = self._budgets(model, size)
        return found[min(draw.rung, len(found) - 1)]

    def _seeds(self, model: str) -> tuple[int, ...]:
        if self._options.pretraining_seed is not None:
            return (self._options.pretraining_seed,)
        usual = self._suite.pretrainings.get(model, self._suite.pretraining_seeds)
        return tuple(range(self._options.pretraining_seeds or usual))

    def __call__(self, model: str, size: str, draw: Draw = FIRST) -> Pretraining:
        """The pre-training of the row of ``model`` at ``size`` for ``draw``. Raises `UsageError` if bases are given,
        but none for this row."""
        if self._bases and (model, size) not in self._bases:
            known = ", ".join(f"{name} {size}" for name, size in self._bases)
            raise UsageError(
                f"No checkpoint of --base is of {model} {size}; there is {known}. Give one, or choose models with "
                "--models and --sizes."
            )
        return self.other(model, size, "", draw)

    def other(self, model: str, size: str, kind: str, draw: Draw = FIRST) -> Pretraining:
        """The pre-training of ``model`` at ``size`` with a tokenizer of ``kind``. It may have no row in the run."""
        usual, given = self.tokenizer(kind), self._bases.get((model, size))
        kind, words = self._kind_and_size(usual)
        teacher = self._teacher(model, size, kind, isinstance(usual, Given), draw)
        cut, vocabulary, theirs = usual, words, 0
        if teachers.has_own_vocabulary(model):
            cut, theirs = self.tokenizer(kind, model), words
            _, vocabulary = self._kind_and_size(cut)

        def stage(text: _Text, budget: Budget, changes: Mapping[str, Any], base: str = "", **more: Any) -> Pretraining:
            own = tokenizer_key(text.sha256, kind, vocabulary)
            return self._plan(
                Pretraining(
                    model=model,
                    size=size,
                    corpus=text.files,
                    corpus_sha256=text.sha256,
                    corpus_name=text.name,
                    tokenizer=kind,
                    vocabulary=vocabulary,
                    budget=budget,
                    teacher_vocabulary=theirs,
                    recipe=recipe_for(model, size, changes, budget, vocabulary),
                    seed=draw.seed,
                    base=base,
                    other_tokenizer="" if cut.key == own else cut.key,
                    plugins=plugins.sources((model,)),
                    model_version=models.load(model).CARD.version,
                    **more,
                )
            )

        base = ""
        if given is not None and isinstance(cut, Given):
            check_length(given, model, size, recipe_of(self._changes).length)
            base = self._plan(given_checkpoint(given)).key
        elif self._stage is not None:
            first = getattr(teacher, "base", "") or (teacher.key if teacher else "")  # the teacher's own first stage
            changes = self._changes | dict(self._stage.recipe)
            base = stage(self._first, self._stage.budget, changes, teacher=first, chosen_by=self._seed(model, draw)).key
        budget = self._budget(model, size, draw)
        found, tuning = self._tuned.of(model, size, budget, base) if self._tuned else ({}, {})
        more = {"teacher": teacher.key if teacher else "", "tuning": tuning}
        more["chosen_by"] = self.chosen_by(model, size, draw)
        return stage(self._text, budget, self._changes | found, base, **more)

    def _kind_and_size(self, tokenizer: Artefact) -> tuple[str, int]:
        """Kind and vocabulary size of a planned ``tokenizer``, or of the tokenizer of a given checkpoint."""
        if isinstance(tokenizer, TokenizerTraining):
            return tokenizer.tokenizer, tokenizer.vocabulary
        known = (one.about["tokenizer"] for one in (*self._bases.values(), *self._teachers))
        about = next(one for one in known if one["sha256"] == tokenizer.key)
        return about["kind"], about["size"]

    def _teacher(self, model: str, size: str, kind: str, given: bool, draw: Draw) -> Artefact | None:
        """The teacher of ``model`` at ``size`` with a tokenizer of ``kind``; None for a model without a teacher. The
        teacher is a checkpoint that the user gave if the tokenizer is ``given`` too; otherwise it is a pre-training."""
        found = teachers.of(model, size)
        if found is None:
            return None
        length = recipe_of(self._changes).length
        if not (given and self._teachers):
            return self.other(*found, kind, draw)
        mistakes = [teachers.mistake(one, model, size, length) for one in self._teachers]
        if "" not in mistakes:
            raise UsageError(" ".join(mistakes))
        fitting = self._teachers[mistakes.index("")]
        self._teachers_in_use.add(fitting.weights_sha256)
        return self._plan(given_checkpoint(fitting))

    def check(self) -> None:
        """Raises `CorpusError` for a tokenised corpus with another tokenizer than the planned one, and `UsageError` for
        a given teacher without a student in the run."""
        for one in self._teachers:
            if one.weights_sha256 not in self._teachers_in_use:
                raise UsageError(
                    f"No model of this run learns from {one.folder}, which is {one.about['model']} "
                    f"{one.about['size']}. Choose its student with --models and --sizes, or leave --teacher out."
                )
        for one in self._planned.values():
            if isinstance(one, TokenizerTraining):
                corpora.tokenised_by([Path(file) for file in one.corpus], one.tokenizer, one.vocabulary)

    @property
    def _any_given(self) -> Checkpoint | None:
        """One of the given checkpoints, which all have the same tokenizer; None if there are none. Excludes bases with
        their own vocabulary."""
        return next(iter(self._given), None)

    def _plan(self, artefact: Planned) -> Planned:
        return self._planned.setdefault(artefact.key, artefact)  # type: ignore[return-value]


class _Text:
    """The corpus of one stage. Its paths are absolute, because workers have another working directory."""

    def __init__(self, files: Sequence[Path]):
        self.files = tuple(str(file.resolve()) for file in files)
        self.sha256, self.name = corpora.fingerprint(files), corpora.name_of(files)


def recipe_for(model: str, size: str, changes: Mapping[str, Any], budget: Budget, vocabulary: int) -> dict[str, Any]:
    """Adds the batch for ``budget`` and Adam's settings of ``model`` to the ``changes`` to the recipe, so that they are
    part of the key. For the batch, the tokenizer is assumed to have the requested size ``vocabulary``."""
    module, recipe = models.load(model), recipe_of(changes)
    shape = sized(module, size, recipe.length)
    batch = resolved(recipe, module, shape, budget, Vocabulary(size=vocabulary)).batch
    return {**changes, "batch": batch, **adam_of(recipe, module)}


def pretrained_in(folder: Path) -> Checkpoint:
    """The pre-trained checkpoint in ``folder``. Raises `CheckpointError` for any other checkpoint."""
    found = checkpoints.read(folder)
    if found.about.get("kind") != "pretrained":
        raise CheckpointError(
            f"{folder} holds a model that is {found.about.get('kind')}, not pretrained. Use `predict` with it."
        )
    return found


def base_of(asked: TrainingOptions, model: str, size: str, length: int) -> Checkpoint | None:
    """The base in ``asked`` for a pre-training of ``model`` at ``size`` with inputs of ``length`` tokens, or None.
    Raises `UsageError` if it does not fit."""
    if len(asked.bases) > 1:
        raise UsageError("A pre-training continues from one checkpoint. Give --base once.")
    for base in map(pretrained_in, asked.bases):
        check_tokenizer(base, asked)
        check_length(base, model, size, length)
        return base
    return None


def teacher_of(asked: TrainingOptions, model: str, size: str, length: int) -> Checkpoint | None:
    """The teacher in ``asked`` for a pre-training of ``model`` at ``size`` with inputs of ``length`` tokens; None for a
    model without a teacher. Raises `UsageError` if it is missing or does not fit."""
    if len(asked.teachers) > 1:
        raise UsageError("A pre-training has one teacher. Give --teacher once.")
    for given in map(pretrained_in, asked.teachers):
        if not teachers.has_own_vocabulary(model):
            check_tokenizer(given, asked)
        teachers.check(given, model, size, length)
        return given
    if found := teachers.of(model, size):
        raise UsageError(
            f"{model} {size} learns from a teacher, {' '.join(found)}. Pre-train that first and give its checkpoint "
            "with --teacher, or use `ptmbench run`, which pre-trains both."
        )
    return None


def given_checkpoint(given: Checkpoint) -> Given:
    """The artefact of a checkpoint that a user gave."""
    return Given(key=f"{GIVEN}{given.weights_sha256}", path=str(given.folder.resolve()))


def check_tokenizer(base: Checkpoint, asked: TrainingOptions) -> None:
    """Raises `UsageError` if the options ``asked`` contradict the tokenizer of ``base``."""
    about = base.about["tokenizer"]
    if asked.tokenizer not in (None, about["kind"]):
        raise UsageError(
            f"{base.folder} reads tokens of --tokenizer {about['kind']}, not {asked.tokenizer}. Leave --tokenizer out."
        )
    if (asked.vocabulary or about["size"]) < about["size"]:  # a small corpus gives fewer tokens than asked for
        raise UsageError(
            f"{base.folder} has a vocabulary of {about['size']} tokens, more than --vocabulary {asked.vocabulary}. "
            "Leave --vocabulary out."
        )


def words_of(asked: TrainingOptions, model: str, teacher: Checkpoint | None) -> tuple[str, int]:
    """Kind and size of the tokenizer that a pre-training of ``model`` trains on its corpus. For a student with its own
    vocabulary, the defaults follow from the tokenizer of its ``teacher``."""
    kind = asked.tokenizer or "wordpiece"
    if teacher is None:
        return kind, asked.vocabulary or 8000
    about = teacher.about["tokenizer"]
    return asked.tokenizer or about["kind"], asked.vocabulary or teachers.vocabulary_of(model, about["size"])


def check_length(base: Checkpoint, model: str, size: str, length: int) -> None:
    """Raises `UsageError` if ``base`` is not a network of ``model`` at ``size`` for inputs of ``length`` tokens."""
    there, shape = dict(base.about["shape"]), sized(models.load(model), size, length)
    other = differences(there | {"length": shape.length}, shape)
    if base.about["model"] != model or other:
        detail = f"In the checkpoint, {other}. " if base.about["model"] == model else ""
        raise UsageError(
            f"{base.folder} is {base.about['model']} {base.about['size']}, and {model} {size} is to be pre-trained. "
            f"{detail}Give a checkpoint of that model and size."
        )
    if there["length"] != shape.length:
        raise UsageError(
            f"{base.folder} is made for inputs of {there['length']} tokens, and the recipe asks for a network of "
            f"{shape.length}. Give both pre-trainings the same length."
        )
