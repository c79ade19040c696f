"""The gateway's pure parts: keys, strict JSON, plans, locks, limits, redaction, codes."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import re
import time
import urllib.parse
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from callmemaybe.errors import InputError
from callmemaybe.gateway import CODES, redact
from callmemaybe.gateway.keys import Mac, call_key, canonical
from callmemaybe.gateway.lifecycle import TABLE
from callmemaybe.gateway.limits import GatewayLimits, backoff
from callmemaybe.gateway.locks import LockTable
from callmemaybe.gateway.plan import (
    Lock,
    find_references,
    locks_conflict,
    merge_locks,
    plan_calls,
    resolve_references,
)
from callmemaybe.gateway.policy import Policy, ToolGrant, Verdict

quick = settings(max_examples=80, deadline=None)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


@quick
@given(values)
def test_canonical_is_rfc_8785(value: Any) -> None:
    """Within what RFC 8785 can carry, the canonical text is the reference implementation's."""
    assert canonical(value) == rfc8785.dumps(value)


@quick
@given(
    st.lists(st.integers(-(2**80), 2**80) | st.sampled_from(["i", "v", "1"]), max_size=4), st.data()
)
def test_canonical_keeps_large_integers_apart(value: list[Any], data: Any) -> None:
    """Beyond it no integer loses a digit: equal texts mean equal values."""
    other = data.draw(st.permutations(value))
    assert (canonical(value) == canonical(other)) == (value == other)


def test_the_mac_is_hmac_sha256() -> None:
    """The two cached states give what RFC 2104 says; the key counts."""
    import hmac

    for secret in (b"k", b"x" * 64, b"y" * 200):
        expected = hmac.new(secret, b'{"a":1}', "sha256").hexdigest()
        assert Mac(secret).of({"a": 1}) == expected
    assert len({call_key(*parts) for parts in (("", "r", 1, 1, "t"), ("r", "", 1, 1, "t"))}) == 2


locks = st.lists(
    st.builds(Lock, st.sampled_from(["a", "b", "c", "*"]), st.booleans()), max_size=3
).map(merge_locks)


@quick
@given(st.lists(locks, max_size=8))
def test_plans_have_no_cycle_and_keep_conflicts_in_order(many: list[Any]) -> None:
    """Edges point back only, and every conflicting pair has one."""
    steps = plan_calls(many, [()] * len(many))
    for place, step in enumerate(steps):
        assert all(before < place for before in step.runs_after)
        for before in range(place):
            assert (before in step.runs_after) == locks_conflict(many[before], many[place])


@quick
@given(st.lists(locks, min_size=1, max_size=10), st.randoms())
def test_lock_holders_never_conflict_and_all_get_their_turn(many: list[Any], rng: Any) -> None:
    """No two holders conflict at any time, and no call waits for ever."""

    async def go() -> None:
        table = LockTable()
        holding: list[Any] = []

        async def one(mine: Any) -> None:
            assert await table.take(mine, 20)
            assert not any(locks_conflict(mine, other) for other in holding)
            holding.append(mine)
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(0)
            holding.remove(mine)
            table.release(mine)

        await asyncio.gather(*map(one, many))
        assert table.try_take([Lock("*")])

    asyncio.run(go())


def test_a_waiter_that_gives_up_holds_nothing_and_blocks_nobody() -> None:
    """After a timeout or a cancellation, those behind get in."""

    async def go() -> None:
        table = LockTable()
        reader, writer = [Lock("a", False)], [Lock("a")]
        assert table.try_take(reader)
        assert not await table.take(writer, 0.01)
        waiting = asyncio.ensure_future(table.take(writer, 10))
        await asyncio.sleep(0)
        behind = asyncio.ensure_future(table.take(reader, 10))
        await asyncio.sleep(0)
        assert not behind.done()
        waiting.cancel()
        assert await behind

    asyncio.run(go())


def test_references_point_back_and_resolve() -> None:
    """A `$ref` names an earlier call; pointers reach into its result; everything else is kept."""
    arguments = {"a": {"$ref": "c0#/x/1"}, "b": [{"$ref": "c1"}], "c": {"$ref": "c0", "d": 1}}
    found = find_references(arguments, {"c0": 0, "c1": 1}, 2)
    assert [(ref.pointer, ref.source, ref.path) for ref in found] == [
        ("/a", 0, "/x/1"),
        ("/b/0", 1, ""),
    ]
    done = resolve_references(arguments, found, {0: {"x": [1, 2]}, 1: "r"})
    assert done == {"a": 2, "b": ["r"], "c": {"$ref": "c0", "d": 1}}
    for bad in ("c2", "nobody", "c1#x"):
        with pytest.raises(InputError):
            find_references({"a": {"$ref": bad}}, {"c0": 0, "c1": 1, "c2": 2}, 2)
    with pytest.raises(InputError, match="nothing at"):
        resolve_references(arguments, found, {0: {}, 1: "r"})


