"""Simulate several machines on one. Each has its own addresses, processes and folder for sockets; cables with a delay
of 1 ms (two tunnel devices, because not every kernel has netem) connect the first machine with the others.

    python tests/hosts/hosts.py [--cpus 2,16] COMMAND…

The command runs on the first machine, where the head of a Ray over all machines runs (``RAY_ADDRESS``). Without a
command, a shell is opened. ``--cpus 1,4,2`` declares three machines with these numbers of CPUs; with ``1,+4`` the last
one joins later (``join``). Everything is in namespaces that end with their first process, so no process is left over.
"""

import fcntl
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
NEAR, FAR = "10.77.0.1", "10.77.0.2"
PORT = 6379
DELAY_S = 0.001
"""Of a packet, in each direction."""
SLOW_S = 0.05
FAR_PID, LAST_PID = "RECOMPOSE_FAR_PID", "RECOMPOSE_LAST_PID"
"""The process, as the command sees it, with which the far machine goes, and the last one."""
SEEN = "bytes through the cable: "
MEMORY_BYTES = 100 * 2**20
PATIENCE_S = 60.0
_NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_MTU = 65000  # few packets: a cable in Python is to be long, not slow


CPUS = (2, 16)


def address_of(machine: int) -> str:
    """Return the address of a machine; 0 is the near one."""
    return f"10.77.0.{machine + 1}"


def outside(*command: str) -> list[str]:
    """The command line that makes the near machine and runs ``command`` there; it ends with who started it."""
    return ["setpriv", "--pdeathsig", "KILL", *_NAMESPACES, sys.executable, __file__, *command]


def ran(*command: str, patience_s: float, cpus: Sequence[int | str] = CPUS) -> str:
    """What Python printed on the near one, with the bytes that went through the cables at the end."""
    return _printed(outside("--cpus", ",".join(map(str, cpus)), sys.executable, *command), patience_s)


def alone(*command: str, patience_s: float) -> str:
    """What Python printed on a machine without a Ray or a network."""
    with tempfile.TemporaryDirectory(prefix="rc") as folder:
        there = {"TMPDIR": folder, "RAY_TMPDIR": folder, "RAY_AUTH_MODE": "disabled", "PYTHONPATH": str(ROOT)}
        return _printed(["setpriv", "--pdeathsig", "KILL", *_NAMESPACES, sys.executable, *command], patience_s, there)


