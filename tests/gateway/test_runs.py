"""Runs and turns over processes: what a name means, who decides, and what a model that drifts may do."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, Self

import pytest

from callmemaybe.errors import InputError, StoreError
from callmemaybe.gateway import CAREFUL, Gateway, GatewayLimits
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.tools import Context, Tool, ToolCall, ToolSpec, tool
from callmemaybe.tools.declare import Mode

_LOG: list[str] = []


@tool(effect="once", writes="account:{source}", trusted=True)
async def pay(source: str, amount: int) -> str:
    """Pay."""
    _LOG.append(f"pay {source} {amount}")
    return f"paid {amount}"


@tool(effect="read", reads="account:{account}", trusted=True)
async def look(account: str) -> int:
    """Look."""
    _LOG.append(f"look {account}")
    return 7


@pytest.fixture(autouse=True)
def log() -> list[str]:
    _LOG.clear()
    return _LOG


def call(name: str, id_: str = "", **arguments: Any) -> ToolCall:
    return ToolCall(name, json.dumps(arguments), id_)


PAY, LOOK = call("pay", source="a", amount=3), call("look", account="a")


class Processes:
    """Two ledgers on one store stand for two processes: they share nothing but the database."""

    def __init__(self, store: str) -> None:
        options = {"reserve": 0} if "://" not in store else {}
        self.first, self.second = open_ledger(store, **options), open_ledger(store, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.first.close()
        self.second.close()


# --- a model that drifts ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "drifted",
    [
        [LOOK, PAY],
        [PAY, PAY],
        [call("pay", source="a", amount=4)],
        [LOOK],
        [PAY, call("pay", source="b", amount=3)],
    ],
    ids=["moved", "more", "other arguments", "other tool", "another one"],
)
def test_a_redelivered_turn_with_other_calls_has_no_new_effect(
    store: str, log: list[str], drifted: list[ToolCall]
) -> None:
    """The same turn of a run with other calls than were recorded pays nothing twice, and says why."""

    async def go(processes: Processes) -> None:
        async with Gateway([pay, look], store=processes.first) as gateway:
            assert (await gateway.run([PAY], run="r", turn=0))[0].ok
        async with Gateway([pay, look], store=processes.second) as gateway:
            answers = await gateway.run(drifted, run="r", turn=0)
            for place, answer in enumerate(answers):
                if place == 0 and drifted[0] is PAY:
                    assert answer.replayed
                else:
                    assert (answer.code, answer.effect) == ("key_conflict", "none")
            if drifted[0] is not PAY and drifted[0].name != "pay":
                assert "turn 0" in str(answers[0].detail)
                assert '"amount": 3' in str(answers[0].detail)

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert log == ["pay a 3"]


def test_a_rejected_call_may_be_corrected_in_its_turn(store: str, log: list[str]) -> None:
    """What was rejected as it was written is replaced by a corrected call; the others stay as they were."""
    wrong = call("look", account=1)

    async def go(processes: Processes) -> None:
        async with Gateway([pay, look], store=processes.first) as gateway:
            codes = [one.code for one in await gateway.run([PAY, wrong], run="r", turn=0)]
            assert codes == ["ok", "invalid_arguments"]
        async with Gateway([pay, look], store=processes.second) as gateway:
            assert all(one.ok for one in await gateway.run([PAY, LOOK], run="r", turn=0))
            other = await gateway.run([PAY, call("look", account="b")], run="r", turn=0)
            assert other[1].code == "key_conflict"
            await gateway.run([wrong], run="r", turn=1)
            assert (await gateway.run([LOOK], run="r", turn=1))[0].ok

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert log == ["pay a 3", "look a", "look a"]


def test_calls_that_wait_for_a_person_are_recorded_with_their_turn(
    store: str, log: list[str]
) -> None:
    """A turn that only asked is bound, too; after the approval the same calls run in another process."""

    async def go(processes: Processes) -> None:
        async with Gateway([pay, look], store=processes.first, verdicts=CAREFUL) as gateway:
            asked = (await gateway.run([PAY], run="r", turn=0))[0]
            assert asked.code == "approval_pending"
        async with Gateway([pay, look], store=processes.second, verdicts=CAREFUL) as gateway:
            other = await gateway.run([LOOK, PAY], run="r", turn=0)
            assert [one.code for one in other] == ["key_conflict", "key_conflict"]
            await gateway.decide(str(asked.detail).split()[1].rstrip(":"), "approved", by="ada")
            assert (await gateway.run([PAY], run="r", turn=0))[0].ok

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert log == ["pay a 3"]


def test_sensitive_arguments_are_not_in_the_record_of_a_turn(ledger: Any) -> None:
    """They are compared by their HMAC, and neither kept nor told."""

    @tool(effect="once", writes="door", sensitive="pin")
    async def unlock(pin: str) -> str:  # noqa: ARG001
        return "open"

    async def go() -> None:
        async with Gateway([unlock, look], store=ledger) as gateway:
            assert (await gateway.run([call("unlock", pin="471147")], run="r", turn=0))[0].ok
            told = (await gateway.run([LOOK], run="r", turn=0))[0]
            assert told.code == "key_conflict"
            assert "471147" not in told.content
            row = ledger.backend.read_turn("", "r", 0)
            assert "471147" not in row.calls + row.arguments

    asyncio.run(go())


def test_a_turns_arguments_expire_and_its_calls_stay(ledger: Any, log: list[str]) -> None:
    """After the retention a turn still binds; only what it was called with is gone."""

    async def go() -> None:
        async with Gateway(
            [pay, look], store=ledger, limits=GatewayLimits(retention=0.001)
        ) as gateway:
            await gateway.run([PAY], run="r", turn=0)
            await asyncio.sleep(0.01)
            await gateway.expire()
            assert ledger.backend.read_turn("", "r", 0).arguments == "[]"
            assert (await gateway.run([LOOK], run="r", turn=0))[0].code == "key_conflict"

    asyncio.run(go())
    assert log == ["pay a 3"]


# --- who decides --------------------------------------------------------------------------------


@pytest.mark.parametrize("denial", ["policy", "person"])
def test_what_is_denied_here_is_denied_in_every_process(
    store: str, log: list[str], denial: str
) -> None:
    """A run that only denied or asked is in the ledger, with its policy and a person's denial."""

    async def go(processes: Processes) -> None:
        verdicts = CAREFUL if denial == "person" else {}
        async with Gateway([pay, look], store=processes.first, verdicts=verdicts) as gateway:
            run = gateway.begin("r", tools=["look"] if denial == "policy" else None)
            first = (await gateway.run([PAY], run=run, turn=0))[0]
            if denial == "person":
                await gateway.decide(str(first.detail).split()[1].rstrip(":"), "denied", by="ada")
        async with Gateway([pay, look], store=processes.second) as gateway:
            answer = (await gateway.run([PAY], run="r", turn=0))[0]
            assert answer.code == "denied"
            if denial == "person":
                assert answer.detail == "denied by ada"

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert log == []


