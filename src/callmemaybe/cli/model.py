"""``--model``, for every command that asks a model: loaded, and a server asked before the first prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callmemaybe.models import Model
    from callmemaybe.models.remote import RemoteModel


def loaded_model(name: str, *, most_threads: int | None = None) -> Model | RemoteModel:
    """Load a model. Raises ModelError, also for a server that cannot be reached or refuses the key."""
    from callmemaybe.caller import load_model
    from callmemaybe.models.remote import RemoteModel

    model = load_model(name, most_threads=most_threads)
    if isinstance(model, RemoteModel):
        model.check()
    return model
