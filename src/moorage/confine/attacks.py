"""The attacks that ``doctor`` lets a confined command try, as texts of small programs.

Each runs for real, in a child of a real launcher. What it may have reached is judged from outside:
changed files, a victim that heard something, a connection that arrived, the secret in its output.
"""

from __future__ import annotations

from typing import NamedTuple

from moorage.policy.permission import PermissionMode

BREACH = "BREACH"
"""What an attack prints where only itself can know that it succeeded."""

PRELUDE = f"""
import ctypes, fcntl, os, signal, socket, struct, sys
inside, outside, hidden, terminal, abstract, victim, secret_name = sys.argv[1:]
victim, launcher = int(victim), os.getppid()
libc = ctypes.CDLL(None, use_errno=True)
def attempt(action, *arguments):
    try:
        return action(*arguments)
    except OSError as error:
        print(error, file=sys.stderr)
def write(path):
    with open(path, "w") as file:
        file.write("breached")
def show(path):
    with open(path, "rb") as file:
        sys.stdout.buffer.write(file.read(65536))
def call(function, *arguments):
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    print("{BREACH}")
def inspect(pid):
    attempt(show, f"/proc/{{pid}}/environ")
    attempt(lambda: (open(f"/proc/{{pid}}/mem", "r+b"), print("{BREACH}")))
    attempt(lambda: (os.readlink(f"/proc/{{pid}}/fd/0"), print("{BREACH}")))
    attempt(lambda: (os.open(f"/proc/{{pid}}/fd/1", os.O_WRONLY), print("{BREACH}")))
    attempt(call, libc.ptrace, 0x4206, pid, None, None)
def inject(path, flags):
    terminal = os.open(path, flags)
    for letter in b"breached\\n":
        fcntl.ioctl(terminal, 0x5412, bytes([letter]))
    print("{BREACH}")
def take_socket(pid):
    handle = os.pidfd_open(pid)
    for number in range(32):
        attempt(call, libc.syscall, 438, handle, number, 0)
"""


class Attack(NamedTuple):
    """One attack; ``gap`` is the word of ``report.GAPS`` that owns up to it, if one does."""

    name: str
    code: str
    gap: str = ""
    mode: PermissionMode = PermissionMode.STANDARD


