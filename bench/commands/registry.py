"""Names that users give, matched with the names that the registries list; called by the command line's options.

Letter case, "-" and "_" do not count where that leaves one name: "BERT" is bert, "SST-2" is sst2. A name that matches
nothing, or several, comes back as it was given, and whoever loads it says what is wrong.
"""

from collections.abc import Iterable


def names(kind: str) -> tuple[str, ...]:
    """The names of one kind ("models", "objectives", "tasks", "adaptations", "transforms", "conditions", "suites" or
    "corpora"), as its own registry lists them."""
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

    A model's may begin with "random-" or be a baseline's; a task may have a variant behind a dash ("multi30k-de-fr"),
    and an adaptation, a transform or a condition settings behind a colon ("prompt:shots=4"). Transforms may form a
    chain ("prune+int8").
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
    """``name`` itself if it is ``known``, otherwise the only known name that differs in case, "-" and "_" alone."""
    known = tuple(known)
    alike = [one for one in known if fold(one) == fold(name)]
    return alike[0] if name not in known and len(alike) == 1 else name


def fold(name: str) -> str:
    """``name`` without what does not count."""
    return name.casefold().replace("-", "").replace("_", "")


def _with_settings(kind: str, name: str) -> str:
    head, colon, settings = name.partition(":")
    return match(head, names(kind)) + colon + settings


def _variant(name: str) -> str:
    """The longest part before a dash that is a task's name, and the variant behind it in lower case."""
    known = names("tasks")
    for place in reversed([i for i, letter in enumerate(name) if letter == "-"]):
        found = match(name[:place], known)
        if found in known:
            return f"{found}-{name[place + 1 :].lower()}"
    return name
