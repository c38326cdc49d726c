-- Version 1 of the tables and functions of llm-do in the database of a cluster.
--
-- Nodes and clients call the functions of this schema and read no table. Each function runs with the rights of its owner and
-- checks that the session's role is a member of the tenant. The engine's schema (`absurd`) is called from here alone.

create schema llm_do;
revoke all on schema llm_do from public;

create table llm_do.settings (
  name text primary key,
  value text not null
);

create table llm_do.tenants (
  name text primary key check (name ~ '^[a-z][a-z0-9_]{0,30}$'),
  -- The most runs at once on all nodes; null: no limit.
  max_running integer check (max_running > 0)
);

create table llm_do.members (
  role text not null,
  tenant text not null references llm_do.tenants on delete cascade,
  primary key (role, tenant)
);

create table llm_do.files (
  tenant text not null references llm_do.tenants on delete cascade,
  sha256 text not null,
  content bytea not null,
  stored_at timestamptz not null default clock_timestamp(),
  primary key (tenant, sha256)
);
alter table llm_do.files alter column content set storage external;

-- A bundle is a list of files, and its name is the hash of this list.
create table llm_do.bundles (
  tenant text not null references llm_do.tenants on delete cascade,
  sha256 text not null,
  listing text not null,
  stored_at timestamptz not null default clock_timestamp(),
  primary key (tenant, sha256)
);

create table llm_do.bundle_files (
  tenant text not null,
  bundle text not null,
  file text not null,
  primary key (tenant, bundle, file),
  foreign key (tenant, bundle) references llm_do.bundles on delete cascade,
  foreign key (tenant, file) references llm_do.files
);

create table llm_do.runs (
  id text primary key,
  tenant text not null references llm_do.tenants,
  task uuid not null unique,
  -- The queue of the run's format: a node claims only from queues of formats that it knows.
  queue text not null,
  bundle text not null,
  start text not null,
  -- Tells a repeated call of its client from another run that proposes the same ID.
  nonce bigint not null,
  spawned_at timestamptz not null default clock_timestamp(),
  -- The number of the claims so far. A wait of the run is named by it.
  claims integer not null default 0,
  -- The number of records at the last claim, and how many claims in succession have added none.
  claimed_at_record bigint not null default 0,
  fruitless integer not null default 0,
  cancelled_by text,
  status text,
  -- Why no node continues the run, or why it waits to be claimed again.
  reason text,
  ended_at timestamptz,
  foreign key (tenant, bundle) references llm_do.bundles
);
create index runs_of_tenant on llm_do.runs (tenant, id);
create index runs_of_bundle on llm_do.runs (tenant, bundle);

-- One line of the journal for each record, as the node has sealed it. A run has one writer at a time, so `seq` has no gaps.
create table llm_do.records (
  run text not null references llm_do.runs on delete cascade,
  seq bigint not null,
  attempt uuid not null,
  line text not null,
  primary key (run, seq)
);

-- Long values of records, and contents of files from before a call changed them.
create table llm_do.blobs (
  run text not null references llm_do.runs on delete cascade,
  name text not null,
  content bytea not null,
  primary key (run, name)
);
alter table llm_do.blobs alter column content set storage external;

-- The first answer to a question counts.
create table llm_do.answers (
  run text not null references llm_do.runs on delete cascade,
  question text not null,
  given text not null,
  given_at timestamptz not null default clock_timestamp(),
  primary key (run, question)
);

-- Places that untrusted words were written to. All programs of a tenant know them.
create table llm_do.untrusted_places (
  tenant text not null references llm_do.tenants on delete cascade,
  place text not null,
  primary key (tenant, place)
);

create table llm_do.nodes (
  name text primary key,
  role text not null,
  version text not null,
  running integer not null,
  draining boolean not null default false,
  seen_at timestamptz not null default clock_timestamp()
);

-- Fails unless the session's role is a member of the tenant, or owns the cluster.
create function llm_do.admit(p_tenant text) returns void
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  if exists (select from llm_do.members m where m.role = session_user and m.tenant = p_tenant)
    or session_user = (select value from llm_do.settings where name = 'owner') then
    return;
  end if;
  raise exception 'the role "%" is no member of the tenant "%"', session_user, p_tenant using errcode = '42501';
