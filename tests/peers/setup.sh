#!/bin/sh
# Installs the peer and builds the drivers that `cargo test --test peers` runs. Does nothing when all of it is there.
set -eu
cd "$(dirname "$0")"

fail() {
  echo "tests/peers/setup.sh: $1" >&2
  exit 1
}

command -v node >/dev/null 2>&1 || fail "node is missing. hint: install node 20 or newer, then run this again"
major=$(node -p 'process.versions.node.split(".")[0]')
[ "$major" -ge 20 ] || fail "node $(node -v) is too old. hint: install node 20 or newer, then run this again"

installs=$(cat package.json package-lock.json .npmrc | sha256sum | cut -c1-64)
builds=$(cat package-lock.json build.mjs drivers/*.ts drivers/host/*.ts | sha256sum | cut -c1-64)

if [ "$(cat node_modules/.installed 2>/dev/null)" != "$installs" ]; then
  command -v npm >/dev/null 2>&1 || fail "npm is missing. hint: install npm (it comes with node), then run this again"
  npm ci --loglevel=error || fail "npm could not install the peer. hint: see npm's message above"
  echo "$installs" >node_modules/.installed
  rm -f dist/.built
fi

if [ "$(cat dist/.built 2>/dev/null)" != "$builds" ]; then
  rm -rf dist
  node build.mjs || fail "the drivers did not build. hint: see the bundler's message above"
  echo "$builds" >dist/.built
fi
