"""Evaluation: how well a model calls functions, as metrics with their uncertainty.

A case is a request, the functions offered, and the calls that are right (``case``). A runner puts cases
to a ``Caller`` and stores an answer for each (``runner``, ``record``); whether an answer is right is
decided separately (``compare``, ``score``), so that answers can be scored again without running the
model. Metrics are proportions with Wilson's intervals, and calibration (``statistics``, ``report``,
``page``). ``unconstrained`` runs the same model without a grammar, for comparison.

This room uses ``Caller`` as every user does. It knows no server and no command line, reads published
benchmarks (``sources``), writes no file, and never trains.
"""
