"""A request in, a call out, and how sure the model was of the function."""

from callmemaybe import Caller, load_model

TOOLS = [
    {
        "name": "set_timer",
        "description": "Start a countdown timer.",
        "parameters": {"minutes": {"type": "integer"}},
    },
    {
        "name": "send_message",
        "description": "Send a text message to a person.",
        "parameters": {"to": {"type": "string"}, "text": {"type": "string"}},
    },
]


def main() -> None:
    """Ask three times; what all requests share is computed once."""
    caller = Caller(load_model("nano"), TOOLS)
    for prompt in (
        "Set a timer for 25 minutes",
        "Tell Ana: I am on my way",
        "wake me in 5 minutes",
    ):
        outcome = caller.call(prompt)
        print(prompt)
        print("  ", outcome.call.name, outcome.call.arguments)
        for name, probability in outcome.distribution.items():
            print(f"   {probability:6.1%} {name}")


if __name__ == "__main__":
    main()
