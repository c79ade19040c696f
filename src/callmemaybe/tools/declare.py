"""Tool: a function that a model may call, with what the gateway must know to run it safely.

``@tool`` reads the signature and the docstring. What running the function does to the world is declared;
declarations that contradict each other are refused here. Nothing is run in this module.
"""

from __future__ import annotations

import decimal
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum, StrEnum
from functools import cached_property, partial
from types import CodeType, FunctionType
from typing import Any, Literal, Protocol, overload

from pydantic_core import to_jsonable_python

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps
from callmemaybe.tools.signature import Signature, read_signature, unwrap_callable
from callmemaybe.tools.spec import Effect, ToolSpec


class Mode(StrEnum):
    """Where a tool's function runs."""

    ASYNC = "async"
    THREAD = "thread"
    PROCESS = "process"
    """In a worker process that is kept running; it and what it started are killed at the timeout."""
    FRESH = "fresh"
    """In a process for this call alone, with resource limits."""
    TRANSACTION = "transaction"
    """Inside the store's transaction that records the result."""


@dataclass(frozen=True)
class Context:
    """The call that a tool is run for; the gateway passes one to a parameter annotated with it."""

    key: str
    """The key of the call, for a service that carries out each key once."""
    attempt: int = 1
    run: str = ""
    tenant: str = ""
    fence: int = 0
    """Fencing token: it grows with each call that locks the same resources, over all processes that
    share a store. A service that refuses a smaller one than it has seen is safe from stalled processes."""


