#!/bin/sh
# Installs the coding agents that `cargo test --test peers` drives, each in the version that its lock file pins, into a cache
# outside the tree.
#
#   clients.sh install NAME…   does nothing where all of it is there
#   clients.sh where NAME      prints what to run, a word in each line
#
# The cache is $ASKRELAY_PEERS_CACHE, or askrelay-peers in the user's cache directory. An install is made beside its place and
# moved there when it is whole, under a name that says what it was made from. Old ones stay: remove the cache to be rid of them.
set -eu
cd "$(dirname "$0")"

cache=${ASKRELAY_PEERS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/askrelay-peers}

fail() {
  echo "tests/peers/clients.sh: $1" >&2
  exit 1
}

# What of a package is run. The vendors' launchers are passed over where they only look for the program for this machine.
program() {
  case $1 in
    claude-code) echo '@anthropic-ai/claude-code-linux-*/claude' ;;
    codex) echo '@openai/codex-linux-*/vendor/*/bin/codex' ;;
    opencode) echo 'opencode-linux-*/bin/opencode' ;;
    node) echo 'node-linux-*/bin/node' ;;
    gemini) echo '@google/gemini-cli/bundle/gemini.js' ;;
    pi) echo '@earendil-works/pi-coding-agent/dist/bundle/cli.js' ;;
    claude-agent-acp | codex-acp) echo "@agentclientprotocol/$1/dist/index.js" ;;
    *) fail "there is no client \"$1\". hint: they are $(echo clients/*/ | sed 's,clients/,,g; s,/,,g')" ;;
  esac
}

# The version of node, from its major number on, that a client needs; empty where it needs none.
needs_node() {
  case $1 in
    gemini) echo 20.0 ;;
    pi) echo 22.19 ;;
    claude-agent-acp | codex-acp) echo 22.0 ;;
  esac
}

# Whether the node of this machine is as new as that.
node_is() {
  command -v node >/dev/null 2>&1 || return 1
  node -e 'const [have, want] = process.argv.slice(1).map((v) => v.split(".").map(Number));
           process.exit(have[0] > want[0] || (have[0] === want[0] && have[1] >= want[1]) ? 0 : 1)' \
    -- "$(node -p process.versions.node)" "$1"
}

# The directory of an install.
place() {
  made_from=$(cat "clients/$1/package.json" "clients/$1/package-lock.json" .npmrc | sha256sum | cut -c1-16)
  echo "$cache/$1-$made_from"
}

# The file that is run. Nothing where it is not there.
runs() {
  for path in "$2"/node_modules/$(program "$1"); do
    if [ -s "$path" ]; then
      echo "$path"
      return
    fi
  done
}

install() {
  program "$1" >/dev/null
  place=$(place "$1")
  need=$(needs_node "$1")
  if [ -n "$need" ] && ! node_is "$need"; then
    (install node)
  fi
  if [ -n "$(runs "$1" "$place")" ]; then
    return
  fi
  command -v npm >/dev/null 2>&1 || fail "npm is missing. hint: install node 20 or newer and npm, then run this again"
  mkdir -p "$cache" || fail "$cache cannot be made. hint: name another directory in ASKRELAY_PEERS_CACHE"
  half=$(mktemp -d "$cache/.$1.XXXXXX")
  trap 'rm -rf "$half"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  cp "clients/$1/package.json" "clients/$1/package-lock.json" .npmrc "$half"
  echo "installing $1 into $place" >&2
  # The version of node that npm itself runs on is no matter: what a client needs is seen to above.
  (cd "$half" && npm ci --loglevel=error --fetch-retries=2 --fetch-retry-mintimeout=2000 --fetch-retry-maxtimeout=5000) ||
    fail "npm could not install $1. hint: see npm's message above. Where no package registry can be reached, copy $cache from a
      machine that reaches one"
  [ -n "$(runs "$1" "$half")" ] ||
    fail "what npm installed of $1 has no $(program "$1"). hint: the versions in tests/peers/clients/$1 have none for $(uname -sm)"
  # Another run may have been faster, and one that was damaged goes.
  if [ -z "$(runs "$1" "$place")" ]; then
    rm -rf "$place"
    mv "$half" "$place"
  fi
  rm -rf "$half"
  trap - EXIT INT TERM
}

where() {
  program "$1" >/dev/null
  path=$(runs "$1" "$(place "$1")")
  [ -n "$path" ] || fail "$1 is not installed. hint: run tests/peers/run, with --all for more than Claude Code and Codex"
  need=$(needs_node "$1")
  if [ -n "$need" ]; then
    if node_is "$need"; then command -v node; else (where node); fi
  fi
  echo "$path"
}

case ${1:-} in
  install)
    shift
    for name in "$@"; do
      (install "$name")
    done
    ;;
  where) where "${2:?the name of a client}" ;;
  *) fail "hint: clients.sh install NAME…, or clients.sh where NAME" ;;
esac
