-- Keeps what was submitted of a build and the first line of its log, and makes its files its own. Returns the files that were there.
with files as (
    update artifacts set uses = artifacts.uses + 1, run_id = coalesce(artifacts.run_id, $1::uuid)
    where artifacts.artifact_id in ($6::uuid, $7::uuid)
      and artifacts.kind = case when artifacts.artifact_id = $6 then 0 else 1 end
      and artifacts.namespace = $2::text and artifacts.size is not null and artifacts.doomed_at is null
    returning artifacts.artifact_id
),
built as (
    insert into builds (run_id, namespace, platform, project, key_id, source_id, certs_id, slug, version, url, reference, image,
                        base_image)
    values ($1, $2, $3::text, $4::text, $5::text, $6, $7, $8::text, $9::text, $10::text, $11::text, $12::text, $13::text)
),
begun as (
    insert into build_progress (run_id, log_lines, log_bytes, log_at)
    values ($1, case when $15::bigint is null then 0 else 1 end, coalesce($15, 0), case when $15 is not null then $14::bigint end)
),
logged as (
    insert into log_chunks (run_id, last, lines, bytes_before, at, body)
    select $1, 1, 1, 0, $14, $16::text where $15 is not null
)
select artifact_id from files
