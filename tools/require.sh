#!/bin/sh
# Makes sure that a system package is there: tools/require.sh <file or command> <package>
# Installs it where that is possible without asking; else says what to run.
set -eu

if [ -e "$1" ] || command -v "$1" >/dev/null 2>&1; then
  exit 0
fi
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$2" >/dev/null
  exit 0
fi
echo "$1 is missing. Run: sudo apt-get install $2" >&2
exit 1
