"""An OpenAI-compatible endpoint over one model: the third user of ``Caller``.

``shapes`` says what a request may look like and ``validation_errors`` what is wrong with one, ``chat`` and
``responses`` translate between the two interfaces and :class:`turns.TurnRequest` and :class:`turns.TurnUpdate`, which
know neither HTTP nor OpenAI;
``engine`` is the only thread that touches the model, and takes a step of each running turn in
turn; ``app`` is the only file that knows HTTP. What is observed (logs, metrics, spans) hangs on
one seam, :class:`observe.Observer`.

Rules: a parameter that cannot be kept is refused, never ignored; a call that was cut off is never
told as a call; whatever a client sends or stops reading, other clients do not notice.

This room knows no tool's effects: calls go to the client, which runs them.
"""
