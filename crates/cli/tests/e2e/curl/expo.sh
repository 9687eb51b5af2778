#!/usr/bin/env bash
# The protocol of Expo Free Agent with nothing but curl: submit, register, poll, fetch, machine, upload, download.
source "$(dirname "$0")/words.sh"

printf 'PK\003\004 the source' > source.zip
head -c 3000000 /dev/urandom > result.ipa

want=401 call GET /api/builds > /dev/null
want=403 call GET /api/builds -H 'X-API-Key: bk_wrong_wrong_wrong_wrong' > /dev/null
key=(-H "X-API-Key: $KEY")
submitted=$(want=201 call POST /api/builds "${key[@]}" -H 'Idempotency-Key: expo-1' -F platform=ios -F source=@source.zip)
again=$(want=201 call POST /api/builds "${key[@]}" -H 'Idempotency-Key: expo-1' -F platform=ios -F source=@source.zip)
[ "$submitted" = "$again" ] || fail "the same submit gave another answer"
id=$(field id <<< "$submitted")
build=(-H "X-Build-Token: $(field access_token <<< "$submitted")")
[ "$(call GET "/api/builds/$id/status" "${build[@]}" | field status)" = pending ] || fail "it should wait"

registered=$(want=200 call POST /api/workers/register "${key[@]}" -H 'Content-Type: application/json' \
  -d '{"name":"a mac","capabilities":{"platforms":["ios"],"maxConcurrentBuilds":1}}')
worker=$(field id <<< "$registered")
token=$(field access_token <<< "$registered")
want=400 call GET /api/workers/poll "${key[@]}" > /dev/null
polled=$(call GET /api/workers/poll "${key[@]}" -H "X-Worker-Token: $token")
# The answer was lost: the same token gets the same build again.
polled=$(call GET /api/workers/poll "${key[@]}" -H "X-Worker-Token: $token")
grep -q "\"id\":\"$id\"" <<< "$polled" || fail "no job: $polled"
token=$(sed -E 's/.*"access_token":"(bw_[^"]*)".*/\1/' <<< "$polled")
otp=$(field otp <<< "$polled")
mine=("${key[@]}" -H "X-Worker-Token: $token")
want=401 call GET "/api/builds/$id/source" > /dev/null
call GET "/api/builds/$id/source" "${mine[@]}" > fetched.zip
cmp source.zip fetched.zip || fail "the source has changed"

vm=(-H "X-VM-Token: $(call POST "/api/builds/$id/authenticate" -d "{\"otp\":\"$otp\"}" | field vm_token)")
want=403 call POST "/api/builds/$id/authenticate" -d "{\"otp\":\"$otp\"}" > /dev/null
call POST "/api/builds/$id/vm-ready" "${vm[@]}" > /dev/null
call GET "/api/builds/$id/vm-status" "${mine[@]}" | grep -q '"vm_ready":true' || fail "the machine is not ready"
call POST "/api/builds/$id/logs" "${vm[@]}" -d '{"logs":[{"level":"info","message":"compiling"},{"level":"warn","message":"slow"}]}' > /dev/null
call POST "/api/builds/$id/telemetry" "${vm[@]}" -d '{"cpu":0.5,"memory":0.25}' > /dev/null
call POST "/api/builds/$id/telemetry" "${vm[@]}" -d '{"type":"cpu_snapshot","data":{"cpu_percent":12.5,"memory_mb":2048}}' > /dev/null
call GET "/api/builds/$id/telemetry" "${key[@]}" | grep -q '"memory_mb":2048' || fail "the monitor was not heard"
call POST "/api/builds/$id/heartbeat" "${vm[@]}" -d '{"progress":40}' > /dev/null
call GET "/api/builds/$id/status" "${build[@]}" | grep -q '"progress":40' || fail "no progress is shown"
call POST /api/workers/heartbeat "${mine[@]}" -d "{\"build_id\":\"$id\"}" > /dev/null
call GET "/api/builds/$id/logs?limit=10" "${build[@]}" | grep -q '"message":"slow"' || fail "the log lacks a line"
[ "$(call GET "/api/builds/$id/status" "${build[@]}" | field status)" = building ] || fail "it should be building"

# The file first, as existing workers send it.
upload=(-F result=@result.ipa -F "build_id=$id" -F "worker_id=$worker" -F success=true)
call POST /api/workers/upload -H "X-Worker-Token: $token" "${upload[@]}" > /dev/null
call POST /api/workers/upload "${mine[@]}" "${upload[@]}" > /dev/null
want=409 call POST /api/workers/fail "${mine[@]}" -d "{\"build_id\":\"$id\",\"error\":\"too late\"}" > /dev/null
call GET "/api/builds/$id/download" "${build[@]}" > downloaded.ipa
cmp result.ipa downloaded.ipa || fail "the result has changed"
want=206 call GET "/api/builds/$id/download" "${build[@]}" -H 'Range: bytes=100-199' > part
cmp <(tail -c +101 result.ipa | head -c 100) part || fail "the part is another one"

retried=$(want=201 call POST "/api/builds/$id/retry" "${build[@]}")
call POST "/api/builds/$(field id <<< "$retried")/cancel" "${key[@]}" | grep -q '"status":"cancelled"' || fail "not cancelled"
call POST /api/workers/unregister "${mine[@]}" -d '{}' | grep -q '"builds_reassigned":0' || fail "nothing was held"
want=404 call GET "/api/workers/nobody/stats" "${key[@]}" > /dev/null
call GET "/api/workers/$worker/stats" "${key[@]}" | grep -q '"successfulBuilds":1' || fail "the build was not counted"
call GET /public/stats | grep -q '"totalBuilds":2' || fail "two builds: $(cat answer)"
echo "all is well"