class Transaction(Protocol):
    """The open transaction of the store, through which a `transactional` tool writes."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Any:
        """Run one statement, with ``?`` for parameters in SQLite and ``%s`` in PostgreSQL."""


@dataclass(frozen=True)
class ProcessLimits:
    """Resource limits of a worker process (setrlimit), in bytes and seconds; None: no limit set."""

    memory: int | None = 1 << 30
    cpu: int | None = 60
    file_size: int | None = 1 << 28
    open_files: int | None = 256


_MAX_DIGITS = 400
_EXACT = decimal.Context(
    prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[]
)
#: Stands for the default timeout of the gateway.
DEFAULT_TIMEOUT = -1.0
Locks = Callable[[Mapping[str, Any]], Sequence[tuple[str, bool]]]
#: Names by which Python code reads the environment (in `os`).
_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb"})
#: Formats of JSON Schema that are URLs, and words in the names of arguments that are.
_URL_FORMATS = frozenset({"uri", "uri-reference", "iri", "iri-reference"})
_URL_NAMES = frozenset({"url", "urls", "uri", "uris", "href", "iri"})
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_FIELD = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Tool:
    """A function and its declaration. Call it like the function, or pass it to a Gateway."""

    spec: ToolSpec
    function: Callable[..., Any]
    effect: Effect = Effect.ONCE
    mode: Mode = Mode.THREAD
    writes: tuple[str, ...] | None = None
    reads: tuple[str, ...] | None = None
    locks: Locks | None = None
    timeout: float | None = DEFAULT_TIMEOUT
    attempts: int = 3
    secrets: Mapping[str, str] = field(default_factory=dict)
    sensitive: frozenset[str] = frozenset()
    approval: Literal["always"] | None = None
    trusted: bool = False
    open_world: bool | None = None
    """Its arguments may reach the open internet; None: if they hold a URL."""
    idempotency_key: str | None = None
    pinned: bool = False
    """Its definition comes from elsewhere: another one is denied in a run that began with this one."""
    reconcile: Callable[[str], Any] | None = None
    limits: ProcessLimits = ProcessLimits()
    environment: tuple[str, ...] | None = None
    signature: Signature | None = None
    bound_to: Any = None
    unbound: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "effect", Effect(self.effect))
        object.__setattr__(self, "mode", Mode(self.mode))
        _check(self)

    @property
    def name(self) -> str:
        """The name by which a model calls it."""
        return self.spec.name

    @cached_property
    def _resources(self) -> tuple[tuple[tuple[str, ...], bool], ...]:
        """Each declared resource, split at its parameters, and whether its lock is exclusive."""
        named = [(_FIELD.split(text), self.effect.writes) for text in self.writes or ()]
        named += [(_FIELD.split(text), False) for text in self.reads or ()]
        return tuple((tuple(parts), exclusive) for parts, exclusive in named)

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        properties = self.spec.parameters.get("properties", {})
        return {
            name: part["default"]
            for name, part in properties.items()
            if isinstance(part, Mapping) and "default" in part
        }

    @property
    def injected(self) -> Mapping[str, type]:
        """The parameters that the gateway passes: name -> Context or Transaction."""
        return self.signature.injected if self.signature else {}

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, without a gateway."""
        if self.bound_to is not None:
            return self.function(self.bound_to, *args, **kwargs)
        return self.function(*args, **kwargs)

    def call(self, values: Mapping[str, Any]) -> Any:
        """Call the function with values that :meth:`bind` returned, by position where needed."""
        if self.signature is None or not self.signature.positional:
            return self(**values)
        positional, named = self.signature.split_positional(values)
        return self(*positional, **named)

    def __get__(self, instance: Any, owner: type | None = None) -> Tool:
        """Bind the tool of a method to its object, as Python binds a method."""
        if instance is None or not self.unbound:
            return self
        return replace(self, bound_to=instance, unbound=False)

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as Python values of the hinted types; raises InputError with a pointer."""
        return self.signature.bind(arguments) if self.signature else dict(arguments)

    def may_send(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments may change something, or carry data to strangers."""
        if self.effect is not Effect.READ:
            return self.effect.writes
        if self.open_world is not None:
            return self.open_world
        return self._takes_url or "://" in dumps(arguments)

    @cached_property
    def _takes_url(self) -> bool:
        return any(
            str(schema.get("format")) in _URL_FORMATS or not _URL_NAMES.isdisjoint(_words(name))
            for name, schema in _properties(self.spec.parameters)
        )

    @property
    def declares_resources(self) -> bool:
        """Whether it says what it writes or reads."""
        return not (self.locks is None and self.writes is None and self.reads is None)

    def locks_for(self, arguments: Mapping[str, Any] | None) -> tuple[tuple[str, bool], ...]:
        """Return (resource, is exclusive) pairs; ``arguments`` is None while they are unknown.

        "*" is everything: what a tool writes or reads that declares no resource.
        """
        if self.effect is Effect.PURE:
            return ()
        if not self.declares_resources or arguments is None:
            return (("*", self.effect.writes),)
        if self.locks is not None:
            given = {**self._defaults, **arguments}
            plain = {name: canonical_resource_value(value) for name, value in given.items()}
            return tuple((str(name), bool(exclusive)) for name, exclusive in self.locks(plain))
        if all(len(parts) == 1 for parts, _ in self._resources):
            return tuple([(parts[0], exclusive) for parts, exclusive in self._resources])
        try:
            received = self.bind(arguments)
            # Only what was passed: a default made by a factory is another one when the tool runs.
            given = {name: received[name] for name in arguments if name in received}
            own = self.signature.defaults if self.signature else {}
            given = {**self._defaults, **own, **given}
            return tuple([(_fill(parts, given), exclusive) for parts, exclusive in self._resources])
        except Exception:  # a type of the user's: a value without a name may be any resource
            return (("*", self.effect.writes),)

    def name_of_call(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the declared idempotency key filled with arguments; None if none is declared.

        Raises InputError where it would need the result of another call.
        """
        if self.idempotency_key is None:
            return None
        given = {**self._defaults, **arguments}
        parts = [self.idempotency_key]
        for parameter in _FIELD.findall(self.idempotency_key):
            if isinstance(given[parameter], Mapping) and "$ref" in given[parameter]:
                raise InputError(
                    "the idempotency key is made of it, so it must be written out",
                    where=f"/{parameter}",
                )
            parts.append(repr(canonical_resource_value(given[parameter])))
        return "\n".join(parts)

    @property
    def location(self) -> tuple[str, str, str] | None:
        """(module, file, name) by which another process imports this function, None if it cannot."""
        found = None if self.bound_to is not None else find_module_name(self.function)
        if found is None:
            return None
        inner = inspect.unwrap(self.function)
        return (inner.__module__, inner.__code__.co_filename, found)


@overload
def tool(function: Callable[..., Any], /, **declared: Any) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect | str = Effect.ONCE,
    mode: Mode | str | None = None,
    writes: str | Sequence[str] | None = None,
    reads: str | Sequence[str] | None = None,
    locks: Locks | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    attempts: int = 3,
    secrets: Mapping[str, str] | None = None,
    sensitive: str | Sequence[str] = (),
    approval: Literal["always"] | None = None,
    trusted: bool = False,
    open_world: bool | None = None,
    idempotency_key: str | None = None,
    reconcile: Callable[[str], Any] | None = None,
    limits: ProcessLimits = ProcessLimits(),
    environment: str | Sequence[str] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(function: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
    """Make a tool of a function: ``@tool`` or ``@tool(effect="read", ...)``.

    ``effect``: an :class:`Effect`, by default `once`. ``mode``: where it runs, by default as the effect
    requires. ``writes``, ``reads``: the resources it changes or reads, such as ``"account:{source}"``
    with parameters in braces; ``locks`` computes them instead. ``timeout``: seconds per attempt, None
    for none. ``attempts``: the most attempts, if failures are temporary. ``secrets``: parameter -> name of
    a secret; a model never sees such a parameter. ``sensitive``: parameters that are never recorded, nor
    shown in results and errors. ``approval="always"``: a person must approve each call. ``trusted``: nobody but
    you and the user writes its results, so that what a model does after them needs no approval.
    ``open_world``: a `read` whose arguments may reach strangers (a web page, a search engine), so that it is
    guarded as a write is; by default one with an argument that is a URL. ``idempotency_key``: what makes two calls
    the same in all runs of a tenant, such as ``"order:{order_id}"``. ``reconcile(key)``: returns
    whether a call whose outcome is unknown happened: True, False, or None. ``environment``: the variables
    of the environment that the tool needs where it runs in a process (a plain ``def`` that writes does by
    default); it gets no other.

    Raises InputError naming the parameter whose type JSON Schema cannot express, and for a function that
    runs in a process and reads the environment without saying what of it.
    """
    if function is not None:
        return make_tool(function, **declared)
    return lambda wrapped: make_tool(wrapped, **declared)


def make_tool(function: Callable[..., Any], **declared: Any) -> Tool:
    """Make a tool as :func:`tool` does, by a plain call."""
    if isinstance(function, Tool):
        raise InputError("it is a tool already", where=f"tool {function.name}")
    name = declared.pop("name", None) or _own_name(function)
    secrets = dict(declared.pop("secrets", None) or {})
    unbound = _is_method(function)
    signature = read_signature(
        function,
        name,
        hidden=frozenset(secrets),
        markers=(Context, Transaction),
        skip_first=unbound,
    )
    description = declared.pop("description", None) or signature.description
    effect = _effect(declared.pop("effect", Effect.ONCE), name)
    mode = declared.pop("mode", None)
    timeout = declared.pop("timeout", DEFAULT_TIMEOUT)
    return Tool(
        ToolSpec(name, description, signature.parameters, signature.returns),
        function,
        effect,
        _mode(function, effect, mode, timeout, name),
        writes=_names(declared.pop("writes", None)),
        reads=_names(declared.pop("reads", None)),
        timeout=timeout,
        secrets=secrets,
        sensitive=frozenset(_names(declared.pop("sensitive", ())) or ()),
        environment=_names(declared.pop("environment", None)),
        signature=signature,
        unbound=unbound,
        **declared,
    )


def tool_without_gateway(function: Callable[..., Any]) -> Tool:
    """Make a tool of a function that is called directly, without a gateway.

    Raises InputError as :func:`tool` does, and for a parameter that only a gateway can pass.
    """
    # With a timeout, a function that another process cannot import would be refused.
    made = function if isinstance(function, Tool) else make_tool(function, timeout=None)
    own = made.signature.defaults if made.signature else {}
    missing = next((name for name in (*made.injected, *made.secrets) if name not in own), None)
    if missing is not None:
        raise InputError(
            "only a gateway passes it", where=f"tool {made.name}, parameter {missing}",
            hint="run the calls by a Gateway, in a conversation by a GatewayExecutor(gateway)",
        )  # fmt: skip
    return made


def function_spec(function: Callable[..., Any]) -> ToolSpec:
    """Return the definition of a function that may run elsewhere.

    Raises InputError for a function without a name, and as :func:`read_signature` does.
    """
    if isinstance(function, Tool):
        return function.spec
    name = _own_name(function)
    # Its result is not converted here, so it may be anything: a table, say.
    signature = read_signature(
        function, name, markers=(Context, Transaction), requires_return_schema=False
    )
    return ToolSpec(name, signature.description, signature.parameters, signature.returns)


def _own_name(function: Callable[..., Any]) -> str:
    while isinstance(function, partial) and not hasattr(function, "__name__"):
        function = function.func
    inner = function if hasattr(function, "__name__") else unwrap_callable(function)
    name = getattr(inner, "__name__", "<lambda>")
    if name in {"<lambda>", "__call__"}:
        raise InputError("a tool needs a name", where="tool", hint='pass name="..." to tool()')
    return str(name)


def _is_method(function: Callable[..., Any]) -> bool:
    parts = getattr(function, "__qualname__", "").split(".")
    if len(parts) < 2 or parts[-2] == "<locals>":
        return False
    try:
        return next(iter(inspect.signature(function).parameters), None) == "self"
    except (TypeError, ValueError):
        return False  # read_signature raises the error for it


def _effect(value: Effect | str, name: str) -> Effect:
    try:
        return Effect(value)
    except ValueError:
        raise InputError(
            f"unknown effect class {value!r}",
            where=f"tool {name}, effect",
            hint=f"use one of {', '.join(item.value for item in Effect)}",
        ) from None


def _names(value: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    return (value,) if isinstance(value, str) else tuple(value)


def _mode(
    function: Callable[..., Any],
    effect: Effect,
    declared: Mode | str | None,
    timeout: float | None,
    name: str,
) -> Mode:
    if declared is not None:
        try:
            return Mode(declared)
        except ValueError:
            raise InputError(
                f"unknown mode {declared!r}",
                where=f"tool {name}, mode",
                hint=f"use one of {', '.join(item.value for item in Mode)}",
            ) from None
    if effect is Effect.TRANSACTIONAL:
        return Mode.TRANSACTION
    if inspect.iscoroutinefunction(function):
        return Mode.ASYNC
    if not effect.writes or timeout is None:
        return Mode.THREAD
    return Mode.PROCESS


def _check(made: Tool) -> None:
    """Raise InputError for declarations that contradict each other."""
    where = f"tool {made.name}"
    approval: object = made.approval
    if approval not in (None, "always"):
        # Any other value would mean None: no person would be asked.
        raise InputError(
            f"unknown approval {approval!r}", where=f"{where}, approval",
            hint='use "always", or leave it out',
        )  # fmt: skip
    if inspect.isgeneratorfunction(made.function) or inspect.isasyncgenfunction(made.function):
        # The code between its yields would run after its result was recorded.
        raise InputError(
            "a tool returns once, and this function yields", where=where, hint="return a list"
        )
    is_async = inspect.iscoroutinefunction(made.function)
    in_process = made.mode in {Mode.PROCESS, Mode.FRESH}
    if (made.mode is Mode.ASYNC) != (is_async and not in_process):
        raise InputError(
            "an `async def` runs in mode async, process or fresh, and nothing else in mode async",
            where=f"{where}, mode",
        )
    if (made.mode is Mode.TRANSACTION) != (made.effect is Effect.TRANSACTIONAL):
        raise InputError(
            "effect transactional and mode transaction belong together", where=f"{where}, effect"
        )
    if made.mode is Mode.THREAD and made.effect.writes and made.timeout is not None:
        raise InputError(
            "a thread cannot be killed, so a write with a timeout must not run in one",
            where=f"{where}, mode",
            hint='use mode="process", make it `async def`, or set timeout=None',
        )
    if in_process:
        _check_process(made, where)
    markers = set(made.injected.values())
    if made.effect is Effect.KEYED and made.signature and Context not in markers:
        raise InputError(
            "a keyed tool must pass the key on, but nothing gives it the key",
            where=where,
            hint="add a parameter annotated with Context and send context.key downstream",
        )
    if (made.effect is Effect.TRANSACTIONAL) != (Transaction in markers):
        raise InputError(
            "a transactional tool, and only such a tool, has a parameter annotated Transaction",
            where=where,
        )
    _check_numbers(made, where)


def _check_process(made: Tool, where: str) -> None:
    """Raise InputError for a tool that another process cannot run."""
    if made.unbound:
        raise InputError(
            "a method's object cannot be sent to another process",
            where=where,
            hint="make it `async def`, or set timeout=None",
        )
    if made.bound_to is not None or not is_importable(made.function):
        raise InputError(
            "another process cannot import it: it is a closure, a lambda, a bound method or an object",
            where=where,
            hint="define it at the top level of a module, make it `async def`, or set timeout=None",
        )
    if made.environment is None and _reads_environment(inspect.unwrap(made.function).__code__):
        raise InputError(
            "it reads the environment, which is empty in the process that it runs in",
            where=where,
            hint='name the variables that it needs, environment=["HOME"], or say environment=[]',
        )


def _reads_environment(code: CodeType) -> bool:
    """Whether a function's own code mentions the environment."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return not _ENVIRONMENT.isdisjoint(code.co_names) or any(map(_reads_environment, inner))


def _check_numbers(made: Tool, where: str) -> None:
    if made.timeout is not None and made.timeout != DEFAULT_TIMEOUT and made.timeout <= 0:
        raise InputError("a timeout must be positive", where=f"{where}, timeout")
    if made.attempts < 1:
        raise InputError("at least one attempt is needed", where=f"{where}, attempts")
    properties = made.spec.parameters.get("properties", {})
    for text in (*(made.writes or ()), *(made.reads or ())):
        for parameter in _FIELD.findall(text):
            if parameter not in properties:
                raise InputError(
                    f"the resource {text!r} names no parameter {parameter!r}", where=where
                )
            if parameter in made.sensitive:
                raise InputError(
                    f"the resource {text!r} would be written down with the sensitive {parameter!r}",
                    where=where,
                )
    _check_idempotency_key(made, where)
    for parameter in made.sensitive - properties.keys():
        raise InputError(f"there is no parameter {parameter!r}", where=f"{where}, sensitive")


def _check_idempotency_key(made: Tool, where: str) -> None:
    if made.idempotency_key is None:
        return
    where = f"{where}, idempotency_key"
    named = _FIELD.findall(made.idempotency_key)
    if not named:
        raise InputError(
            "it names no parameter, so the tool could be called once and never again", where=where
        )
    properties = made.spec.parameters.get("properties", {})
    for parameter in named:
        if parameter not in properties:
            raise InputError(f"there is no parameter {parameter!r}", where=where)
        if parameter in made.sensitive:
            raise InputError(f"the key would reveal the sensitive {parameter!r}", where=where)
        is_given = parameter in made.spec.parameters.get("required", ())
        if not is_given and "default" not in properties[parameter]:
            raise InputError(f"the parameter {parameter!r} may be left out", where=where)


def _properties(schema: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every property of a schema at any depth, with its name."""
    waiting, seen = [schema], set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, Mapping) or id(part) in seen:
            continue
        seen.add(id(part))
        named = part.get("properties")
        if isinstance(named, Mapping):
            yield from ((name, one) for name, one in named.items() if isinstance(one, Mapping))
        waiting += part.values()


def _words(name: str) -> set[str]:
    return {word.lower() for word in _NAME_WORD.findall(name)}


def _fill(parts: tuple[str, ...], arguments: Mapping[str, Any]) -> str:
    """Put arguments in at the odd indices of a resource's name; an absent one gives "*", everything."""
    filled = parts[0]
    for place in range(1, len(parts), 2):
        if parts[place] not in arguments:
            return "*"
        filled += f"{canonical_resource_value(arguments[parts[place]])!s}{parts[place + 1]}"
    return filled


def _wrapped_function(value: Any) -> Any:
    """Return the function inside a staticmethod or Tool; any other value as it is."""
    if isinstance(value, staticmethod):
        value = value.__func__
    return value.function if isinstance(value, Tool) else value


def is_importable(function: Callable[..., Any]) -> bool:
    """Return whether a module can define it: it is not a closure, lambda or callable object."""
    name = getattr(function, "__qualname__", "<lambda>")
    return isinstance(inspect.unwrap(function), FunctionType) and "<" not in name


def find_module_name(function: Callable[..., Any]) -> str | None:
    """Return the qualified name by which its module gives this very function, or None.

    The module is that of the innermost function: `functools.wraps` copies the name of that one, which the
    file of the decorator does not define.
    """
    if not is_importable(function):
        return None
    names = inspect.unwrap(function).__globals__
    qualified = function.__qualname__
    first, *rest = qualified.split(".")
    found = names.get(first)
    for part in rest:
        found = vars(found).get(part) if isinstance(found, type) else None
    if _wrapped_function(found) is function:
        return qualified
    # `name = tool(decorated(function))` leaves the function's own name to the undecorated one.
    candidates = list(names.items())
    return next((name for name, one in candidates if _wrapped_function(one) is function), None)


def canonical_resource_value(value: Any) -> Any:
    """Return a value in the form that names a resource, equal for equal values: 1.0 becomes 1.

    Objects are named by their JSON form. Raises ValueError or TypeError for a value that has none.
    """
    if isinstance(value, Enum):
        return canonical_resource_value(value.value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float | Decimal):
        return _number(value)
    if isinstance(value, Mapping):
        return {key: canonical_resource_value(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [canonical_resource_value(part) for part in value]
    if isinstance(value, set | frozenset):
        return sorted(map(canonical_resource_value, value), key=str)
    if hasattr(value, "astimezone") and (offset := value.utcoffset()) is not None:
        return f"{(value.replace(tzinfo=None) - offset).isoformat()}Z"
    return canonical_resource_value(to_jsonable_python(value, bytes_mode="base64"))


def _number(value: float | Decimal) -> int | float | Decimal:
    if not math.isfinite(value):
        return value
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    # A short Decimal such as 1e999999999 may have more digits than there is memory.
    if exact.adjusted() < _MAX_DIGITS and exact == exact.to_integral_value():
        return int(exact)
    return value if isinstance(value, float) else value.normalize(_EXACT)