def test_a_denial_holds_for_a_run_that_had_begun_elsewhere(store: str, log: list[str]) -> None:
    """Both processes have begun the run before anything is decided; and narrowing undoes no denial."""

    async def go(processes: Processes) -> None:
        async with (
            Gateway([pay, look], store=processes.first, verdicts=CAREFUL) as strict,
            Gateway([pay, look], store=processes.second) as loose,
        ):
            run = loose.begin("r")
            asked = (await strict.run([PAY], run="r", turn=0))[0]
            await strict.decide(str(asked.detail).split()[1].rstrip(":"), "denied", by="ada")
            assert (await loose.run([PAY], run=run, turn=0))[0].detail == "denied by ada"
            run.narrow("look")
            assert (await loose.run([PAY], run=run, turn=0))[0].detail == "denied by ada"
            moved = await loose.run([PAY], run=run)
            assert moved[0].code == "approval_pending"

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert log == []


def test_what_was_executed_is_not_denied_once_everything_has_expired(
    store: str, log: list[str]
) -> None:
    """Result and approval have expired, and the ledger still says that the call was executed."""
    limits = GatewayLimits(retention=0.001, approval=0.5)

    async def go(processes: Processes) -> None:
        async with Gateway(
            [pay, look], store=processes.first, verdicts=CAREFUL, limits=limits
        ) as gateway:
            asked = (await gateway.run([PAY], run="r", turn=0))[0]
            await gateway.decide(str(asked.detail).split()[1].rstrip(":"), "approved", by="ada")
            assert (await gateway.run([PAY], run="r", turn=0))[0].ok
            await asyncio.sleep(0.6)
            await gateway.expire()
            late = (await gateway.run([PAY], run="r", turn=0))[0]
            assert (late.code, late.effect) == ("result_expired", "done")
        async with Gateway([pay, look], store=processes.second, verdicts=CAREFUL) as gateway:
            late = (await gateway.run([PAY], run="r", turn=0))[0]
            assert (late.code, late.effect) == ("result_expired", "done")

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert log == ["pay a 3"]


