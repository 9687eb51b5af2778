#!/usr/bin/env bash
# The protocol of polling builders with nothing but curl.
source "$(dirname "$0")/words.sh"

want=401 call GET /api/v1/builds/pending > /dev/null
bearer=(-H "Authorization: Bearer $KEY")
want=204 call GET /api/v1/builds/pending "${bearer[@]}" > /dev/null
wanted='{"project_slug":"shop","version":"1.0","source_url":"https://git.example/shop.git","ref":"main","docker_image":"rust:1"}'
want=422 call POST /api/v1/builds "${bearer[@]}" -d '{"project_slug":"shop"}' > /dev/null
id=$(want=201 call POST /api/v1/builds "${bearer[@]}" -d "$wanted" | field id)
job=$(call GET /api/v1/builds/pending "${bearer[@]}")
[ "$job" = "{\"id\":\"$id\",\"project_slug\":\"shop\",\"version\":\"1.0\",\"source_url\":\"https://git.example/shop.git\",\"ref\":\"main\",\"docker_image\":\"rust:1\"}" ] \
  || fail "another job: $job"
want=204 call GET /api/v1/builds/pending "${bearer[@]}" > /dev/null
want=400 call POST "/api/v1/builds/$id/result" "${bearer[@]}" -d "{\"job_id\":\"$id\",\"status\":\"maybe\",\"duration\":1}" > /dev/null
want=400 call POST "/api/v1/builds/$id/result" "${bearer[@]}" -d '{"status":"success"}' > /dev/null
want=404 call POST /api/v1/builds/nothing/result "${bearer[@]}" -d '{"job_id":"nothing","status":"success","duration":1}' > /dev/null
{
  printf '{"job_id":"%s","status":"success","duration":12.5,"logs":"first\\u0000line\\n' "$id"
  # Fifty megabytes.
  head -c 50000000 /dev/zero | tr '\0' 'x' | sed -E 's/x{100}/&\\n/g'
  printf '"}'
} > result.json
call POST "/api/v1/builds/$id/result" "${bearer[@]}" --data-binary @result.json | grep -q '"status":"completed"' || fail "not completed"
want=409 call POST "/api/v1/builds/$id/result" "${bearer[@]}" -d "{\"job_id\":\"$id\",\"status\":\"success\",\"duration\":1}" > /dev/null
call GET "/api/builds/$id/logs?after=2&limit=1" "${bearer[@]}" | grep -q 'first\\u0000line' || fail "the log has changed"
echo "all is well"
