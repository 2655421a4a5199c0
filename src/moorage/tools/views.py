"""What a model reads of a command: its output as a terminal would show it, within a budget. Pure.

A command that succeeded and whose output is all there is shown as that output and nothing else.
"""

from __future__ import annotations

import msgspec

from moorage.process.capture import StreamCapture
from moorage.process.output import Cleaned, clean, clip_lines, token_count

NO_OUTPUT = "(no output)"


class ViewLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a command's output is shown."""

    excerpt_head_bytes: int = 4 * 1024
    excerpt_tail_bytes: int = 8 * 1024
    """What is shown of a stream that is cut."""

    combined_bytes: int = 30 * 1024
    """Up to this both streams are shown whole, however long either is."""

    budget_tokens: int = 8192


class Combined(msgspec.Struct, frozen=True):
    """Both streams as data: whole, or an excerpt of each."""

    stdout: bytes
    stderr: bytes
    is_cut: bool

    def join(self) -> bytes:
        """Return stdout, then stderr on a line of its own."""
        gap = b"\n" if self.stdout and self.stderr and not self.stdout.endswith(b"\n") else b""
        return self.stdout + gap + self.stderr


class OutputView(msgspec.Struct, frozen=True):
    """Both streams as text, cleaned and not yet clipped."""

    stdout: str
    stderr: str
    is_cut: bool
    redraws: int

    def fits(self, limits: ViewLimits) -> bool:
        """Return whether the text needs no clipping."""
        return token_count(self.stdout) + token_count(self.stderr) <= limits.budget_tokens


def combine(stdout: StreamCapture, stderr: StreamCapture, limits: ViewLimits) -> Combined:
    """Return both streams whole when they are small together, else the excerpts."""
    if stdout.is_whole and stderr.is_whole:
        together = stdout.masked_bytes + stderr.masked_bytes
        if together <= limits.combined_bytes:
            return Combined(stdout.data, stderr.data, is_cut=False)
    head, tail = limits.excerpt_head_bytes, limits.excerpt_tail_bytes
    parts = [stream.excerpt(head_bytes=head, tail_bytes=tail) for stream in (stdout, stderr)]
    is_cut = any(part.omitted_bytes for part in parts)
    return Combined(parts[0].join(), parts[1].join(), is_cut)


def view_output(combined: Combined) -> OutputView:
    """Return both streams as a terminal would leave them."""
    shown: list[Cleaned] = [
        clean(data.decode("utf-8", "replace")) for data in (combined.stdout, combined.stderr)
    ]
    redraws = shown[0].redraws + shown[1].redraws
    return OutputView(shown[0].text, shown[1].text, combined.is_cut, redraws)


def render(output: OutputView, notes: list[str], limits: ViewLimits, reference: str = "") -> str:
    """Return the text for the model: stdout, stderr, then what else it has to know."""
    stdout, stderr = output.stdout, output.stderr
    if not output.fits(limits):
        budget = limits.budget_tokens
        room = max(budget - token_count(stderr), budget // 4)
        stdout = clip_lines(stdout, budget_tokens=room, reference=reference).text
        room = max(budget - token_count(stdout), budget // 4)
        stderr = clip_lines(stderr, budget_tokens=room, reference=reference).text
    parts = [part for part in (stdout, stderr, *notes) if part]
    return "\n".join(parts) if parts else NO_OUTPUT


def duration(milliseconds: int) -> str:
    """Return a duration as people say it."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes} min {seconds} s"