# --- turns without a number ---------------------------------------------------------------------


def test_a_named_run_continues_after_its_last_turn(store: str, log: list[str]) -> None:
    """Without a turn nothing is a redelivery: not after a restart, nor for a run that was begun again."""

    async def go(processes: Processes) -> None:
        async with Gateway([look], store=processes.first) as gateway:
            assert not (await gateway.run([LOOK], run="kitchen"))[0].replayed
        async with Gateway([look], store=processes.second) as gateway:
            assert not (await gateway.run([LOOK], run="kitchen"))[0].replayed
            begun = gateway.begin("kitchen")
            assert begun.turn == 2
            assert not (await gateway.run([LOOK], run=begun))[0].replayed
            assert (await gateway.run([LOOK], run="kitchen", turn=1))[0].replayed

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert log == ["look a"] * 3


def test_two_processes_that_use_one_run_at_once_have_turns_of_their_own(
    store: str, log: list[str]
) -> None:
    """Each call runs once, under a key of its own, whoever gets a number first."""

    async def go(processes: Processes) -> None:
        async with (
            Gateway([look], store=processes.first) as one,
            Gateway([look], store=processes.second) as two,
        ):
            await asyncio.gather(one.run([LOOK], run="k"), two.run([LOOK], run="k"))
            batches = await asyncio.gather(
                *(gateway.run([LOOK], run="k") for _ in range(5) for gateway in (one, two))
            )
            answers = [answer for batch in batches for answer in batch]
            assert {(one.code, one.replayed) for one in answers} == {("ok", False)}
            assert len({one.key for one in answers}) == 10

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert len(log) == 12


def test_two_processes_that_only_ask_have_turns_of_their_own(store: str) -> None:
    """Also calls that wait for a person do not stand in another's turn."""

    async def go(processes: Processes) -> None:
        async with (
            Gateway([pay], store=processes.first, verdicts=CAREFUL) as one,
            Gateway([pay], store=processes.second, verdicts=CAREFUL) as two,
        ):
            one.begin("k"), two.begin("k")
            first = (await one.run([PAY], run="k"))[0]
            second = (await two.run([call("pay", source="b", amount=1)], run="k"))[0]
            assert (first.code, second.code) == ("approval_pending", "approval_pending")
            assert first.key != second.key

    with Processes(store) as processes:
        asyncio.run(go(processes))


@pytest.mark.parametrize("turn", [-1, 2**63, True, 1.0, "0"])
def test_a_turn_is_a_whole_number_that_a_store_can_hold(turn: Any) -> None:
    """Anything else is refused in words, before anything is decided."""

    async def go() -> None:
        async with Gateway([look]) as gateway:
            with pytest.raises(InputError, match="whole number from 0"):
                await gateway.run([LOOK], run="r", turn=turn)

    asyncio.run(go())


def test_the_last_turn_has_no_next(ledger: Any) -> None:
    """The largest turn is held; a run that had it cannot go on counting, and says so."""

    async def go() -> None:
        async with Gateway([look], store=ledger) as gateway:
            assert (await gateway.run([LOOK], run="r", turn=2**63 - 1))[0].ok
            with pytest.raises(InputError, match="no turn left"):
                await gateway.run([LOOK], run="r")

    asyncio.run(go())


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 1001, 7])
def test_names_are_what_every_store_can_hold(name: Any) -> None:
    """A NUL, half of a pair, or what is no text is refused in words, as a run and as a tenant."""

    async def go() -> None:
        async with Gateway([look]) as gateway:
            with pytest.raises(InputError, match="it must"):
                await gateway.run([LOOK], run=name)
            with pytest.raises(InputError, match="it must"):
                await gateway.run([LOOK], run="r", tenant=name)

    asyncio.run(go())


def test_names_that_look_alike_are_different(ledger: Any, log: list[str]) -> None:
    """Names are compared as they are written: no run answers for another, and no tenant for another."""
    names = ["caf\u00e9", "cafe\u0301", "CAF\u00c9", "caf\u00e9 ", ""]

    async def go() -> None:
        async with Gateway([look], store=ledger) as gateway:
            for name in names:
                for tenant in names:
                    answers = await gateway.run([LOOK], run=name, tenant=tenant, turn=0)
                    assert not answers[0].replayed

    asyncio.run(go())
    assert len(log) == 25


# --- deployments --------------------------------------------------------------------------------


