from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from meshnet.kernel import run as room
from meshnet.model.errors import NOT_HERE, MissingToolError, ToolError


def descriptors():
    return sorted(Path("/proc/self/fd").iterdir())


def own_children():
    return Path("/proc/thread-self/children").read_text()


def test_the_streams_and_the_status_come_back():
    ran = room.run(["sh", "-c", "cat; echo bad >&2; exit 3"], text="hello ü\n")
    assert (ran.code, ran.out, ran.err, ran.ok) == (3, "hello ü\n", "bad\n", False)
    assert ran.argv[0] == "sh"


def test_tens_of_megabytes_on_both_streams_dont_lock_up():
    size = 20_000_000
    ran = room.run(["sh", "-c", f"head -c {size} /dev/zero >&2; head -c {size} /dev/zero; cat"], text="x" * size)
    assert (len(ran.out), len(ran.err)) == (2 * size, size)


def test_nothing_stays_open_or_unreaped():
    before, children = descriptors(), own_children()
    room.run(["true"])
    with pytest.raises(ToolError):
        room.run(["sleep", "60"], timeout=0.05)
    with room.start(["sleep", "60"]):
        pass
    assert (descriptors(), own_children()) == (before, children)


def test_the_bound_is_kept_and_said():
    begun = time.monotonic()
    with pytest.raises(ToolError, match=r"sleep did not end within 0\.2 s"):
        room.run(["sleep", "60"], timeout=0.2)
    assert time.monotonic() - begun < 5


def test_two_run_side_by_side():
    begun = time.monotonic()
    both = [room.start(["sleep", "0.4"]) for _ in range(2)]
    assert all(started.wait().ok for started in both)
    assert time.monotonic() - begun < 0.75


def test_a_signal_is_a_negative_status():
    assert room.run(["sh", "-c", "kill -9 $$"]).code == -9


def test_a_missing_program_names_its_package():
    with pytest.raises(MissingToolError) as caught:
        room.run(["ip6tables-nft-nosuch"])
    assert caught.value.exit_code == NOT_HERE
    assert caught.value.hint == "apt-get install iptables"
    assert room.package_of("/usr/sbin/nft") == "nftables"
    assert room.package_of("ipset") == "ipset"


def test_sbin_is_looked_into_without_being_in_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(room, "SBIN", (str(tmp_path / "sbin"),))
    (tmp_path / "sbin").mkdir()
    tool = tmp_path / "sbin" / "tool"
    tool.write_text("#!/bin/sh\n")
    assert room.find("tool") is None
    tool.chmod(0o755)
    assert room.find("tool") == str(tool)
    assert room.find("sbin") is None
    assert room.find(str(tool)) == str(tool)
    assert room.find("/no/such/tool") is None


def test_a_file_that_is_no_program_is_a_tool_error(tmp_path):
    tool = tmp_path / "tool"
    tool.write_bytes(b"\x7fELF nonsense")
    tool.chmod(0o755)
    with pytest.raises(ToolError, match="can't start"):
        room.run([str(tool)])


def test_bytes_that_are_no_text_are_replaced():
    assert room.run(["printf", r"\377"]).out == "\ufffd"


def test_the_environment_is_plain(monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert room.run(["sh", "-c", "echo $LC_ALL $MORE"], env={"MORE": "more"}).out == "C more\n"


def test_only_named_descriptors_are_inherited():
    fd = os.memfd_create("kept")
    try:
        assert not room.run(["test", "-e", f"/proc/self/fd/{fd}"]).ok
        assert room.run(["test", "-e", f"/proc/self/fd/{fd}"], keep_fds=(fd,)).ok
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


def test_ignored_pipe_signals_are_not_handed_on():
    ran = room.run(["grep", "SigIgn", "/proc/self/status"])
    assert int(ran.out.split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0


def test_it_works_with_the_standard_streams_closed():
    program = (
        "import os; [os.close(n) for n in (0, 1, 2)]\n"
        "from meshnet.kernel.run import run\n"
        "ran = run(['sh', '-c', 'cat; echo e >&2'], text='t')\n"
        "os._exit(7 if (ran.out, ran.err) == ('t', 'e\\n') else 1)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 7


def test_an_ignored_sigchld_is_said_in_words():
    program = (
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from meshnet.kernel.run import run\n"
        "from meshnet.model.errors import ToolError\n"
        "try: run(['true'])\n"
        "except ToolError as error: print(error.message)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "the exit status of true is lost\n"


def test_ctrl_c_ends_and_reaps_the_child(tmp_path):
    note = tmp_path / "pid"
    program = (
        "import os, sys\n"
        "from meshnet.kernel.run import run\n"
        "try: run(['sh', '-c', \"trap '' INT; echo $$ > $0.new; mv $0.new $0; exec sleep 60\", sys.argv[1]])\n"
        "except KeyboardInterrupt:\n"
        "    try: os.waitpid(-1, 0)\n"
        "    except ChildProcessError: sys.exit(5)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(note)], start_new_session=True)
    deadline = time.monotonic() + 20
    while not note.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.wait(10) == 5
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
