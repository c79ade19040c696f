"""The SQL of archiving, for both databases: ``{pairs}`` selects (tenant, run) from JSON, ``{t}`` the time of a record.

A run is finished if nothing in it is open, waits for a person, or happened after ``before``.
"""

from __future__ import annotations

ARCHIVED = "archived"

#: ``{more}`` limits it to given runs, or locks what it finds.
FINISHED = """
select r.tenant, r.run from runs as r where r.policy_hash <> 'archived'
  and not exists (select 1 from calls as c where c.run = r.run and c.tenant = r.tenant and (
    c.state in ('committed', 'running') or c.created >= {before} or c.ended >= {before}
    or (c.state = 'unknown' and c.key not in (select key from reconciliations))))
  and not exists (select 1 from turns as t where t.run = r.run and t.tenant = r.tenant
    and t.created >= {before})
  and not exists (select 1 from approvals as a where a.run = r.run and a.tenant = r.tenant
    and (a.created >= {before} or (a.decision is null and a.expires >= {now})))
  {more}
"""
AMONG = "(tenant, run) in ({pairs})"
#: What is moved of a run, in this order; ``reconciliations`` go with their calls.
TABLES = ("runs", "turns", "approvals", "calls")
RECONCILED = "select * from reconciliations where key in (select key from calls where {among})"
#: What stays of a run: its name, so that it cannot begin again.
CLOSE = "update runs set policy = '{{}}', policy_hash = 'archived' where {among}"
#: The first record of each chain that a run needs which is not archived, or that is not old.
NEEDED = """
select chain, min(number) from audit as a where a.key = 'archive' or {t} >= {before}
  or exists (select 1 from calls as c join runs as r on r.tenant = c.tenant and r.run = c.run
    where c.key = a.key and r.policy_hash <> 'archived')
  or exists (select 1 from approvals as p join runs as r on r.tenant = p.tenant and r.run = p.run
    where p.key = a.key and r.policy_hash <> 'archived')
group by chain
"""
