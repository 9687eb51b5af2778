-- Forgets files that are gone from storage, and what they took.
with gone as (
    delete from artifacts where artifact_id = any($1::uuid[]) and uses = 0
    returning namespace, size
),
taken as (select namespace, sum(size)::bigint as bytes from gone where size is not null group by namespace)
update artifact_totals set bytes = artifact_totals.bytes - taken.bytes from taken where artifact_totals.namespace = taken.namespace