ATTACKS = (
    Attack("write a file outside", 'attempt(write, f"{outside}/new")'),
    Attack("make a folder outside", 'attempt(os.mkdir, f"{outside}/folder")'),
    Attack(
        "write through a symlink",
        'os.symlink(f"{outside}/file", f"{inside}/link"); attempt(write, f"{inside}/link")\n'
        'os.symlink(outside, f"{inside}/way"); attempt(write, f"{inside}/way/new")',
    ),
    Attack(
        "write through /proc/<pid>/root and cwd",
        "for pid in ('self', launcher, victim, 1):\n"
        '    attempt(write, f"/proc/{pid}/root{outside}/new")\n'
        '    attempt(write, f"/proc/{pid}/cwd{outside}/new")',
    ),
    Attack(
        "write through /proc/self/fd",
        "held = os.open(outside, os.O_PATH)\n"
        'attempt(write, f"/proc/self/fd/{held}/new")\n'
        'held = os.open(f"{outside}/file", os.O_RDONLY)\n'
        'attempt(write, f"/proc/self/fd/{held}")',
    ),
    Attack(
        "cut off a file outside",
        'attempt(os.truncate, f"{outside}/file", 0)\n'
        'attempt(os.open, f"{outside}/file", os.O_RDONLY | os.O_TRUNC)',
    ),
    Attack("remove a file outside", 'attempt(os.unlink, f"{outside}/file")'),
    Attack(
        "rename across the boundary",
        'write(f"{inside}/mine"); attempt(os.rename, f"{inside}/mine", f"{outside}/mine")\n'
        'attempt(os.rename, f"{outside}/file", f"{inside}/stolen")',
    ),
    Attack(
        "hard link across the boundary",
        'attempt(os.link, f"{outside}/file", f"{inside}/link"); attempt(write, f"{inside}/link")\n'
        'write(f"{inside}/own"); attempt(os.link, f"{inside}/own", f"{outside}/link")',
    ),
    Attack(
        "make a device node",
        'attempt(lambda: (os.mknod(f"{inside}/disk", 0o060666, os.makedev(8, 0)), '
        f'print("{BREACH}")))\n'
        'attempt(lambda: (os.mknod(f"{inside}/memory", 0o020666, os.makedev(1, 1)), '
        f'print("{BREACH}")))',
    ),
    Attack(
        "mount something over the workspace",
        "libc.unshare(0x10000000 | 0x00020000)\n"
        'attempt(call, libc.mount, b"none", inside.encode(), b"tmpfs", 0, None)',
    ),
    Attack(
        "change a setting of the kernel",
        'path = "/proc/sys/kernel/core_pattern"\n'
        'attempt(lambda: (open(path, "r+b"), print("' + BREACH + '")))',
    ),
    Attack("read Moorage's home", 'attempt(show, f"{hidden}/{secret_name}")'),
    Attack(
        "read Moorage's home by another way",
        'os.symlink(hidden, f"{inside}/home"); attempt(show, f"{inside}/home/{secret_name}")\n'
        "attempt(os.chdir, hidden); attempt(show, secret_name)\n"
        'attempt(show, f"/proc/self/root{hidden}/{secret_name}")\n'
        'attempt(os.link, f"{hidden}/{secret_name}", f"{inside}/s"); attempt(show, f"{inside}/s")',
    ),
    Attack(
        "read the disk beneath the files",
        "device = os.stat(hidden).st_dev\n"
        "name = f'/sys/dev/block/{os.major(device)}:{os.minor(device)}/uevent'\n"
        "lines = (attempt(open, name) or ())\n"
        "disks = [line[8:].strip() for line in lines if line.startswith('DEVNAME=')]\n"
        "for disk in disks or ['vda', 'sda', 'nvme0n1']:\n"
        "    attempt(lambda: (os.open(f'/dev/{disk}', os.O_RDONLY), print('" + BREACH + "')))",
    ),
    Attack("inspect another process", "inspect(victim)"),
    Attack("inspect the launcher", "inspect(launcher)"),
    Attack("take the launcher's socket", "take_socket(launcher)"),
    Attack(
        "signal a process outside",
        f"attempt(lambda: (os.kill(victim, signal.SIGKILL), print('{BREACH}')))",
        "signals",
    ),
    Attack(
        "set the limits of a process outside",
        "import resource\n"
        "for limit in (resource.RLIMIT_CORE, resource.RLIMIT_CPU):\n"
        f"    attempt(lambda: (resource.prlimit(victim, limit, (0, 0)), print('{BREACH}')))",
        "unfiltered_calls",
    ),
    Attack(
        "use the keyrings of the kernel",
        # Ask for the keyring of the user, and make a key in it.
        "numbers = {'x86_64': (250, 248)}.get(os.uname().machine, (219, 217))\n"
        "attempt(call, libc.syscall, numbers[0], 0, -4, 1)\n"
        "attempt(call, libc.syscall, numbers[1], b'user', b'moorage-selftest', b'x', 1, -4)",
        "unfiltered_calls",
    ),
    Attack(
        "connect to an abstract socket outside",
        'attempt(socket.socket(socket.AF_UNIX).connect, "\\0" + abstract)',
        "abstract_sockets",
    ),
    Attack(
        "connect to a path socket outside",
        # From inside the folder: the whole path may be longer than a socket's address can be.
        'os.chdir(outside)\nattempt(socket.socket(socket.AF_UNIX).connect, "socket")',
        "path_sockets",
    ),
    Attack(
        "type into another terminal (TIOCSTI)",
        "for path in (terminal, '/dev/tty'):\n"
        "    for flags in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY):\n"
        "        attempt(inject, path, flags)",
    ),
    Attack(
        "read what is typed into another terminal",
        "attempt(lambda: (os.open(terminal, os.O_RDONLY | os.O_NOCTTY), print('" + BREACH + "')))",
    ),
    Attack(
        "control a device",
        'device = os.open("/dev/urandom", os.O_RDONLY)\n'
        "attempt(lambda: (fcntl.ioctl(device, 0x80045200, bytes(4)), print('" + BREACH + "')))",
        "device_ioctl",
    ),
    Attack(
        "change the mode or owner of a file outside",
        'attempt(os.chmod, f"{outside}/file", 0o777)\n'
        'attempt(os.chown, f"{outside}/file", 12345, 12345)',
        "file_attributes",
    ),
    Attack(
        "keep a dangerous capability",
        'lines = open("/proc/self/status").read().splitlines()\n'
        'held = [int(line.split()[1], 16) for line in lines if line[:6] in ("CapPrm", "CapEff")]\n'
        'if any(mask & ~{kept} for mask in held): print("' + BREACH + '")',
    ),
    Attack(
        "write in the workspace under read_only",
        'attempt(write, f"{inside}/new"); attempt(os.unlink, f"{inside}/file")\n'
        'attempt(os.truncate, f"{inside}/file", 0); attempt(os.mkdir, f"{inside}/folder")',
        mode=PermissionMode.READ_ONLY,
    ),
)
