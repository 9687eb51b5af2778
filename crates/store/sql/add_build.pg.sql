-- Keeps what was submitted of a build, and makes its files its own. Returns the files that were there.
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
begun as (insert into build_progress (run_id) values ($1))
select artifact_id from files