grants = st.dictionaries(
    st.sampled_from("abcd"), st.builds(ToolGrant, st.sampled_from("xy"), st.sampled_from(Verdict))
)
policies = st.builds(Policy, grants, st.booleans(), st.booleans())


@quick
@given(policies, policies)
def test_policies_only_narrow(one: Policy, two: Policy) -> None:
    """The meet allows nothing that either forbids; it is the same both ways, and idempotent."""
    both = one.meet(two)
    assert both.grants == two.meet(one).grants
    assert both.meet(one).grants == both.grants
    for name, grant in both.grants.items():
        assert grant.verdict == max(one.grants[name].verdict, two.grants[name].verdict)
    assert Policy.from_json(json.loads(json.dumps(both.as_json()))) == both
    assert (both.hash == one.hash) == (both == one)


@quick
@given(st.integers(1, 40), st.floats(0, 1, exclude_max=True))
def test_backoff_is_full_jitter(attempt: int, rng: float) -> None:
    """Between nothing and the exponential bound, which never passes eight seconds."""
    assert 0 <= backoff(attempt, rng) <= min(8.0, 0.25 * 2**attempt)


def test_limits_that_contradict_each_other_are_refused() -> None:
    """Two heartbeats fit into a lease, and no limit is nothing."""
    with pytest.raises(InputError):
        GatewayLimits(lease=5, heartbeat=4)
    with pytest.raises(InputError):
        GatewayLimits(turn=0)


def test_redaction_knows_the_json_spelling() -> None:
    """A secret with a quote in it is found in plain and in JSON text; a result stays JSON."""
    found = redact.replacements(
        {"A": 'p"q', "EMPTY": "", "N": "1234"}, {"card": 5678, "n": 7}, {"card", "n"}
    )
    assert redact.text('x p"q y "p\\"q"', found) == 'x [secret A] y "[secret A]"'
    assert redact.arguments({"card": 1, "n": 2}, {"card"}) == {"card": "[redacted]", "n": 2}
    result = redact.result('{"a": 1234, "b": [5678, 7, "5678!"], "1234": true}', found)
    assert json.loads(result) == {
        "a": "[secret N]", "b": ["[redacted]", "[redacted]", "[redacted]!"], "[secret N]": True
    }  # fmt: skip
    assert redact.result('"cut off 1234', found) == '"cut off [secret N]'


@given(st.text(min_size=4, max_size=12), st.recursive(st.text(), st.lists, max_leaves=5))
def test_no_spelling_of_a_secret_survives(secret: str, around: Any) -> None:
    """A secret anywhere in a result is removed, and the text is still JSON."""
    found = redact.replacements({"S": secret}, {}, ())
    written = json.dumps([around, f"<{secret}>", {secret: secret}])
    cleaned = json.loads(redact.result(written, found))
    assume(secret not in "[secret S]")
    assert secret not in cleaned[1]
    assert list(cleaned[2].items()) == [("[secret S]", "[secret S]")]


ENCODERS: dict[str, Any] = {
    "plain": lambda data: data.decode(),
    "json": lambda data: json.dumps(data.decode()),
    "json in json": lambda data: json.dumps(json.dumps(data.decode())),
    "repr": lambda data: repr(data.decode()),
    "url": lambda data: urllib.parse.quote(data, safe=""),
    "form": lambda data: urllib.parse.urlencode({"key": data}),
    "url, lower case": lambda data: re.sub(
        "%..", lambda code: code[0].lower(), urllib.parse.quote(data, safe="")
    ),
    "hex": lambda data: data.hex(),
    "HEX": lambda data: data.hex().upper(),
    "html": lambda data: html.escape(data.decode()),
    "base64": lambda data: base64.b64encode(data).decode(),
    "basic": lambda data: base64.b64encode(b"user:" + data + b":x").decode(),
    "basic, one": lambda data: base64.b64encode(b"u" + data + b":").decode(),
    "basic, two": lambda data: base64.urlsafe_b64encode(b"us" + data).decode(),
}


@pytest.mark.parametrize("encode", ENCODERS.values(), ids=ENCODERS)
@pytest.mark.parametrize(
    "secret", ["sk-live-0f1e2d3c", "p&ss/w\u00f6rd+=?", 'O\'Neil "quoted" <b>', "C:\\Users\\x"]
)
def test_encodings_of_a_secret_are_found(secret: str, encode: Any) -> None:
    """However a service repeats a secret, no half of it is left, in that encoding or decoded."""
    written = f"the service said <{encode(secret.encode())}>"
    cleaned = redact.text(written, redact.replacements({"KEY": secret}))
    assert "[secret KEY]" in cleaned
    encoded = encode(secret.encode())
    middle = len(encoded) // 2
    assert encoded[middle - 3 : middle + 3] not in cleaned