def version(number: int, effect: str = "idempotent") -> Any:
    """Return the same tool with another docstring."""

    @tool(effect=effect, writes="x", name="put", description=f"Version {number}.", trusted=True)
    async def put(n: int) -> str:
        _LOG.append(f"{number}: {n}")
        return f"{number}: {n}"

    return put


def put(n: int) -> ToolCall:
    return call("put", n=n)


def test_a_new_definition_continues_under_the_same_verdict(store: str, log: list[str]) -> None:
    """Two versions of a tool live beside each other in one open run; what ended is answered as it ended."""

    async def go(processes: Processes) -> None:
        async with (
            Gateway([version(1)], store=processes.first) as old,
            Gateway([version(2)], store=processes.second) as new,
        ):
            assert (await old.run([put(0)], run="r"))[0].ok
            assert (await new.run([put(1)], run="r"))[0].ok
            assert (await old.run([put(2)], run="r"))[0].ok
            assert (await new.run([put(0)], run="r", turn=0))[0].value == "1: 0"
            rows = processes.first.backend.read_calls(run="r", limit=9)
            assert len({row.definition for row in rows}) == 2
            narrowed = new.begin("r", tools=())
            assert (await new.run([put(3)], run=narrowed))[0].code == "denied"
            assert (await old.run([put(3)], run="r"))[0].code == "denied"

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert log == ["1: 0", "2: 1", "1: 2"]


def test_an_approval_is_for_one_definition(store: str, log: list[str]) -> None:
    """What a person approved of one version is asked again of another; a denial is not."""

    async def go(processes: Processes) -> None:
        async with (
            Gateway([version(1)], store=processes.first, verdicts=CAREFUL) as old,
            Gateway([version(2)], store=processes.second, verdicts=CAREFUL) as new,
        ):
            asked = (await old.run([put(0)], run="r", turn=0))[0]
            await old.decide(str(asked.detail).split()[1].rstrip(":"), "approved", by="ada")
            again = (await new.run([put(0)], run="r", turn=0))[0]
            assert again.code == "approval_pending"
            assert again.detail != asked.detail
            assert (await old.run([put(0)], run="r", turn=0))[0].ok
            asked = (await old.run([put(1)], run="r", turn=1))[0]
            await old.decide(str(asked.detail).split()[1].rstrip(":"), "denied", by="ada")
            assert (await new.run([put(1)], run="r", turn=1))[0].detail == "denied by ada"

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert log == ["1: 0"]


@pytest.mark.parametrize("how", ["recovered", "redelivered"])
@pytest.mark.parametrize(
    ("effect", "told"), [("idempotent", "possible"), ("read", "none"), ("once", "possible")]
)
def test_a_lost_call_of_another_version_is_refused_once(
    store: str, log: list[str], how: str, effect: str, told: str
) -> None:
    """It does not run as something else, and it does not wait for ever: its answer is recorded."""

    async def die(_context: object = None) -> None:
        raise StoreError("the process is gone")

    async def go(processes: Processes) -> None:
        old = Gateway([version(1, effect)], store=processes.first)
        old.executor.run = lambda *_: die()  # type: ignore[assignment,method-assign]
        with pytest.raises(StoreError, match="gone"):
            await old.run([put(0)], run="r", turn=0)
        processes.first.close()  # its lease and its file lock are gone with it
        async with Gateway([version(2, effect)], store=processes.second) as new:
            if how == "recovered":
                await new.recover()
            answer = (await new.run([put(0)], run="r", turn=0))[0]
            again = (await new.run([put(0)], run="r", turn=0))[0]
            assert answer.content == again.content
            assert answer.effect == told
            if effect == "once":
                assert answer.code == "unknown_outcome"
            else:
                assert (answer.code, answer.retry) == ("tool_error", "same")
                assert "the tool's definition has changed" in str(answer.detail)
            assert (await new.run([put(1)], run="r"))[0].ok == (effect != "once")

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert log == ([] if effect == "once" else ["2: 1"])


def test_a_pinned_definition_that_changed_is_denied(store: str, log: list[str]) -> None:
    """A tool from elsewhere keeps the definition with which its run began; another run may have the new one."""

    def pinned(number: int) -> Any:
        return replace(version(number), pinned=True)

    async def go(processes: Processes) -> None:
        async with (
            Gateway([pinned(1)], store=processes.first) as old,
            Gateway([pinned(2)], store=processes.second) as new,
        ):
            early = new.begin("r")
            assert (await old.run([put(0)], run="r"))[0].ok
            assert (await new.run([put(1)], run=early))[0].code == "denied"
            assert (await new.run([put(1)], run="r"))[0].code == "denied"
            assert (await new.run([put(2)], run="other"))[0].ok

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert log == ["1: 0", "2: 2"]


