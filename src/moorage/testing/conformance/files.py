"""Files: written, read, edited and listed by the tools; bad input changes nothing."""

from __future__ import annotations

from hashlib import sha256

from moorage.errors import ExecutionError, InvalidArguments, Refused, ToolFailed
from moorage.testing.conformance.place import Place, names_in
from moorage.testing.conformance.registry import check
from moorage.testing.conformance.seeing import data_of, fails, holds, nothing_there, same

LARGE_TEXT = "".join(f"line {number:09d}\n" for number in range(15_000))
"""More than what fits through a terminal at once; every backend takes it."""

_NAMES = (
    "two words.txt",
    "quote'\".txt",
    "ünïcode-日本.txt",
    "-dash",
    "dollar$HOME;x",
    "new\nline",
)


@check("files")
async def a_new_file_is_there(place: Place) -> None:
    """A file that is written can be read, and the answer says that it was created."""
    async with place.session() as session:
        change = await session.write_file("a.txt", "one\ntwo\n")
        same((change.action, change.path), ("create", "a.txt"), "the answer")
        same((await session.read_file("a.txt")).text, "one\ntwo\n", "the text")


@check("files")
async def text_of_every_language_survives(place: Place) -> None:
    """Text of many writing systems, without an end of line at its end, comes back as it is."""
    text = "zäh – 日本語 – עברית – 🦀 – e\u0301"  # noqa: RUF001 - signs that look alike are the point
    async with place.session() as session:
        await session.write_file("a.txt", text)
        same((await session.read_file("a.txt")).text, text, "the text")


@check("files")
async def an_empty_file_is_empty(place: Place) -> None:
    """A file without content is created, and read as such."""
    async with place.session() as session:
        await session.write_file("empty", "")
        read = await session.read_file("empty")
        same((read.text, read.num_lines), ("", 0), "the empty file")
        same(await names_in(session), ["empty"], "the listing")


@check("files")
async def an_overwrite_says_so(place: Place) -> None:
    """Replacing a file tells that it was replaced, and of which content."""
    async with place.session() as session:
        first = await session.write_file("a.txt", "one\n")
        second = await session.write_file("a.txt", "two\n")
        same(second.action, "overwrite", "the answer")
        same(second.old_sha256, first.new_sha256, "the hash of what was replaced")
        same((await session.read_file("a.txt")).text, "two\n", "the text")


@check("files")
async def hashes_are_those_of_the_content(place: Place) -> None:
    """The hashes of a write and of a read are the SHA-256 of the bytes."""
    async with place.session() as session:
        change = await session.write_file("a.txt", "zäh\n")
        wanted = sha256("zäh\n".encode()).hexdigest()
        same(change.new_sha256, f"sha256:{wanted}", "the hash of the write")
        same((await session.read_file("a.txt")).content_sha256, wanted, "the hash of the read")


@check("files")
async def create_only_leaves_what_is_there(place: Place) -> None:
    """With ``create_only`` a file that exists is an error and stays as it is."""
    async with place.session() as session:
        await session.write_file("a.txt", "one\n", create_only=True)
        with fails(ToolFailed, what="a second create"):
            await session.write_file("a.txt", "two\n", create_only=True)
        same((await session.read_file("a.txt")).text, "one\n", "the text")


@check("files")
async def folders_on_the_way_are_made(place: Place) -> None:
    """A file in a folder that is not there yet makes the folder."""
    async with place.session() as session:
        await session.write_file("one/two/a.txt", "x\n")
        same(await names_in(session, "one/two"), ["a.txt"], "the folder")


@check("files")
async def a_range_of_lines_is_read(place: Place) -> None:
    """``offset`` and ``limit`` choose lines, and the answer says which of how many."""
    async with place.session() as session:
        await session.write_file("a.txt", "1\n2\n3\n4\n5\n")
        read = await session.read_file("a.txt", offset=2, limit=3)
        told = (read.text, read.start_line, read.num_lines, read.total_lines)
        same(told, ("2\n3\n4\n", 2, 3, 5), "the range")


@check("files")
async def crlf_survives(place: Place) -> None:
    """Ends of lines stay what they are, on the way there and back."""
    text = "one\r\ntwo\nthree\r\n"
    async with place.session() as session:
        await session.write_file("a.txt", text)
        same((await session.read_file("a.txt")).text, text, "the text")


