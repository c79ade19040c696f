"""Earlier calls as conversations have them: made by any model, and not always well."""

from __future__ import annotations

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps
from callmemaybe.wire.arg_syntax import arguments_object


def written_arguments(arguments: str) -> str:
    """Return the arguments of an earlier call as the JSON text of an object.

    What is none (a call that was cut off, or broken) cannot stand in a prompt, whose syntax may not be
    JSON; its text becomes the value of ``arguments`` in an object, so that the model still reads it.
    """
    try:
        arguments_object(arguments, "arguments")
    except InputError:
        return dumps({"arguments": arguments})
    return arguments