# --- business keys ------------------------------------------------------------------------------


@tool(effect="keyed", writes="orders", trusted=True, idempotency_key="order:{order_id}")
async def charge(order_id: int, cents: int, context: Context) -> str:
    """Charge an order."""
    _LOG.append(f"charge {order_id} {cents}")
    return context.key


@pytest.mark.parametrize("how", ["declared", "given"])
def test_a_business_key_holds_over_all_runs_of_a_tenant(
    store: str, log: list[str], how: str
) -> None:
    """The same key and arguments anywhere are the first answer, other arguments a conflict."""

    async def go(processes: Processes) -> None:
        async with (
            Gateway([charge, pay, look], store=processes.first) as one,
            Gateway([charge, pay, look], store=processes.second) as two,
        ):

            async def buy(gateway: Gateway, cents: int, **where: Any) -> Any:
                if how == "declared":
                    return (await gateway.run([call("charge", order_id=1, cents=cents)], **where))[
                        0
                    ]
                bought = call("pay", source="a", amount=cents)
                return (await gateway.run([LOOK, bought], keys=[None, "order:1"], **where))[1]

            first = await buy(one, 5, run="r", turn=0)
            assert first.ok
            if how == "declared":
                assert first.value == first.key  # passed downstream
            for gateway in (one, two):
                for where in ({"run": "r"}, {"run": "s", "turn": 4}, {}):
                    again = await buy(gateway, 5, **where)
                    assert (again.content, again.key) == (first.content, first.key)
                    assert (await buy(gateway, 6, **where | {"turn": 9})).code == "key_conflict"
            assert (await buy(two, 5, run="r", tenant="other")).key != first.key
            narrowed = two.begin("narrow", tools=["look"])
            assert (await buy(two, 5, run=narrowed)).code == "denied"

    with Processes(store) as processes:
        asyncio.run(go(processes))
    assert sum(not one.startswith("look") for one in log) == 2


def test_a_position_keeps_the_key_that_it_was_delivered_with(ledger: Any, log: list[str]) -> None:
    """The same turn with and without a business key is not two effects."""

    async def go() -> None:
        async with Gateway([pay], store=ledger) as gateway:
            assert (await gateway.run([PAY], run="r", turn=0))[0].ok
            named = await gateway.run([PAY], run="r", turn=0, keys=["order:1"])
            assert named[0].code == "key_conflict"
            with pytest.raises(InputError, match="2 for 1"):
                await gateway.run([PAY], keys=["a", "b"])

    asyncio.run(go())
    assert log == ["pay a 3"]


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        ({"idempotency_key": "order"}, "names no parameter"),
        ({"idempotency_key": "{nothing}"}, "there is no parameter"),
        ({"idempotency_key": "{n}", "sensitive": "n"}, "reveal the sensitive"),
        ({"idempotency_key": "{may}"}, "may be left out"),
    ],
)
def test_a_business_key_that_cannot_be_kept_is_refused(declared: Any, wrong: str) -> None:
    """When it is declared, in one sentence."""

    async def act(**_: Any) -> None: ...

    properties = {"n": {"type": "integer"}, "may": {"type": "integer"}}
    spec = ToolSpec("act", "", {"properties": properties, "required": ["n"]})
    with pytest.raises(InputError, match=wrong):
        Tool(
            spec,
            act,
            mode=Mode.ASYNC,
            **{**declared, "sensitive": frozenset(declared.get("sensitive", ()))},
        )


def test_a_reconciliation_is_of_one_run(ledger: Any) -> None:
    """What is settled in one run does not offer the tool again in another, whose call is still unknown."""

    @tool(effect="once", writes="x", name="act")
    async def act(n: int) -> None:
        raise TimeoutError(f"{n}")

    async def go() -> None:
        async with Gateway([act], store=ledger) as gateway:
            keys = {}
            for tenant in ("one", "two"):
                answer = (await gateway.run([call("act", n=1)], run="r", tenant=tenant))[0]
                assert answer.code == "unknown_outcome"
                keys[tenant] = answer.key
            await gateway.reconcile(keys["one"], "not_done", by="ada")
            offered = [
                bool(gateway.offers(gateway._run_named("r", tenant))) for tenant in ("one", "two")
            ]
            assert offered == [True, False]

    asyncio.run(go())
