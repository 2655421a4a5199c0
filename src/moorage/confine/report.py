"""What confinement enforces and what it does not, for a kernel: the honest list.

Pure. ``not_enforced`` goes into every result of a confined command; ``doctor`` shows the sentences.
"""

from __future__ import annotations

from moorage.confine.plan import MINIMUM_ABI

GAPS: dict[str, str] = {
    "path_sockets": "A Unix socket that has a path outside can be connected to; Landlock cannot "
    "close it. The variables that name such sockets are removed.",
    "file_attributes": "Mode, owner, times and extended attributes of files outside can be changed "
    "by whoever owns them, and by root; their content cannot.",
    "file_names": "Names, sizes and times of hidden files can be seen; their content cannot.",
    "process_list": "The list of processes and their arguments can be seen; their memory, "
    "descriptors and variables cannot.",
    "same_plan": "Commands of one plan can signal and inspect each other. They cannot inspect "
    "their launcher, but they can end it, and with it every command of the plan.",
    "network": "The network is open.",
    "resources": "Memory, processor time and the number of processes are not limited, and priority "
    "and processors of the user's other processes can be changed.",
    "system_v_ipc": "System V shared memory and message queues, and POSIX queues, are open.",
    "unfiltered_calls": "System calls are not filtered on this kind of machine: limits of the "
    "user's other processes can be set (prlimit), and the kernel's keyrings be used.",
    "device_ioctl": "Control calls on devices that can be opened are not closed (Landlock ABI 5).",
    "signals": "Processes outside can be signalled (Landlock ABI 6).",
    "abstract_sockets": "Unix sockets outside without a path can be connected to (Landlock ABI 6).",
    "provider": "The provider that the user configured confines commands. Moorage takes its word "
    "for it and knows nothing of what it leaves open.",
}
"""Every gap by its stable word, with the sentence for a person."""

_ALWAYS = (
    "path_sockets",
    "file_attributes",
    "file_names",
    "process_list",
    "same_plan",
    "network",
    "resources",
    "system_v_ipc",
)
_CLOSED_FROM = {"device_ioctl": 5, "signals": 6, "abstract_sockets": 6}


def not_enforced(
    abi: int, platform: str = "linux", *, are_calls_filtered: bool = True
) -> tuple[str, ...]:
    """Return the gaps of a command that the kernel confines, as words of ``GAPS``.

    Empty where restricted modes refuse altogether: nothing runs that could use a gap.
    """
    if platform != "linux" or abi < MINIMUM_ABI:
        return ()
    unfiltered = () if are_calls_filtered else ("unfiltered_calls",)
    older = (gap for gap, closed_from in _CLOSED_FROM.items() if abi < closed_from)
    return (*_ALWAYS, *unfiltered, *older)


NOT_ENFORCED_BY_A_PROVIDER = ("provider",)
"""The gaps where the user's own provider confines: only the user knows them."""


def sentences(gaps: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sentences of gaps, for a person."""
    return tuple(GAPS[gap] for gap in gaps)
