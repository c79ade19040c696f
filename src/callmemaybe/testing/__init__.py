"""For authors of plug-ins, and for our own tests: fakes, and laws that a plug-in must obey.

A law is a function that raises AssertionError; no test framework is needed. Run them all over a plug-in::

    from callmemaybe.testing.sessions import LAWS, ModelUnderTest

    @pytest.mark.parametrize("law", LAWS)
    def test_my_engine_obeys(law):
        LAWS[law](ModelUnderTest(MyModel(path), tolerance=1e-4))

- a model (``models/x.py``): :mod:`callmemaybe.testing.sessions`, as above;
- a store (``gateway/store/x.py``): :mod:`callmemaybe.testing.effects`: tools that log their effects, a
  way to kill the process at each write, and :func:`~callmemaybe.testing.effects.check_invariant`;
- anything that needs a vocabulary: :class:`callmemaybe.testing.vocabularies.ByteVocabulary`; a model that
  writes what it is told is ``callmemaybe.models.scripted.ScriptedModel``.

The laws of wire formats (what is rendered is in the grammar and is read back) are in
``tests/wire/test_laws.py``; they need the automata of the grammar and are not shipped.
"""
