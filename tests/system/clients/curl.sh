#!/usr/bin/env bash
# curl.sh - The commands of the documentation, by curl.
set -euo pipefail

passed=0
chat=$SLUICE_URL/v1/chat/completions
body='{"model":"tiny-hybrid","max_tokens":8,"temperature":0,
       "messages":[{"role":"user","content":"Tell a story."}]}'
streamed=${body/"{"/"{\"stream\":true,"}

fail()
{
    echo "FAILED: $*" >&2
    exit 1
}

# check NAME REGEX TEXT
check()
{
    [[ $3 =~ $2 ]] || fail "$1: \"$3\" does not match \"$2\""
    passed=$((passed + 1))
    echo "ok $1"
}

check 'chat' '"object": ?"chat.completion"' "$(curl -fsS "$chat" -d "$body")"
check 'stream' 'data: \[DONE\]' "$(curl -fsSN "$chat" -d "$streamed")"
check 'models' '"tiny-hybrid"' "$(curl -fsS "$SLUICE_URL/v1/models")"
check 'health' '200' \
    "$(curl -sS -o /dev/null -w '%{http_code}' "$SLUICE_URL/health")"
check 'HEAD' 'HTTP/1.1 200' "$(curl -fsSI "$SLUICE_URL/v1/models")"
check 'Expect: 100-continue' '"choices"' \
    "$(curl -fsS -H 'Expect: 100-continue' "$chat" -d "$body")"
check 'chunked body' '"choices"' \
    "$(curl -fsS -H 'Transfer-Encoding: chunked' "$chat" -d "$body")"
check 'HTTP/1.0' '"choices"' "$(curl -fsS0 "$chat" -d "$body")"
check 'HTTP/1.0 stream' 'data: \[DONE\]' "$(curl -fsSN0 "$chat" -d "$streamed")"
check 'two requests on one connection' '"choices".*"choices"' \
    "$(curl -fsS "$chat" "$chat" -d "$body")"
check 'no key' '401' "$(curl -sS -o /dev/null -w '%{http_code}' \
    "$SLUICE_KEYED_URL/v1/chat/completions" -d "$body")"
check 'key' '"choices"' "$(curl -fsS -H "Authorization: Bearer $SLUICE_API_KEY" \
    "$SLUICE_KEYED_URL/v1/chat/completions" -d "$body")"
echo "curl: $passed passed, 0 failed"
