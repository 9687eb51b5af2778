-- Keeps what was submitted of a build.
insert into builds
    (run_id, namespace, platform, project, key_id, source_id, certs_id, slug, version, url, reference, image, base_image)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
