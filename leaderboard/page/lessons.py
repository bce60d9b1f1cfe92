"""The sections of a board that come from a catalogue: lessons on models, objectives, and the survey's figure 3.

A catalogue is the harness's knowledge of models beyond their records, as plain values (`bench.runs.catalogue`). Without
one, a board leaves these sections out or has less in them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from ptmbench.leaderboard.text import clean, quantity

Catalogue = Mapping[str, Any]
Boards = Mapping[str, Sequence[Mapping[str, str]]]
"""The pages with rows of a model: {model: [{"title", "href"}]}."""
_RELATIONS = {
    "nearest": "Nearest relative",
    "descendant": "Models whose nearest relative it is, and how it differs from them",
    "family": "Same section of the survey",
}


def model_of(name: str, card: Mapping[str, Any], catalogue: Catalogue) -> str:
    """Returns the catalogue's name for the model of a row called ``name``; "" if there is none. Published checkpoints
    have other names, so they are matched by the title on the card."""
    known = catalogue.get("models", {})
    if name in known:
        return name
    return next((one for one, entry in known.items() if card and entry["title"] == card.get("title")), "")


def lesson(name: str, catalogue: Catalogue, links: Mapping[str, str]) -> dict[str, Any]:
    """Returns the lesson for the sheet of the model ``name``. ``links`` are the addresses of sheets, {model: href}."""
    entry = catalogue["models"][name]
    relatives: dict[str, list[dict[str, Any]]] = {}
    for one in entry["relatives"]:
        difference = entry["nearest"] if one["relation"] == "nearest" else one["difference"].replace(f" (`{name}`)", "")
        relatives.setdefault(_RELATIONS[one["relation"]], []).append(
            {
                "title": catalogue["models"][one["name"]]["title"],
                "href": links[one["name"]],
                "difference": _linked(difference, catalogue, links) if one["relation"] != "nearest" else "",
            }
        )
    return {
        "summary": entry["summary"],
        "story": [_linked(text, catalogue, links) for text in entry["story"]],
        "formula": _lines(entry["formula"]),
        "nearest": _linked(entry["nearest"], catalogue, links),
        "relatives": relatives,
        "objectives": [
            {"name": one, "id": f"o-{one}", "summary": objective["summary"], "formula": _lines(objective["formula"])}
            for one in entry["objectives"]
            if (objective := catalogue["objectives"].get(one))
        ],
        "paper": entry["paper"],
        "url": _safe(entry["url"]),
        "code": entry["code"],
        "sizes": [
            {**one, "parameters": quantity(one["parameters"]), "embedding": quantity(one["embedding"])}
            for one in entry["sizes"]
        ],
        "vocabulary": catalogue["vocabulary"],
    }


def objectives(catalogue: Catalogue, links: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns every objective: its summary, formula, text and file, and the models that have it."""
    return [
        {
            "id": f"o-{name}",
            "name": name,
            "summary": objective["summary"],
            "formula": _lines(objective["formula"]),
            "text": [_linked(text, catalogue, links) for text in objective["text"]],
            "code": objective["code"],
            "models": [
                {"title": entry["title"], "href": links[one]}
                for one, entry in catalogue["models"].items()
                if name in entry["objectives"]
            ],
        }
        for name, objective in catalogue.get("objectives", {}).items()
    ]


def figure(catalogue: Catalogue, links: Mapping[str, str], measured: Sequence[str]) -> dict[str, Any]:
    """Returns the survey's figure 3: "tree" has nested terms {"title", "long", "systems", "others", "methods",
    "parts"}, "systems" is the number of its systems, and "built" the number of these that are built. {} without a
    taxonomy. ``measured`` are the models with rows."""
    root = catalogue.get("taxonomy")
    if not root:
        return {}
    known = {one["name"]: bool(one["models"] or one["method"]) for one in _systems(root)}
    shown = _term(root, catalogue["models"], links, set(measured))
    return {"tree": shown, "built": sum(known.values()), "systems": len(known)}


def _systems(term: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*term["systems"], *(one for part in term["parts"] for one in _systems(part))]


def _term(
    term: Mapping[str, Any], known: Mapping[str, Any], links: Mapping[str, str], measured: set[str]
) -> dict[str, Any]:
    def built(name: str, title: str) -> dict[str, Any]:
        return {"title": title, "href": links[name], "measured": name in measured, "summary": known[name]["summary"]}

    systems = [
        {"title": one["name"], "href": "", "method": one["method"]}
        if not one["models"]
        else built(one["models"][0], one["name"]) | {"method": ""}
        for one in term["systems"]
    ]
    return {
        "title": term["title"],
        "long": term["long"],
        "systems": systems,
        "others": [built(name, known[name]["title"]) for name in term["others"]],
        "methods": term["methods"],
        "parts": [_term(part, known, links, measured) for part in term["parts"]],
    }


def _linked(text: str, catalogue: Catalogue, links: Mapping[str, str]) -> Markup:
    """Returns ``text`` with names in backticks as code, and names of models as links to their sheets."""

    def shown(found: re.Match[str]) -> str:
        name = found[1]  # escaped with the text
        if name in links and name in catalogue["models"]:
            return f'<a href="{escape(links[name])}"><code>{name}</code></a>'
        return f"<code>{name}</code>"

    return Markup(re.sub(r"`([^`]+)`", shown, str(escape(clean(text)))))


def _lines(formula: str) -> Markup:
    """Returns ``formula`` with its lines. A wide gap between two equations becomes a line break."""
    lines = re.sub(r"(?<=\S) {4,}(?=\S)", "\n", formula).split("\n")
    return Markup("\n").join(clean(line) for line in lines)  # join escapes each line


def _safe(url: str) -> str:
    """Returns ``url`` if it is an https link; "" otherwise."""
    return url if url.startswith("https://") else ""
