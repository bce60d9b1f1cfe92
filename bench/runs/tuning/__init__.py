"""Equal tuning before a run: the same number of trials for every model (`docs/tuning.md`).

Shared by the tuning of pre-trainings and of adaptations:

space.py     the values that trials try, with the same factors for every model
halving.py   successive halving: the trials of each rung, their budget, and which go on
search.py    the search for each model, rung after rung, and its entry in the result
sealed.py    JSON files with a seal
records.py   records of trials
outlook.py   the estimated cost of a tuning
tables.py    results as tables

Pre-trainings: tune.py (the command ``ptmbench tune``), trials.py (one trial), tuned.py (the result, as a run reads it).
Adaptations: adaptation.py, adaptation_trials.py and tuned_settings.py, in the same order.
"""