@given(st.binary(max_size=7), st.text(min_size=5, max_size=20), st.binary(max_size=7))
def test_base64_of_a_text_around_a_secret_tells_nothing_of_it(
    before: bytes, secret: str, after: bytes
) -> None:
    """Wherever it stands, what is left of the encoded text has no three bytes in a row of it."""
    data = secret.encode()
    written = base64.b64encode(before + data + after).decode()
    cleaned = redact.text(written, redact.replacements({"K": secret}))
    assume(secret not in "[secret K]")
    left, found, right = cleaned.partition("[secret K]")
    assert found
    assert len(left) * 6 // 8 <= len(before) + 2
    assert len(right.rstrip("=")) * 6 // 8 <= len(after) + 2


def test_a_short_value_is_found_as_a_word() -> None:
    """A code of three digits is removed where it stands alone, and nothing is torn out of other words."""
    found = redact.replacements({}, {"cvv": "123", "n": 7}, {"cvv", "n"})
    assert redact.text("cvv=123, id 51234, 123.", found) == "cvv=[redacted], id 51234, [redacted]."
    assert json.loads(redact.result('{"cvv": 123, "id": 1234, "n": "7"}', found)) == {
        "cvv": "[redacted]", "id": 1234, "n": "[redacted]"
    }  # fmt: skip


def test_the_docs_show_the_tables() -> None:
    """The tables in the docs are drawn from the code."""
    page = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")
    transitions = [
        f"| {row.source} | {row.event} | {row.target} | {row.guard} | {row.durable} |"
        for row in TABLE
    ]
    codes = [f"| {code} | {effect} | {retry} |" for code, (effect, retry) in CODES.items()]
    assert "\n|---|---|---|---|---|\n" + "\n".join(transitions) + "\n\n" in page
    assert "| code | effect | retry |\n|---|---|---|\n" + "\n".join(codes) + "\n\n" in page


def test_every_code_used_is_in_the_table() -> None:
    """No module invents a code."""
    folder = Path(__file__).parents[2] / "src" / "callmemaybe" / "gateway"
    used = set()
    for file in folder.glob("*.py"):
        source = file.read_text(encoding="utf-8")
        used |= set(re.findall(r"""\.(?:fail|_reject|_cancel)\(\s*(?:item, )?"(\w+)\"""", source))
    assert used <= CODES.keys()
    assert used


def test_a_schema_is_an_argument_like_any_other() -> None:
    """`{"$ref": "#/..."}` names no call, so it is no reference, wherever it stands."""
    schema = {"properties": {"a": {"$ref": "#/$defs/a"}, "b": {"$ref": "#"}}}
    arguments = {"schema": schema, "plain": {"$ref": "#/x"}, "n": {"$ref": "c0#/x"}}
    found = find_references(arguments, {"c0": 0}, 1)
    assert [(ref.pointer, ref.source) for ref in found] == [("/n", 0)]
    assert resolve_references(arguments, found, {0: {"x": 1}}) == {**arguments, "n": 1}


def test_many_waiters_are_let_in_without_comparing_all_with_all() -> None:
    """Five hundred calls for a hundred resources: all get their turn, in order, in little time."""
    order: dict[int, list[int]] = {}

    async def one(table: LockTable, n: int) -> None:
        locks = [Lock(f"account:{n % 100}")]
        assert await table.take(locks, 60)
        order.setdefault(n % 100, []).append(n)
        await asyncio.sleep(0)
        table.release(locks)

    async def go() -> None:
        table = LockTable()
        await asyncio.gather(*(one(table, n) for n in range(500)))
        assert table.try_take([Lock("*")])

    began = time.process_time()
    asyncio.run(go())
    assert time.process_time() - began < 1.5
    assert all(mine == sorted(mine) and len(mine) == 5 for mine in order.values())


def test_who_gives_up_before_it_waits_leaves_no_place_behind() -> None:
    """A waiter that is cancelled at once holds no lock and blocks no other call."""

    async def go() -> None:
        table = LockTable()
        assert table.try_take([Lock("a")])
        for _ in range(2):
            waiting = asyncio.ensure_future(table.take([Lock("a")], 10))
            waiting.cancel()
            await asyncio.wait([waiting])
            later = asyncio.ensure_future(table.take([Lock("a")], 10))
            await asyncio.sleep(0)
            later.cancel()
            await asyncio.wait([later])
        table.release([Lock("a")])
        assert table.try_take([Lock("*")])

    asyncio.run(go())


def test_hundreds_of_sensitive_values_are_blanked_in_little_time() -> None:
    """Each is spelt once for a result, however many texts that has."""
    people = [f"person{n}@example.org" for n in range(500)]
    found = redact.replacements({}, {"to": people}, ["to"])
    began = time.process_time()
    cleaned = redact.result(json.dumps([{"to": one, "ok": True} for one in people]), found)
    assert time.process_time() - began < 3
    assert json.loads(cleaned) == [{"to": redact.REDACTED, "ok": True}] * 500
