"""The SQL of the PostgreSQL ledger. A statement takes a whole batch."""

from __future__ import annotations

from callmemaybe.gateway.store import CALL_COLUMNS
from callmemaybe.gateway.store._tables import columns_of

TABLES = """
create table if not exists meta(name text primary key, value bytea not null);
create sequence if not exists tokens;
create table if not exists owners(owner text primary key, expires timestamptz not null);
create table if not exists runs(
  tenant text not null, run text not null, policy text not null, policy_hash text not null,
  primary key (tenant, run)
);
create table if not exists turns(
  tenant text not null, run text not null, turn bigint not null, delivery text not null,
  request text not null, calls text not null, arguments text not null, created double precision not null,
  primary key (tenant, run, turn)
);
create table if not exists calls(
  key text primary key, tenant text not null, run text not null, turn bigint not null,
  ordinal integer not null, call_id text not null, tool text not null, effect text not null,
  mac text not null, policy text not null, definition text not null, arguments text not null,
  locks text not null, state text not null, fence bigint not null, owner text not null,
  created double precision not null, ended double precision, code text, content text, result text,
  asked double precision
) with (fillfactor = 70);
create index if not exists calls_once on calls(run, tool, mac, tenant) where effect = 'once';
create index if not exists calls_open on calls(owner) where state in ('committed', 'running');
create index if not exists calls_run on calls(run);
create index if not exists calls_unknown on calls(run, tenant) where state = 'unknown';
create table if not exists approvals(
  id text primary key, key text not null, tenant text not null, run text not null,
  tool text not null, mac text not null, policy text not null, arguments text not null,
  reason text not null, created double precision not null, expires double precision not null,
  decision text, by text, decided double precision
);
create index if not exists approvals_key on approvals(key);
create index if not exists approvals_run on approvals(run);
create index if not exists approvals_denied on approvals(key) where decision = 'denied';
create table if not exists reconciliations(
  key text primary key, outcome text not null, by text not null, at double precision not null,
  content text not null
);
create table if not exists audit(
  chain text not null, number bigint not null, key text not null, record text not null,
  hash bytea not null, primary key (chain, number)
);
"""
#: The columns of each table.
COLUMNS = columns_of(TABLES)
#: A commit must be on disk when it returns, whatever the database's default; stricter settings stay. A
#: temporary table of a tool must not stand before a table of the ledger with its name.
SETTINGS = """
select
  case when current_setting('synchronous_commit') = 'off'
    then set_config('synchronous_commit', 'on', false) end,
  set_config('search_path',
    concat_ws(', ', nullif(current_setting('search_path'), ''), 'pg_temp'), false)
"""
#: How many rows of the ledger's tables this transaction has written.
WRITTEN = "select " + " + ".join(
    f"pg_stat_get_xact_tuples_{what}(to_regclass('{name}'))"
    for name in COLUMNS
    for what in ("inserted", "updated", "deleted")
)
#: The columns of the tables that are found under our names.
FOUND = """
select name, array_agg(attname::text) from unnest(%s::text[]) as name
join pg_attribute on attrelid = to_regclass(name) and attnum > 0 and not attisdropped group by name
"""
#: Undo what a tool set for the session by set_config(), or in a function.
RESET = f"reset session authorization; reset all; {SETTINGS}"
#: The advisory lock under which the tables are created; an arbitrary constant.
MAKING = 0x63616C6C
#: A renewal and a judgement exclude each other by the lock on the owner's row. What is judged lost is marked,
#: so that the owner finds out at its next renewal, whatever the database's clock does.
OWN_LEASE = "select expires::text from owners where owner = %s for update"
RENEW = """
insert into owners values (%s, clock_timestamp() + make_interval(secs => %s))
on conflict (owner) do update set expires = excluded.expires
returning coalesce(%s::timestamptz <= clock_timestamp(), true), extract(epoch from clock_timestamp())
"""
LOST = """
with lapsed as (
  select owner from owners where owner = any(%(asked)s::text[]) and expires <= clock_timestamp()
  for update skip locked
), marked as (
  update owners set expires = '-infinity' where owner in (select owner from lapsed)
)
select o from unnest(%(asked)s::text[]) as o
where o in (select owner from lapsed) or o not in (select owner from owners)
"""
#: A process that slept for a day renews its lease before it starts anything, so its calls have an owner.
FORGET = """
delete from owners as o where expires < clock_timestamp() - interval '1 day' and not exists (
  select from calls as c where c.owner = o.owner and c.state in ('committed', 'running'))
"""
ROW = ", ".join(CALL_COLUMNS)
#: A batch is sent as one JSON text: twenty array parameters cost more to write than the rows to insert.
INSERT = """
insert into calls select * from json_populate_recordset(null::calls, %s::json)
on conflict do nothing returning key
"""
START = """
update calls as c set state = m.target, fence = c.fence + 1, owner = %s,
  arguments = coalesce(m.arguments, c.arguments), locks = coalesce(m.locks, c.locks)
from (select v ->> 0 as key, (v ->> 1)::bigint as fence, v ->> 2 as expected, v ->> 3 as target,
    v ->> 4 as arguments, v ->> 5 as locks from json_array_elements(%s::json) as v) as m
where c.key = m.key and c.fence = m.fence and c.state = m.expected returning c.key
"""
FINISH = """
update calls as c set state = m.target, ended = m.ended, code = m.code, content = m.content,
  result = m.result
from (select v ->> 0 as key, (v ->> 1)::bigint as fence, v ->> 2 as expected, v ->> 3 as target,
    (v ->> 4)::float8 as ended, v ->> 5 as code, v ->> 6 as content, v ->> 7 as result
  from json_array_elements(%s::json) as v) as m
where c.key = m.key and c.fence = m.fence and c.state = m.expected returning c.key
"""
REPEATS = """
select m.key, c.key
from (select v ->> 0 as key, v ->> 1 as run, v ->> 2 as tool, v ->> 3 as mac, v ->> 4 as tenant
  from json_array_elements(%s::json) as v) as m
cross join lateral (
  select key from calls where run = m.run and tool = m.tool and mac = m.mac and tenant = m.tenant
    and effect = 'once' and key <> m.key and state <> 'cancelled'
    and coalesce(code, '') <> 'refused'
  limit 1
) as c
"""
# The process's own rows, of which the index has many dead ones, are excluded by two ranges.
OTHERS = """
select key, locks, owner, state = 'running', asked from calls
where state in ('committed', 'running') and owner > %(me)s
  and (state = 'running' or asked is not null)
union all
select key, locks, owner, state = 'running', asked from calls
where state in ('committed', 'running') and owner < %(me)s and owner > ''
  and (state = 'running' or asked is not null)
"""
SERIALISE = """
select case when alone then pg_advisory_xact_lock(n) else pg_advisory_xact_lock_shared(n) end
from (select n, bool_or(alone) as alone from
        (select (v ->> 0)::bigint as n, (v ->> 1)::bool as alone
         from json_array_elements(%s::json) as v) as m
      group by n order by n) as ordered
"""
COUNT_UP = "select nextval('tokens')"
ASK_FOR = """
update calls as c set locks = m.locks, asked = coalesce(c.asked, m.asked)
from unnest(%s::text[], %s::text[], %s::float8[]) as m(key, locks, asked)
where c.key = m.key and c.state = 'committed'
"""
BLOCKED = f"""
select {ROW} from calls where state = 'unknown'
  and (run, tenant) in (select v ->> 0, v ->> 1 from json_array_elements(%s::json) as v)
  and key not in (select key from reconciliations)
"""
BEGIN_RUNS = """
insert into runs select v ->> 0, v ->> 1, v ->> 2, v ->> 3 from json_array_elements(%s::json) as v
on conflict do nothing returning tenant, run, policy_hash
"""
_POLICIES = """
select tenant, run, policy_hash from runs
where (run, tenant) in (select v ->> 0, v ->> 1 from json_array_elements(%s::json) as v)
order by tenant, run
"""
#: T1 and a change of the policy exclude each other until the commit: who is told that it was narrowed finds no
#: call admitted under the old policy afterwards.
POLICIES, POLICIES_TO_CHANGE = f"{_POLICIES} for share", f"{_POLICIES} for update"
TURN = "tenant, run, turn, delivery, request, calls, arguments, created"
OPEN_TURNS = f"""
insert into turns({TURN}) select v ->> 0, v ->> 1, (v ->> 2)::bigint, v ->> 3, v ->> 4, v ->> 5,
  v ->> 6, (v ->> 7)::float8
from json_array_elements(%s::json) as v on conflict do nothing returning tenant, run, turn
"""
TURNS = f"""
select {TURN} from turns where (tenant, run, turn) in (
  select v ->> 0, v ->> 1, (v ->> 2)::bigint from json_array_elements(%s::json) as v) for update
"""
DENIED = "select key, mac, by from approvals where decision = 'denied' and key = any(%s)"
# Calls that were committed and never started wait for their redelivery, and so do those whose tool is
# unknown here: they must not use up the limit.
ORPHANS = f"""
select {ROW} from calls where state = 'running' and owner = any(%s)
  and (effect = 'once' or tool = any(%s))
order by key limit %s for update skip locked
"""
UNSTARTED = f"""
select {ROW} from calls where state = 'committed' and owner = any(%s) and created < %s
order by key limit %s for update skip locked
"""
AFTER = "select * from audit where chain = %s and number > %s order by number"
AUDIT = """
insert into audit select %s, %s + n, v ->> 0, v ->> 1, decode(v ->> 2, 'hex')
from json_array_elements(%s::json) with ordinality as j(v, n)
"""
#: The writer only looks up keys. Plans that are made while the tables are empty would scan the tables for as
#: long as the plans are cached.
PLANS = (
    "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_bitmapscan=off"
)
