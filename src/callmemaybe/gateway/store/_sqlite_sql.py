"""The SQL of the SQLite ledger. A statement takes a whole batch as ``values (?, ?), (?, ?), ...``.

One statement releases the GIL once, however many rows it has; rows as JSON would cost five times as much to
read back. Batches are cut to powers of two, so that few different statements are prepared.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from callmemaybe.gateway.lifecycle import TERMINAL
from callmemaybe.gateway.store import CALL_COLUMNS
from callmemaybe.gateway.store._tables import columns_of

TABLES = """
create table if not exists meta(name text primary key, value blob not null) without rowid;
create table if not exists owners(
  owner text primary key, boot text not null, pid integer not null, beat real not null,
  lease real not null
) without rowid;
create table if not exists runs(
  tenant text not null, run text not null, policy text not null, policy_hash text not null,
  primary key (tenant, run)
) without rowid;
create table if not exists turns(
  tenant text not null, run text not null, turn integer not null, delivery text not null,
  request text not null, calls text not null, arguments text not null, created real not null,
  primary key (tenant, run, turn)
) without rowid;
-- In the order of arrival: keys are hashes, and rows in their order would touch a page each.
create table if not exists calls(
  id integer primary key, key text not null unique, tenant text not null, run text not null, turn integer not null,
  ordinal integer not null, call_id text not null, tool text not null, effect text not null,
  mac text not null, policy text not null, definition text not null, arguments text not null,
  locks text not null, state text not null, fence integer not null, owner text not null,
  created real not null, ended real, code text, content text, result text, asked real
);
create index if not exists calls_once on calls(run, tool, mac, tenant) where effect = 'once';
create index if not exists calls_open on calls(owner) where state in ('committed', 'running');
create index if not exists calls_run on calls(run);
create index if not exists calls_unknown on calls(run, tenant) where state = 'unknown';
create table if not exists approvals(
  id text primary key, key text not null, tenant text not null, run text not null,
  tool text not null, mac text not null, policy text not null, arguments text not null,
  reason text not null, created real not null, expires real not null,
  decision text, by text, decided real
) without rowid;
create index if not exists approvals_key on approvals(key);
create index if not exists approvals_run on approvals(run);
create index if not exists approvals_denied on approvals(key) where decision = 'denied';
create table if not exists reconciliations(
  key text primary key, outcome text not null, by text not null, at real not null,
  content text not null
) without rowid;
create table if not exists audit(
  chain text not null, number integer not null, key text not null, record text not null,
  hash blob not null, primary key (chain, number)
) without rowid;
"""
#: The columns of each table.
COLUMNS = columns_of(TABLES)
ROW = ", ".join(CALL_COLUMNS)
#: The values are formatted into ``{}``.
INSERT = f"insert into calls({ROW}) {{}} on conflict do nothing"
STAND = "select key from calls where key in ({})"
FETCH = f"select {ROW} from calls where key in ({{}})"
BEATEN = """
with j(key, fence, expected) as ({})
select j.key from j left join calls as c on c.key = j.key
where c.key is null or c.fence <> j.fence or c.state <> j.expected
"""
START = """
with j(key, target, owner, arguments, locks) as ({})
update calls set state = j.target, fence = calls.fence + 1, owner = j.owner,
  arguments = coalesce(j.arguments, calls.arguments), locks = coalesce(j.locks, calls.locks)
from j where calls.key = j.key
"""
FINISH = """
with j(key, target, ended, code, content, result) as ({})
update calls set state = j.target, ended = j.ended, code = j.code, content = j.content,
  result = j.result
from j where calls.key = j.key
"""
REPEATS = """
with j(key, run, tool, mac, tenant) as ({})
select j.key, min(c.key) from j join calls as c
  on c.run = j.run and c.tool = j.tool and c.mac = j.mac and c.tenant = j.tenant
  and c.effect = 'once'
where c.key <> j.key and c.state <> 'cancelled' and coalesce(c.code, '') <> 'refused'
group by 1
"""
# The process's own rows are excluded by two ranges of the index, not by a comparison per row.
OTHERS = """
select key, locks, owner, state = 'running', asked from calls
where state in ('committed', 'running') and (owner > ?1 or (owner < ?1 and owner > ''))
  and (state = 'running' or asked is not null)
"""
ASK_FOR = """
with j(key, locks, asked) as ({})
update calls set locks = j.locks, asked = coalesce(calls.asked, j.asked)
from j where calls.key = j.key and calls.state = 'committed'
"""
COUNT_UP = "update meta set value = value + 1 where name = 'token' returning value"
BLOCKED = f"""
with j(run, tenant) as ({{}})
select {ROW} from calls where state = 'unknown' and (run, tenant) in (select run, tenant from j)
  and key not in (select key from reconciliations)
"""
BEGIN_RUNS = "insert into runs {} on conflict do nothing"
RUNS = """
with j(tenant, run) as ({})
select tenant, run, policy_hash from runs where (tenant, run) in (select tenant, run from j)
"""
TURN = "tenant, run, turn, delivery, request, calls, arguments, created"
OPEN_TURNS = f"insert into turns({TURN}) {{}} on conflict do nothing returning tenant, run, turn"
TURNS = f"""
with j(tenant, run, turn) as ({{}})
select {TURN} from turns where (tenant, run, turn) in (select tenant, run, turn from j)
"""
DENIED = "select key, mac, by from approvals where decision = 'denied' and key in ({})"
APPEND = "insert into audit {}"
AFTER = "select * from audit where chain = ? and number > ? order by number"
# Calls that were committed and never started wait for their redelivery, and so do those whose tool is
# unknown here: they must not use up the limit. The second condition makes SQLite use the index.
ORPHANS = f"""
select {ROW} from calls where state = 'running' and state in ('committed', 'running')
  and owner in (select value from json_each(?1))
  and (effect = 'once' or tool in (select value from json_each(?2)))
order by id limit ?3
"""
UNSTARTED = f"""
select {ROW} from calls where state = 'committed' and state in ('committed', 'running')
  and owner in (select value from json_each(?1)) and created < ?2
order by id limit ?3
"""
DONE = ", ".join(f"'{state.value}'" for state in sorted(TERMINAL))
_MOST = 64
_T = TypeVar("_T")


def batches(rows: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Cut rows into parts of 64 and the rest into powers of two."""
    place, left = 0, len(rows)
    while left:
        size = min(_MOST, 1 << (left.bit_length() - 1))
        yield rows[place : place + size]
        place, left = place + size, left - size


@functools.cache
def filled(statement: str, count: int, width: int) -> str:
    """Return a statement for ``count`` rows of ``width`` values; width 0 is a plain list."""
    if not width:
        return statement.format(", ".join("?" * count))
    row = f"({', '.join('?' * width)})"
    return statement.format("values " + ", ".join([row] * count))


def flat(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the values of rows, one after the other."""
    return [value for row in rows for value in row]
