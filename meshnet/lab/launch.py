"""The last step before a real server: its files, its identity, its bounds, and that it ends with the lab.

``python -I -S launch.py <folder of the package> '<told as JSON>'`` turns into the server by exec. A program of its
own, since the lab may have threads, and what runs between fork and exec must then be next to nothing.
"""

import json
import os
import resource
import sys

sys.path.insert(0, sys.argv[1])

from meshnet.kernel.mounts import SHARED_MEMORY, private_shared_memory
from meshnet.sidecar.privilege import become, die_with_parent, hand_on

CANNOT = 3


def main(told: dict) -> None:  # type: ignore[type-arg]
    """Become what is told; comes back only by an exception."""
    private_shared_memory()
    for name, text in told["files"].items():
        path = os.path.join(SHARED_MEMORY, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    os.chdir(SHARED_MEMORY)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = told["files_open"] if hard == resource.RLIM_INFINITY else min(told["files_open"], hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    for folder in told["folders"]:
        os.makedirs(os.path.join(SHARED_MEMORY, folder), exist_ok=True)
        os.chown(os.path.join(SHARED_MEMORY, folder), -1 if told["uid"] is None else told["uid"], -1)
    become(told["uid"], told["gid"], told["capabilities"])
    hand_on(told["capabilities"])
    die_with_parent()
    if os.getppid() != told["parent"]:
        sys.exit("the lab is gone")  # it ended before the line above: nobody would end this server
    os.execv(told["argv"][0], told["argv"])  # noqa: S606


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[2]))
    except OSError as error:
        print(f"can't start: {error}", file=sys.stderr)
        sys.exit(CANNOT)
