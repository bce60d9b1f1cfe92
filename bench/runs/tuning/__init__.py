"""Equal tuning: as many trials for every model, before a run (`docs/tuning.md`).

space.py    the trials: the same multiplicative draws for every model. Pure
halving.py  successive halving: how many trials a rung has, at which budget, and which go on. Pure
sealed.py   JSON files with a seal
trials.py   one trial as an artefact, and its record
tuned.py    the result: read and checked by a run
tune.py     what ``ptmbench tune`` does
"""