def _printed(line: Sequence[str], patience_s: float, there: Mapping[str, str] | None = None) -> str:
    env = {**os.environ, **(there or {})}
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=patience_s, check=False, env=env)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def why_not() -> str | None:
    """Why such machines cannot be had here, in a sentence; None: they can."""
    missing = [tool for tool in ("unshare", "setpriv", "nsenter", "ip") if shutil.which(tool) is None]
    if missing:
        return f"two machines on one need {', '.join(missing)}: make setup-net"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "two machines on one need /dev/net/tun, for the cable between them"
    tried = subprocess.run([*_NAMESPACES, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"namespaces cannot be made here: {tried.stderr.strip()}"


def inside(pid: int | str, *command: str) -> list[str]:
    """Return the command line that runs ``command`` on the machine that goes with a process."""
    return ["nsenter", "--target", str(pid), "--net", "--mount", "--pid", "--", *command]


def kill(pid: int, address: str) -> None:
    """A process of either machine, by the number that it has there; to be called on the near one."""
    os.kill(of_far(pid) if address == FAR else pid, signal.SIGKILL)


def cut(yes: bool) -> None:
    """The cable, or joins it; to be called on the near machine."""
    os.kill(1, signal.SIGUSR1 if yes else signal.SIGUSR2)


def slow(yes: bool) -> None:
    """Lengthen the last cable to 50 ms in each direction, or shorten it again; to be called on the near machine."""
    os.kill(1, signal.SIGHUP if yes else signal.SIGWINCH)


def join() -> None:
    """Have the last machine join the Ray; to be called on the near machine."""
    os.kill(1, signal.SIGURG)


def of_far(pid: int) -> int:
    """The number that the process has on the near machine, of which the far one is a part."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            here, *inside = re.findall(r"NSpid:(.*)", status.read_text())[0].split()
            if inside == [str(pid)]:
                return int(here)
    raise ProcessLookupError(f"the far machine has no process {pid}")


class Cable(threading.Thread):
    """Takes packets out of one tunnel device and puts them into the other, later."""

    def __init__(self, near: str, far: str, delay_s: float) -> None:
        super().__init__(daemon=True)
        self.passed_bytes = 0
        self.cut = False
        """What is sent meanwhile is lost, and neither end is told."""
        self.delay_s = delay_s
        ends = _tunnel(near), _tunnel(far)
        self._others = dict(zip(ends, reversed(ends), strict=True))

    def run(self) -> None:
        on_the_way: deque[tuple[float, int, bytes]] = deque()
        while True:
            wait_s = max(0.0, on_the_way[0][0] - time.monotonic()) if on_the_way else None
            ready, _, _ = select.select(list(self._others), [], [], wait_s)
            try:
                for end in ready:
                    packet = os.read(end, _MTU)
                    if not self.cut:
                        on_the_way.append((time.monotonic() + self.delay_s, self._others[end], packet))
                while on_the_way and on_the_way[0][0] <= time.monotonic():
                    _, end, packet = on_the_way.popleft()
                    self.passed_bytes += os.write(end, packet)
            except OSError:
                return  # a machine is gone, and its end of the cable


def _tunnel(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def _do(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


class Far:
    """The other machine."""

    def __init__(self, folder: str) -> None:
        hides = f"mount -t tmpfs none {folder} && mount -t tmpfs none /dev/shm && ip link set lo up && exec sleep inf"
        self._keeper = subprocess.Popen([*_NAMESPACES, "sh", "-c", hides])
        self.pid = self._first_process()

    def run(self, *command: str) -> None:
        _do(*inside(self.pid, *command))

    def _first_process(self) -> int:
        give_up_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_s:
            for child in psutil.Process(self._keeper.pid).children():
                if "sleep" in child.cmdline():
                    return child.pid
            time.sleep(0.01)
        raise TimeoutError(f"the far machine did not start within {PATIENCE_S:g} s")


def _connect(far: Far, machine: int) -> Cable:
    ends = f"near{machine}", f"far{machine}"
    cable, there = Cable(*ends, DELAY_S), address_of(machine)
    _do("ip", "link", "set", ends[1], "netns", str(far.pid))
    for do, name, own, peer in ((_do, ends[0], NEAR, there), (far.run, ends[1], there, NEAR)):
        do("ip", "address", "add", own, "peer", peer, "dev", name)
        do("ip", "link", "set", name, "up", "mtu", str(_MTU), "txqueuelen", "1000")
        if do is not _do or machine == 1:
            do("ip", "route", "add", "default", "dev", name)  # by which Ray finds an address of its own
    cable.start()
    return cable


def _ray(*options: str) -> list[str]:
    memory = f"--object-store-memory={MEMORY_BYTES}"
    return [sys.executable, "-m", "ray.scripts.scripts", "start", memory, "--disable-usage-stats", *options]


def _set_cut(cables: Sequence[Cable], yes: bool) -> None:
    for cable in cables:
        cable.cut = yes


def main() -> int:
    if os.getpid() != 1:  # it is to be the first process of a machine of its own: at the end it kills all that it sees
        os.execvp("setpriv", outside(*sys.argv[1:]))
    cpus, late, command = CPUS, False, sys.argv[1:]
    if command[:1] == ["--cpus"]:
        cpus, late, command = tuple(map(int, command[1].split(","))), "+" in command[1], command[2:]
    _do("ip", "link", "set", "lo", "up")
    with tempfile.TemporaryDirectory(prefix="rc") as folder:  # a short name: sockets are in it
        address = f"{NEAR}:{PORT}"
        os.environ.update(TMPDIR=folder, RAY_TMPDIR=folder, RAY_AUTH_MODE="disabled", RAY_worker_niceness="0")
        os.environ["PYTHONPATH"] = f"{ROOT}:{ROOT / 'tests' / 'contract'}"
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # far machines reach each other by the near one
        fars = [Far(folder) for _ in cpus[1:]]
        cables = [_connect(far, machine) for machine, far in enumerate(fars, 1)]
        signal.signal(signal.SIGUSR1, lambda *_: _set_cut(cables, True))
        signal.signal(signal.SIGUSR2, lambda *_: _set_cut(cables, False))
        signal.signal(signal.SIGHUP, lambda *_: setattr(cables[-1], "delay_s", SLOW_S))
        signal.signal(signal.SIGWINCH, lambda *_: setattr(cables[-1], "delay_s", DELAY_S))
        head = "--head", f"--port={PORT}", "--include-dashboard=false"
        _do(*_ray(*head, f"--node-ip-address={NEAR}", f"--num-cpus={cpus[0]}"))
        joins = [
            _ray(f"--address={address}", f"--node-ip-address={address_of(at)}", f"--num-cpus={cpus[at]}")
            for at in range(1, len(cpus))
        ]
        for far, line in zip(fars[: -1 if late else None], joins, strict=False):
            far.run(*line)
        signal.signal(signal.SIGURG, lambda *_: fars[-1].run(*joins[-1]))
        there = {**os.environ, "RAY_ADDRESS": address, FAR_PID: str(fars[0].pid), LAST_PID: str(fars[-1].pid)}
        ended = subprocess.run(command or ["bash"], env=there, check=False).returncode
        print(f"{SEEN}{sum(cable.passed_bytes for cable in cables)}", flush=True)
        for process in psutil.process_iter():
            if process.pid != os.getpid():
                process.send_signal(signal.SIGKILL)
    return ended


if __name__ == "__main__":
    sys.exit(main())
