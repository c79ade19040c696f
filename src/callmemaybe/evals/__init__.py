"""How good a model is at calling functions: cases in, figures with their uncertainty out.

Rules of this room: a user of :class:`~callmemaybe.caller.Caller` like any other, it sees what every
user sees. What a model answered (:mod:`evals.record`) is kept apart from whether that was right
(:mod:`evals.score`), so that answers can be judged anew without asking again. It knows no server
and no command line; it reads published sets of cases (:mod:`evals.sources`), writes no file and
never trains.
"""
