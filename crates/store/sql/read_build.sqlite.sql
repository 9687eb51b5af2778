-- Reads a build by its run.
select run_id, namespace, platform, project, key_id, source_id, certs_id, slug, version, url, reference, image, base_image
from builds
where run_id = ?1