end;
$$;

create function llm_do.setting(p_name text) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select value from llm_do.settings where name = p_name and name = 'schema';
$$;

-- The key that seals the records of a tenant's runs.
create function llm_do.seal_key(p_tenant text) returns text
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  perform llm_do.admit(p_tenant);
  return (select value from llm_do.settings where name = 'key of ' || p_tenant);
end;
$$;

create function llm_do.tenants_of_role() returns setof text
language sql stable security definer set search_path = pg_catalog as $$
  select t.name from llm_do.tenants t
  where exists (select from llm_do.members m where m.role = session_user and m.tenant = t.name)
    or session_user = (select value from llm_do.settings where name = 'owner')
  order by t.name;
$$;

create function llm_do.queue_of(p_tenant text, p_format integer) returns text
language sql immutable set search_path = pg_catalog as $$
  select p_tenant || '_' || p_format;
$$;

-- Wakes the nodes of a tenant when a run can be claimed. The engine polls alone.
create function llm_do.notify_claimable() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  if new.state = 'pending' then
    perform pg_notify('llm_do_work', tg_argv[0]);
  end if;
  return null;
end;
$$;

-- Makes a tenant with its queue, or changes its limit. Only the owner may call it.
create function llm_do.make_tenant(p_tenant text, p_format integer, p_max_running integer, p_key text) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  v_queue text := llm_do.queue_of(p_tenant, p_format);
begin
  insert into llm_do.tenants (name, max_running) values (p_tenant, p_max_running)
  on conflict (name) do update set max_running = excluded.max_running;
  insert into llm_do.settings (name, value) values ('key of ' || p_tenant, p_key) on conflict (name) do nothing;
  perform absurd.create_queue(v_queue);
  execute format(
    'create or replace trigger llm_do_claimable after insert or update of state on absurd.%I
     for each row execute function llm_do.notify_claimable(%L)', 'r_' || v_queue, p_tenant);
end;
$$;

create function llm_do.missing_files(p_tenant text, p_sha256 text[]) returns setof text
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform llm_do.admit(p_tenant);
  -- A file that is needed again is kept from the collector.
  update llm_do.files set stored_at = clock_timestamp() where tenant = p_tenant and sha256 = any (p_sha256);
  return query
    select wanted from unnest(p_sha256) wanted
    where not exists (select from llm_do.files f where f.tenant = p_tenant and f.sha256 = wanted);
end;
$$;

create function llm_do.store_file(p_tenant text, p_content bytea) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform llm_do.admit(p_tenant);
  insert into llm_do.files (tenant, sha256, content)
  values (p_tenant, encode(sha256(p_content), 'hex'), p_content) on conflict do nothing;
end;
$$;

create function llm_do.store_bundle(p_tenant text, p_listing text, p_files text[]) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_sha256 text := encode(sha256(convert_to(p_listing, 'UTF8')), 'hex');
begin
  perform llm_do.admit(p_tenant);
  insert into llm_do.bundles (tenant, sha256, listing) values (p_tenant, v_sha256, p_listing)
  on conflict (tenant, sha256) do update set stored_at = clock_timestamp();
  insert into llm_do.bundle_files (tenant, bundle, file) select distinct p_tenant, v_sha256, f from unnest(p_files) f
  on conflict do nothing;
  return v_sha256;
end;
$$;

create function llm_do.bundle_listing(p_tenant text, p_bundle text) returns text
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  perform llm_do.admit(p_tenant);
  return (select listing from llm_do.bundles where tenant = p_tenant and sha256 = p_bundle);
end;
$$;

create function llm_do.file_content(p_tenant text, p_sha256 text) returns bytea
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  perform llm_do.admit(p_tenant);
  return (select content from llm_do.files where tenant = p_tenant and sha256 = p_sha256);
end;
$$;

-- Adds a run to its queue. A repeated call with the same nonce changes nothing. Another run with the ID is a unique violation.
create function llm_do.spawn(
  p_tenant text, p_run text, p_format integer, p_bundle text, p_start text, p_nonce bigint
) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_queue text := llm_do.queue_of(p_tenant, p_format);
  v_task uuid;
begin
  perform llm_do.admit(p_tenant);
  if exists (select from llm_do.runs where id = p_run and tenant = p_tenant and nonce = p_nonce) then
    return;
  end if;
  select s.task_id into v_task from absurd.spawn_task(v_queue, 'run', jsonb_build_object('run', p_run)) s;
  insert into llm_do.runs (id, tenant, task, queue, bundle, start, nonce)
  values (p_run, p_tenant, v_task, v_queue, p_bundle, p_start, p_nonce);
end;
$$;

-- Claims a run of the tenant, if one is ready and the tenant's limit allows it.
create function llm_do.claim(p_tenant text, p_format integer, p_node text, p_lease integer)
returns table (run text, attempt uuid, claims integer, bundle text, start text, cancelled boolean, fruitless integer)
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_queue text := llm_do.queue_of(p_tenant, p_format);
  v_most integer;
  v_running integer;
  v_claim record;
begin
  perform llm_do.admit(p_tenant);
  select t.max_running into v_most from llm_do.tenants t where t.name = p_tenant;
  if v_most is not null then
    perform pg_advisory_xact_lock(hashtextextended('claim ' || p_tenant, 0));
    execute format(
      'select count(*) from absurd.%I where state = ''running'' and claim_expires_at > clock_timestamp()',
      'r_' || v_queue) into v_running;
    if v_running >= v_most then
      return;
    end if;
  end if;
  select c.run_id, c.task_id into v_claim from absurd.claim_task(v_queue, p_node, p_lease, 1) c;
  if v_claim.run_id is null then
    return;
  end if;
  return query
    with counted as (
      select r.id, (select coalesce(max(records.seq) + 1, 0) from llm_do.records records where records.run = r.id) as records
      from llm_do.runs r where r.task = v_claim.task_id)
    update llm_do.runs r
    set claims = r.claims + 1,
        fruitless = case when r.claims > 0 and counted.records = r.claimed_at_record then r.fruitless + 1 else 0 end,
        claimed_at_record = counted.records,
        status = null
    from counted where r.id = counted.id
    returning r.id, v_claim.run_id, r.claims, r.bundle, r.start, r.cancelled_by is not null, r.fruitless;
end;
$$;

-- Extends the lease. Returns `held`, `cancelled` if the run is to end, or `lost`.
create function llm_do.heartbeat(p_tenant text, p_run text, p_attempt uuid, p_lease integer) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_run llm_do.runs;
begin
  perform llm_do.admit(p_tenant);
  select * into v_run from llm_do.runs r where r.id = p_run and r.tenant = p_tenant;
  if v_run.id is null then
    return 'lost';
  end if;
  perform absurd.extend_claim(v_run.queue, p_attempt, p_lease);
  return case when v_run.cancelled_by is null then 'held' else 'cancelled' end;
exception
  when sqlstate 'AB001' or sqlstate 'AB002' or sqlstate 'P0001' then
    return 'lost';
end;
$$;

-- Adds records and their long values if the attempt still holds the run. The row of the lease stays locked until the end of the
-- transaction, so no other node can take the run over in between. False: the lease is lost, and nothing was written.
create function llm_do.append(
  p_tenant text, p_run text, p_attempt uuid, p_first bigint, p_lines text[], p_names text[], p_contents bytea[]
) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_run llm_do.runs;
  v_held boolean;
  v_added integer;
begin
  perform llm_do.admit(p_tenant);
  select * into v_run from llm_do.runs r where r.id = p_run and r.tenant = p_tenant;
  if v_run.id is null then
    return false;
  end if;
  execute format(
    'select true from absurd.%I where run_id = $1 and task_id = $2 and state = ''running'' and claim_expires_at > clock_timestamp()
     for share', 'r_' || v_run.queue) into v_held using p_attempt, v_run.task;
  if v_held is null then
    return false;
  end if;
  insert into llm_do.blobs (run, name, content)
  select p_run, b.name, b.content from unnest(p_names, p_contents) as b (name, content) on conflict do nothing;
  insert into llm_do.records (run, seq, attempt, line)
  select p_run, p_first + l.at - 1, p_attempt, l.line from unnest(p_lines) with ordinality as l (line, at)
  on conflict do nothing;
  get diagnostics v_added = row_count;
  -- A call that is repeated because its answer was lost finds its own records.
  if v_added < cardinality(p_lines) and exists (
    select from unnest(p_lines) with ordinality as l (line, at)
    join llm_do.records r on r.run = p_run and r.seq = p_first + l.at - 1
    where r.line <> l.line or r.attempt <> p_attempt
  ) then
    raise exception 'run % has other records from number %', p_run, p_first using errcode = '23505';
  end if;
  return true;
end;
$$;

-- Lets a run wait for an answer, or until the timeout in seconds. `p_seen` are the questions whose answers the node has read.
-- With a reason, the run waits until it is woken. False: the attempt does not hold the run.
create function llm_do.suspend(
  p_tenant text, p_run text, p_attempt uuid, p_seen text[], p_timeout integer, p_reason text
) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_run llm_do.runs;
begin
  perform llm_do.admit(p_tenant);
  perform pg_advisory_xact_lock(hashtextextended('run ' || p_run, 0));
  select * into v_run from llm_do.runs r where r.id = p_run and r.tenant = p_tenant;
  if v_run.id is null then
    return false;
  end if;
  update llm_do.runs set status = 'suspended', reason = p_reason || coalesce(' (' || reason || ')', '') where id = p_run;
  if v_run.cancelled_by is not null then
    perform absurd.cancel_task(v_run.queue, v_run.task);
    update llm_do.runs set status = 'interrupted', ended_at = clock_timestamp() where id = p_run;
  elsif p_reason is null
    and exists (select from llm_do.answers a where a.run = p_run and a.question <> all (p_seen)) then
    perform absurd.schedule_run(v_run.queue, p_attempt, clock_timestamp());
    perform pg_notify('llm_do_work', p_tenant);
  else
    perform absurd.await_event(
      v_run.queue, v_run.task, p_attempt, 'wait ' || v_run.claims, p_run || ' ' || v_run.claims, p_timeout);
  end if;
  return true;
exception
  when sqlstate 'AB001' or sqlstate 'AB002' or sqlstate 'P0001' then
    return false;
end;
$$;

-- Lets a run that waits be claimed again, whatever it waits for.
create function llm_do.wake(p_tenant text, p_run text) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_run llm_do.runs;
begin
  perform llm_do.admit(p_tenant);
  perform pg_advisory_xact_lock(hashtextextended('run ' || p_run, 0));
  select * into v_run from llm_do.runs r where r.id = p_run and r.tenant = p_tenant;
  if v_run.id is null or v_run.ended_at is not null then
    return false;
  end if;
  update llm_do.runs set fruitless = 0 where id = p_run;
  perform absurd.emit_event(v_run.queue, p_run || ' ' || v_run.claims);
  return true;
end;
$$;

-- Ends a run. A repeated call finds the run ended. False: the attempt does not hold the run.
create function llm_do.complete(p_tenant text, p_run text, p_attempt uuid, p_status text) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_run llm_do.runs;
begin
  perform llm_do.admit(p_tenant);
  perform pg_advisory_xact_lock(hashtextextended('run ' || p_run, 0));
  select * into v_run from llm_do.runs r where r.id = p_run and r.tenant = p_tenant;
  if v_run.ended_at is not null then
    return v_run.status = p_status;
  end if;
  if v_run.cancelled_by is not null and p_status = 'interrupted' then
    perform absurd.cancel_task(v_run.queue, v_run.task);
  else
    perform absurd.complete_run(v_run.queue, p_attempt);
  end if;
  update llm_do.runs set status = p_status, reason = null, ended_at = clock_timestamp() where id = p_run;
  return true;
exception
  when sqlstate 'AB001' or sqlstate 'AB002' or sqlstate 'P0001' then
    return false;
end;
$$;

-- Gives the run back, so that a node claims it after that many seconds.
create function llm_do.release(p_tenant text, p_run text, p_attempt uuid, p_delay integer, p_reason text) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_queue text;
begin
  perform llm_do.admit(p_tenant);
  select r.queue into v_queue from llm_do.runs r where r.id = p_run and r.tenant = p_tenant;
  perform absurd.schedule_run(v_queue, p_attempt, clock_timestamp() + make_interval(secs => p_delay));
  update llm_do.runs set reason = p_reason where id = p_run;
  if p_delay = 0 then
    perform pg_notify('llm_do_work', p_tenant);
  end if;
  return true;
exception
  when sqlstate 'AB001' or sqlstate 'AB002' or sqlstate 'P0001' then
    return false;
end;
$$;

-- Stores an answer and wakes the run. Returns the answer that counts: this one, or an earlier one; null: no such run, or it has
-- ended.
create function llm_do.answer(p_tenant text, p_run text, p_question text, p_given text) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_run llm_do.runs;
begin
  perform llm_do.admit(p_tenant);
  perform pg_advisory_xact_lock(hashtextextended('run ' || p_run, 0));
  select * into v_run from llm_do.runs r where r.id = p_run and r.tenant = p_tenant;
  if v_run.id is null or v_run.ended_at is not null then
    return null;
  end if;
  insert into llm_do.answers (run, question, given) values (p_run, p_question, p_given) on conflict do nothing;
  perform absurd.emit_event(v_run.queue, p_run || ' ' || v_run.claims);
  return (select a.given from llm_do.answers a where a.run = p_run and a.question = p_question);
end;
$$;

create function llm_do.answers_of(p_tenant text, p_run text) returns table (question text, given text)
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  perform llm_do.admit(p_tenant);
  return query select a.question, a.given from llm_do.answers a join llm_do.runs r on r.id = a.run
    where a.run = p_run and r.tenant = p_tenant;
end;
$$;

-- Ends a run from outside. A node that runs it hears of it and records the end; a run that no node holds ends here.
create function llm_do.cancel(p_tenant text, p_run text, p_by text) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_run llm_do.runs;
  v_held boolean;
begin
  perform llm_do.admit(p_tenant);
  perform pg_advisory_xact_lock(hashtextextended('run ' || p_run, 0));
  select * into v_run from llm_do.runs r where r.id = p_run and r.tenant = p_tenant;
  if v_run.id is null or v_run.ended_at is not null then
    return false;
  end if;
  execute format(
    'select true from absurd.%I where task_id = $1 and state = ''running'' and claim_expires_at > clock_timestamp() for update',
    'r_' || v_run.queue) into v_held using v_run.task;
  update llm_do.runs set cancelled_by = p_by where id = p_run;
  if v_held is null then
    perform absurd.cancel_task(v_run.queue, v_run.task);
    update llm_do.runs set status = 'interrupted', ended_at = clock_timestamp() where id = p_run;
  end if;
  perform pg_notify('llm_do_cancel', p_run);
  return true;
end;
$$;

create function llm_do.records_of(p_tenant text, p_run text, p_from bigint, p_most integer)
returns table (seq bigint, line text)
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  perform llm_do.admit(p_tenant);
  return query select c.seq, c.line from llm_do.records c join llm_do.runs r on r.id = c.run
    where c.run = p_run and r.tenant = p_tenant and c.seq >= p_from order by c.seq limit p_most;
end;
$$;

create function llm_do.blob_names(p_tenant text, p_run text) returns setof text
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  perform llm_do.admit(p_tenant);
  return query select b.name from llm_do.blobs b join llm_do.runs r on r.id = b.run
    where b.run = p_run and r.tenant = p_tenant;
end;
$$;

create function llm_do.blob_content(p_tenant text, p_run text, p_name text) returns bytea
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  perform llm_do.admit(p_tenant);
  return (select b.content from llm_do.blobs b join llm_do.runs r on r.id = b.run
    where b.run = p_run and b.name = p_name and r.tenant = p_tenant);
end;
$$;

-- Runs of a tenant, newest first: one whose ID begins with `p_prefix`, or all.
create function llm_do.list_runs(p_tenant text, p_prefix text, p_limit integer)
returns table (id text, state text, bundle text, node text, records bigint, reason text)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  v_run llm_do.runs;
  v_state text;
  v_node text;
  v_available timestamptz;
begin
  perform llm_do.admit(p_tenant);
  for v_run in
    select * from llm_do.runs r where r.tenant = p_tenant and starts_with(r.id, p_prefix) order by r.id desc limit p_limit
  loop
    execute format(
      'select state, claimed_by, available_at from absurd.%I where task_id = $1 order by attempt desc limit 1',
      'r_' || v_run.queue) into v_state, v_node, v_available using v_run.task;
    id := v_run.id;
    state := case
      when v_run.ended_at is not null then v_run.status
      when v_state = 'running' then 'running'
      when v_state = 'sleeping' and v_run.status = 'suspended' and v_available > clock_timestamp() then 'suspended'
      else 'queued' end;
    node := case when v_state = 'running' then v_node end;
    bundle := v_run.bundle;
    reason := v_run.reason;
    records := (select coalesce(max(c.seq) + 1, 0) from llm_do.records c where c.run = v_run.id);
    return next;
  end loop;
end;
$$;

create function llm_do.untrusted(p_tenant text) returns setof text
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  perform llm_do.admit(p_tenant);
  return query select u.place from llm_do.untrusted_places u where u.tenant = p_tenant;
end;
$$;

create function llm_do.add_untrusted(p_tenant text, p_places text[]) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform llm_do.admit(p_tenant);
  insert into llm_do.untrusted_places (tenant, place) select p_tenant, p from unnest(p_places) p
  on conflict do nothing;
end;
$$;

-- Notes that a node is there. Returns true if it is to take no more runs.
create function llm_do.node_is_here(p_node text, p_version text, p_running integer) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  v_draining boolean;
begin
  insert into llm_do.nodes (name, role, version, running) values (p_node, session_user, p_version, p_running)
  on conflict (name) do update set running = excluded.running, seen_at = clock_timestamp()
    where nodes.role = session_user
  returning draining into v_draining;
  return coalesce(v_draining, true);
end;
$$;

create function llm_do.node_left(p_node text) returns void
language sql security definer set search_path = pg_catalog as $$
  delete from llm_do.nodes where name = p_node and role = session_user;
$$;

-- Asks nodes to take no more runs and to end when theirs have ended. Only the owner may call it.
create function llm_do.drain(p_node text) returns integer
language plpgsql set search_path = pg_catalog as $$
declare
  v_count integer;
begin
  update llm_do.nodes set draining = true where p_node is null or name = p_node;
  get diagnostics v_count = row_count;
  perform pg_notify('llm_do_work', '');
  return v_count;
end;
$$;

-- Removes runs that ended before that time, and then the bundles and files that no run needs. Only the owner may call it.
create function llm_do.clean(p_before timestamptz) returns table (runs integer, bundles integer, files integer)
language plpgsql set search_path = pg_catalog as $$
declare
  v_run record;
  -- A client stores the files of a bundle before the bundle, and the bundle before its run.
  v_settled timestamptz := clock_timestamp() - interval '1 hour';
begin
  runs := 0;
  for v_run in delete from llm_do.runs r where r.ended_at < p_before returning r.queue, r.task loop
    execute format('delete from absurd.%I where task_id = $1', 'w_' || v_run.queue) using v_run.task;
    execute format('delete from absurd.%I where task_id = $1', 'c_' || v_run.queue) using v_run.task;
    execute format('delete from absurd.%I where task_id = $1', 'r_' || v_run.queue) using v_run.task;
    execute format('delete from absurd.%I where task_id = $1', 't_' || v_run.queue) using v_run.task;
    runs := runs + 1;
  end loop;
  delete from llm_do.bundles b where b.stored_at < least(v_settled, p_before)
    and not exists (select from llm_do.runs r where r.tenant = b.tenant and r.bundle = b.sha256);
  get diagnostics bundles = row_count;
  delete from llm_do.files f where f.stored_at < least(v_settled, p_before)
    and not exists (select from llm_do.bundle_files u where u.tenant = f.tenant and u.file = f.sha256);
  get diagnostics files = row_count;
  return next;
end;
$$;

-- Members of tenants get these functions alone.
revoke all on all functions in schema llm_do from public;
