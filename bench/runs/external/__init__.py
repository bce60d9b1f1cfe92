"""External systems: records of predictions that were made elsewhere, and of trained models of other projects.

Both make records of the *external* division. `predictions` implements ``ptmbench record``. `evaluation` implements
``ptmbench evaluate`` for adapter files (`adapter`) and for presets of keras-hub (`presets`). `records` has what they
share.
"""