@check("files")
async def a_large_text_survives(place: Place) -> None:
    """A text of 225 kB is written whole, and read whole in as many calls as it takes."""
    async with place.session() as session:
        await session.write_file("a.txt", LARGE_TEXT)
        parts, line = [], 1
        while True:
            read = await session.read_file("a.txt", offset=line)
            parts.append(read.text)
            line += read.num_lines
            if not read.num_lines or line > read.total_lines:
                break
        same("".join(parts), LARGE_TEXT, "the text")


@check("files")
async def a_text_that_is_too_large_changes_nothing(place: Place) -> None:
    """A text that no frame can carry is an error; the file is unchanged and the session goes on."""
    async with place.session() as session:
        await session.write_file("a.txt", "one\n")
        with fails(ExecutionError, what="a text of 20 MB"):
            await session.write_file("a.txt", "x" * 20_000_000)
        same((await session.read_file("a.txt")).text, "one\n", "the text")


@check("files")
async def unusual_names_are_names(place: Place) -> None:
    """Names with blanks, quotes, line ends and other scripts reach their files."""
    async with place.session() as session:
        for name in _NAMES:
            await session.write_file(name, name)
        for name in _NAMES:
            same((await session.read_file(name)).text, name, f"the file {name!r}")
        same(await names_in(session), sorted(_NAMES), "the listing")


@check("files")
async def a_missing_file_is_an_error(place: Place) -> None:
    """Reading what is not there is an error of the tool, and makes nothing."""
    async with place.session() as session:
        with fails(ToolFailed, what="a missing file"):
            await session.read_file("nowhere.txt")
        same(await names_in(session), [], "the listing")


@check("files")
async def a_folder_is_no_file(place: Place) -> None:
    """A folder can neither be read nor replaced as a file."""
    async with place.session() as session:
        await session.write_file("folder/a.txt", "x\n")
        with fails(ToolFailed, InvalidArguments, what="reading a folder"):
            await session.read_file("folder")
        with fails(ToolFailed, InvalidArguments, what="writing a folder"):
            await session.write_file("folder", "y")
        same((await session.read_file("folder/a.txt")).text, "x\n", "the file in it")


@check("files")
async def a_line_past_the_end_is_no_text(place: Place) -> None:
    """Lines beyond the end of a file are an error or nothing, and never other lines."""
    async with place.session() as session:
        await session.write_file("a.txt", "1\n2\n")
        try:
            read = await session.read_file("a.txt", offset=99)
        except (ToolFailed, InvalidArguments):
            return
        same((read.text, read.num_lines), ("", 0), "line 99 of 2")


@check("files")
async def paths_that_lead_out_are_refused(place: Place) -> None:
    """Neither a write nor a read leaves the workspace, by dots or by an absolute path."""
    async with place.session(mode="standard") as session:
        for path in ("../x", "/tmp/moorage-check", "a/../../x"):  # noqa: S108 - it is to be refused
            with fails(Refused, what=f"writing {path}"):
                await session.write_file(path, "x")
        for path in ("../x", "/etc/passwd", "a/../../x"):
            with fails(Refused, what=f"reading {path}"):
                await session.read_file(path)


@check("files")
async def a_path_with_nul_is_refused(place: Place) -> None:
    """A path with a NUL reaches no file, and none with a shorter name."""
    async with place.session() as session:
        with fails(InvalidArguments, Refused, what="a path with NUL"):
            await session.write_file("a\0b", "x")
        await nothing_there(session, "a")


@check("files")
async def a_listing_says_what_is_there(place: Place) -> None:
    """A listing tells names, sizes and which of them are folders."""
    async with place.session() as session:
        await session.write_file("a.txt", "zäh\n")
        await session.write_file("folder/b.txt", "x")
        entries = data_of(await session.list_files())["entries"]
        seen = sorted((each["name"], each["is_dir"]) for each in entries)
        same(seen, [("a.txt", False), ("folder", True)], "the entries")
        sizes = [each["size"] for each in entries if each["name"] == "a.txt"]
        same(sizes, [5], "the size of a.txt")


@check("files")
async def a_missing_folder_is_an_error(place: Place) -> None:
    """Listing what is not there, or is a file, is an error and not an empty folder."""
    async with place.session() as session:
        await session.write_file("a.txt", "x")
        for path in ("nowhere", "a.txt"):
            with fails(ToolFailed, InvalidArguments, what=f"listing {path}"):
                await session.list_files(path)


