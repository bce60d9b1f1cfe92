"""Maps the folders of the repository to packages of the name ptmbench; everything else stands in pyproject.toml."""

from setuptools import find_packages, setup

ROOMS = ("bench", "models", "tasks", "leaderboard")

inner = [f"ptmbench.{package}" for room in ROOMS for package in find_packages(include=[room, f"{room}.*"])]
setup(packages=["ptmbench", *inner], package_dir={f"ptmbench.{room}": room for room in ROOMS})
