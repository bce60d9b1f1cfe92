"""Equal tuning: as many trials for every model, before a run (`docs/tuning.md`).

What both tunings share:

space.py     the values that trials try: the same factors for every model. Pure
halving.py   successive halving: how many trials a rung has, at which budget, and which go on. Pure
search.py    rung after rung for each model, and what the result says
sealed.py    JSON files with a seal
records.py   records of trials
outlook.py   what a tuning will cost
tables.py    results as tables

Pre-trainings: tune.py (what ``ptmbench tune`` does), trials.py (one trial), tuned.py (the result, as a run reads it).
Adaptations: adaptation.py, adaptation_trials.py, tuned_settings.py, likewise.
"""
