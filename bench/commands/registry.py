"""Matches names that users give with the names in the registries. The options of the command line call `resolve`.

Matching ignores letter case, "-" and "_": "BERT" is bert, "SST-2" is sst2. A name that matches no registered name, or
several, is returned unchanged, and loading it raises the error.
"""

from collections.abc import Iterable


def names(kind: str) -> tuple[str, ...]:
    """The names in the registry of one kind ("models", "objectives", "tasks", "adaptations", "transforms",
    "conditions", "suites" or "corpora")."""
    from ptmbench import models, tasks
    from ptmbench.bench import adapt
    from ptmbench.bench.adapt import conditions, transforms
    from ptmbench.bench.data import recipes
    from ptmbench.bench.runs import suites

    registries = {
        "models": models.names,
        "objectives": models.objective_names,
        "tasks": tasks.names,
        "adaptations": adapt.names,
        "transforms": transforms.names,
        "conditions": conditions.names,
        "suites": suites.names,
        "corpora": recipes.names,
    }
    return registries[kind]()


def resolve(kind: str, name: str) -> str:
    """The registered name that ``name`` stands for.

    The name of a model may start with "random-" or be a baseline. A task may have a variant after a dash
    ("multi30k-de-fr"). An adaptation, transform or condition may have settings after a colon ("prompt:shots=4").
    Transforms may form a chain ("prune+int8").
    """
    if kind == "transforms":
        from ptmbench.bench.adapt import transforms

        return "+".join(_with_settings(kind, one) for one in transforms.split(name))
    if kind in ("adaptations", "conditions"):
        return _with_settings(kind, name)
    if kind == "models":
        from ptmbench.bench import baselines
        from ptmbench.bench.runs.artefacts import RANDOM

        head, model = name[: len(RANDOM)], name[len(RANDOM) :]
        if head.lower().replace("_", "-") == RANDOM:
            return RANDOM + match(model, names(kind))
        return match(name, (*names(kind), *baselines.names()))
    found = match(name, names(kind))
    if kind == "tasks" and found == name and "-" in name:
        return _variant(name)
    return found


def match(name: str, known: Iterable[str]) -> str:
    """Returns the only name in ``known`` that differs from ``name`` just in case, "-" and "_".

    Returns ``name`` itself if it is known, or if there are no or several such names.
    """
    known = tuple(known)
    alike = [one for one in known if fold(one) == fold(name)]
    return alike[0] if name not in known and len(alike) == 1 else name


def fold(name: str) -> str:
    """``name`` without case, "-" and "_", which matching ignores."""
    return name.casefold().replace("-", "").replace("_", "")


def _with_settings(kind: str, name: str) -> str:
    head, colon, settings = name.partition(":")
    return match(head, names(kind)) + colon + settings


def _variant(name: str) -> str:
    """Resolves the longest part before a dash that is the name of a task, and lower-cases the variant after it.

    Returns ``name`` unchanged if no part is a task.
    """
    known = names("tasks")
    for place in reversed([i for i, letter in enumerate(name) if letter == "-"]):
        found = match(name[:place], known)
        if found in known:
            return f"{found}-{name[place + 1 :].lower()}"
    return name
