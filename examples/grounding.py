"""Only what was said: arguments that cannot be invented, and what happens where nothing was said."""

from callmemaybe import Caller, load_model

REFUND = {
    "name": "refund_order",
    "description": "Give a customer the money for an order back.",
    "parameters": {
        "type": "object",
        "properties": {
            # What must not be made up has to stand in the request, letter by letter.
            "order": {
                "type": "string",
                "description": "Code or name of the order.",
                "x-ground": "prompt",
            },
            "euros": {"type": "number", "x-ground": "prompt"},
            # One of a list is nobody's invention, so lists are left alone.
            "reason": {"enum": ["damaged", "late", "unwanted"]},
        },
        "required": ["order", "euros", "reason"],
    },
}
REQUESTS = [
    "Please refund 49.90 euros for order KX-2047, it came broken.",
    "Refund the order for Miller, it came two weeks late.",
]


def main() -> None:
    """Ask for the same with and without grounding."""
    model = load_model("nano")
    free = {**REFUND, "parameters": without_marks(REFUND["parameters"])}
    for title, tool in (("free", free), ("grounded", REFUND)):
        caller = Caller(model, [tool])
        print(title)
        for request in REQUESTS:
            outcome = caller.call(request)
            print("  ", request)
            print("     ->", outcome.call.arguments if outcome.call else outcome.remarks[0])


def without_marks(schema: object) -> object:
    """Return a schema without ``x-ground``."""
    if isinstance(schema, dict):
        return {key: without_marks(one) for key, one in schema.items() if key != "x-ground"}
    return schema


if __name__ == "__main__":
    main()
