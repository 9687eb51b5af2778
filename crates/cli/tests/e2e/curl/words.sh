# Sourced by the scripts of this directory. They want URL, KEY and an empty directory as their first argument.
set -euo pipefail
cd "$1"
fail() { echo "FAILED: $*" >&2; exit 1; }
# call METHOD PATH [curl options]: the body goes to standard output, and the status must be the one in $want (200).
want=200
call() {
  local method=$1 path=$2 status
  shift 2
  status=$(curl -sS -o answer -w '%{http_code}' -X "$method" "$URL$path" "$@") || fail "curl $method $path"
  [ "$status" = "$want" ] || fail "$method $path: $status instead of $want: $(head -c 300 answer)"
  cat answer
}
# field NAME: a text field of the JSON on standard input.
field() { sed -E "s/.*\"$1\":\"([^\"]*)\".*/\1/"; }