@check("files", "editing")
async def an_edit_replaces_what_is_there_once(place: Place) -> None:
    """An edit replaces the one place and nothing else."""
    async with place.session() as session:
        await session.write_file("a.txt", "one\ntwo\nthree\n")
        change = await session.edit_file("a.txt", "two", "2")
        same((change.action, change.path), ("edit", "a.txt"), "the answer")
        same((await session.read_file("a.txt")).text, "one\n2\nthree\n", "the text")


@check("files", "editing")
async def an_edit_of_several_places_is_refused(place: Place) -> None:
    """Text that is there more than once is left alone unless all of it is meant."""
    async with place.session() as session:
        await session.write_file("a.txt", "x x\n")
        with fails(ToolFailed, what="two places"):
            await session.edit_file("a.txt", "x", "y")
        same((await session.read_file("a.txt")).text, "x x\n", "the text")


@check("files", "editing")
async def an_edit_of_all_places_counts_them(place: Place) -> None:
    """With ``replace_all`` every place is replaced, and their number is told."""
    async with place.session() as session:
        await session.write_file("a.txt", "x x x\n")
        change = await session.edit_file("a.txt", "x", "y", replace_all=True)
        same(change.replacements, 3, "the number of places")
        same((await session.read_file("a.txt")).text, "y y y\n", "the text")


@check("files", "editing")
async def an_edit_without_a_match_changes_nothing(place: Place) -> None:
    """Text that is not there is an error, and so is a file that is not there."""
    async with place.session() as session:
        await session.write_file("a.txt", "one\n")
        with fails(ToolFailed, what="text that is not there"):
            await session.edit_file("a.txt", "two", "y")
        with fails(ToolFailed, what="a missing file"):
            await session.edit_file("b.txt", "one", "y")
        same((await session.read_file("a.txt")).text, "one\n", "the text")
        await nothing_there(session, "b.txt")


@check("files", "editing")
async def an_edit_keeps_the_other_ends_of_lines(place: Place) -> None:
    """An edit in a file with CRLF leaves the ends of all lines as they are."""
    async with place.session() as session:
        await session.write_file("a.txt", "one\r\ntwo\r\nthree\r\n")
        await session.edit_file("a.txt", "two", "2")
        same((await session.read_file("a.txt")).text, "one\r\n2\r\nthree\r\n", "the text")


@check("files", "commands")
async def a_link_inside_is_followed(place: Place) -> None:
    """A symbolic link to a file of the workspace reads that file."""
    async with place.session() as session:
        await session.write_file("a.txt", "one\n")
        await session.run("ln -s a.txt link")
        same((await session.read_file("link")).text, "one\n", "the text behind the link")


@check("files", "commands", "confinement")
async def a_link_that_leads_out_is_refused(place: Place) -> None:
    """A symbolic link out of the workspace is neither read nor written through."""
    async with place.session() as session:
        made = await session.run(
            "ln -s /etc/passwd out; ln -s /etc folder; ln -s /tmp place; ln -s /tmp/moorage-no gone"
        )
        same(made.exit_code, 0, "making the links")
        for path in ("out", "folder/passwd"):
            with fails(Refused, what=f"reading {path}"):
                await session.read_file(path)
        for path in ("place/moorage-check", "gone/moorage-check"):
            with fails(Refused, what=f"writing {path}"):
                await session.write_file(path, "x")


@check("files", "commands")
async def an_overwrite_keeps_the_mode_of_a_file(place: Place) -> None:
    """A program stays one that may be executed when its text is replaced."""
    async with place.session() as session:
        await session.write_file("tool", "#!/bin/sh\necho one\n")
        await session.run("chmod 755 tool")
        await session.write_file("tool", "#!/bin/sh\necho two\n")
        ran = await session.run("./tool")
        same((ran.stdout, ran.exit_code), ("two\n", 0), "the program")


@check("files")
async def changes_are_events(place: Place) -> None:
    """Every write is an event of the session, in order and numbered."""
    async with place.session() as session, session.events() as events:
        await session.write_file("a.txt", "x")
        await session.write_file("b.txt", "x")
        told = [await events.receive(), await events.receive()]
        paths = [each.change.path for each in told if hasattr(each, "change")]
        same(paths, ["a.txt", "b.txt"], "the events")
        holds(told[0].sequence < told[1].sequence, "the numbers of the events do not rise")
