#!/usr/bin/env bash
# Run a command where it is alone: with its own processes, network, /run and /dev/shm. So whatever it leaves behind
# shows, and nobody else's does. Prints what differs afterwards and ends with 9 then; else as the command did.
#   alone.sh [--signal NAME --when PATTERN] COMMAND...   the signal goes to the command once
# a process of PATTERN runs; write one letter as [x], since this command line has the pattern in it
set -uo pipefail

if [ "${MESHNET_ALONE:-}" != yes ]; then
    exec env MESHNET_ALONE=yes unshare --mount --net --pid --fork --kill-child --mount-proc bash "$0" "$@"
fi
signal='' pattern=''
while [ "${1:-}" = --signal ] || [ "${1:-}" = --when ]; do
    if [ "$1" = --signal ]; then signal=$2; else pattern=$2; fi
    shift 2
done
mount --make-rprivate /
mount -t tmpfs none /run
mkdir /run/netns # stays on every host that ever had a named namespace
mount -t tmpfs none /dev/shm
ip link set lo up
# looked at once ahead of the comparison: what looking itself creates is then there already
state() {
    find /run /dev/shm | sort
    ip netns list
    for family in -4 -6; do
        ip "$family" -o address | grep -v tentative
        ip "$family" rule
        ip "$family" route show table all
    done
    ip -o link | sed 's/ state .*//'
    sysctl -a 2>/dev/null | grep -E '^(net|kernel\.yama)\.' | grep -vE 'conntrack_count|conntrack_(max|buckets)|\.(ns_)?time'
    nft list ruleset
    iptables-legacy-save | grep -v '^#'
}
state >/dev/null
# What runs, apart from this script, which is process 1 here, and its tools. Orphans become its children.
running() {
    ps -eo stat=,pid=,args= | awk '$1 !~ /^Z/ && $2 != 1' | grep -vE ' (ps -eo|awk |grep -v|bash [^ ]*alone\.sh)' || true
}
before=$(state)
note=$(mktemp)
(
    set -m
    "$@" &
    echo $! >"$note"
    wait $!
) &
shell=$!
if [ -n "$signal" ]; then
    for _ in $(seq 600); do
        pgrep -f -- "$pattern" >/dev/null && break
        sleep 0.05
    done
    pgrep -f -- "$pattern" >/dev/null || echo "alone: nothing of $pattern ever ran" >&2
    case $signal in
    KILL) kill -KILL "$(cat "$note")" ;;          # as the kernel's memory killer does: this process alone
    *) kill "-$signal" -- "-$(cat "$note")" ;;    # as a terminal does: the whole group
    esac
fi
wait "$shell"
code=$?
rm -f "$note"
end=$((SECONDS + ${MESHNET_ALONE_PATIENCE:-10}))
while [ "$SECONDS" -lt "$end" ]; do # a killed server is gone a moment after its parent
    after=$(state)
    left=$(running)
    [ "$before" = "$after" ] && [ -z "$left" ] && exit "$code"
    sleep 0.1
done
echo "alone: left behind:" >&2
diff <(echo "$before") <(echo "$after") >&2
echo "$left" >&2
exit 9
