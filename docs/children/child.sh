#!/bin/sh
# Asks whoever serves SESSION for leave to run COMMAND: child.sh SPOOL SESSION COMMAND [SECONDS]
# Prints and exits with: approved 0, denied 1, nobody ruled 3; wrong usage 2, interrupted 130. It runs nothing itself.
set -u
umask 077
export LC_ALL=C
usage() { echo "$1, usage: child.sh SPOOL SESSION COMMAND [SECONDS]" >&2; exit 2; }
nobody() { echo "nobody ruled: $1"; exit 3; }
[ $# -ge 3 ] || usage "too few arguments"
spool=$1 session=$2 command=$3 seconds=${4:-600}
case $session in ''|.|..|*[!A-Za-z0-9._-]*) usage "this script takes plain session ids only" ;; esac
case $seconds in 0*|*[!0-9]*) usage "SECONDS is a whole number" ;; esac
# A pinned key means that only sealed answers count, and this script cannot check a seal.
[ -z "${ASKRELAY_SERVING_KEY-}" ] || nobody "a key is pinned, use \`askrelay ask\`"

escaped() { # any bytes, as the inside of a JSON string
  for byte in $(printf %s "$1" | od -An -v -to1); do
    case $byte in 0[0-3]?|042|045|134|177) printf '\\u%04x' "0$byte" ;; *) printf "\\$byte" ;; esac
  done
}
id=sh-$(od -An -v -N16 -tx1 /dev/urandom | tr -d ' \n')
root=$spool/sessions/$session request=requests/$id.json response=responses/$id.json why="no answer within $seconds s"
body=$(printf '{"id":"%s","createdAt":%s000,"requesterSessionId":"%s","targetSessionId":"%s","requesterAgentName":"%s",' \
  "$id" "$(date +%s)" "$(escaped "${ASKRELAY_SESSION:-$id}")" "$session" "$(escaped "${ASKRELAY_AGENT:-unknown}")"
  printf '"source":"tool_call","surface":"bash","value":"%s","relay":{"v":1,"timeoutMs":%s000}}' "$(escaped "$command")" "$seconds")
tidy() { # the files, then the directories that nobody else uses
  rm -f "$root/$request" "$root/$request.tmp" "$root/$response"
  rmdir "$root/requests" 2>/dev/null && rmdir "$root/responses" "$root" 2>/dev/null
}
trap 'tidy; exit 130' INT TERM
tries=0 # another child may remove the directories, empty as they are, before the file is in them
until mkdir -p "$root/requests" "$root/responses" && printf %s "$body" >"$root/$request.tmp" &&
  mv "$root/$request.tmp" "$root/$request"; do
  tries=$((tries + 1))
  [ $tries -lt 50 ] || { tidy; nobody "the request cannot be written"; }
done 2>/dev/null

# Five looks a second. No clock is compared with another process's, only whether the heartbeat still changes: it is given
# two seconds when it is absent, and five more when it is there but stands still.
looks=0 unchanged=0 seen=
while [ ! -e "$root/$response" ] && [ $looks -lt $((seconds * 5)) ]; do
  beat=$(cat "$spool/serving/$session.json" 2>/dev/null)
  if [ -n "$beat" ]; then patience=35; else patience=10; fi
  if [ -n "$beat" ] && [ "$beat" != "$seen" ]; then unchanged=0; else unchanged=$((unchanged + 1)); fi
  [ $unchanged -lt $patience ] || { why="session $session is not served"; break; }
  seen=$beat looks=$((looks + 1))
  sleep 0.2
done
answer=$(head -c 262144 "$root/$response" 2>/dev/null)
tidy
# Inside a string every quote is escaped, so no pattern can match there. What fits none of them is no answer.
case $answer in
  '') nobody "$why" ;;
  *'"approved":'*'"approved":'*|*[!}]) nobody "the answer cannot be used" ;;
  '{"approved":true,"state":"approved","responderSessionId":"'"$session"'",'*) echo approved; exit 0 ;;
  '{"approved":true,"state":"approved_for_session","responderSessionId":"'"$session"'",'*) echo approved; exit 0 ;;
  '{"approved":false,'*'"kind":"unavailable"'*|'{"approved":false,'*'"kind":"gate_error"'*) nobody "the session could not ask" ;;
  '{"approved":false,"state":"denied'*'"responderSessionId":"'"$session"'",'*) echo denied; exit 1 ;;
  *) nobody "the answer cannot be used" ;;
esac
