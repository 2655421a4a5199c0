"""For every check of the conformance suite a fault that it finds."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import msgspec
from tests.testing.lying import (
    Fault,
    Lie,
    also,
    always,
    answers,
    asks,
    claims_to_stop,
    data,
    events,
    goes_on,
    ignores,
    itself,
    itself_as_fork,
    one_piece,
    raises,
    repeats,
    returns,
    swallows,
    windows,
)

from moorage.errors import ToolFailed, WorkerFailure
from moorage.host.results import FileText


def lie(name: str, how: Lie) -> Fault:
    return Fault(lies={name: how})


def opens(**changed: Any) -> Fault:
    """Open with other options than those that were asked for; ``None`` leaves one out."""

    def change(_: dict[str, Any], options: dict[str, Any]) -> None:
        for name, value in changed.items():
            options.pop(name, None)
            if value is not None:
                options[name] = value

    return Fault(opens=change)


def opens_always_in(mode: str) -> Fault:
    def change(_: dict[str, Any], options: dict[str, Any]) -> None:
        if "session_id" not in options:
            options["mode"] = mode

    return Fault(opens=change)


def names_every_session(_: dict[str, Any], options: dict[str, Any]) -> None:
    if "session_id" not in options:
        options["name"] = "staying"


FORGETS_THE_PROFILE = Fault(opens=lambda changes, _: changes.clear())
NOT_HELD = opens_always_in("unconfined")
HELD = opens_always_in("standard")
NEW_INSTEAD = opens(session_id=None)

NO_ENTRIES = data(entries=[])
ONE_LEFT = data(entries=[{"name": "left-over", "is_dir": False, "size": 1}])
NO_TEXT = answers(text="")
NO_OUTPUT = answers(stdout="")
NO_WORDS = answers(content=())
FIRST_LINE = FileText(
    path="a.txt", text="1\n", content_sha256="", start_line=1, num_lines=1, total_lines=2
)
NOT_THE_LAST = returns(lambda true: true[:-1])
ONE_MORE = returns(lambda true: true + b"x")
BAD = raises(ToolFailed("nothing was found."))


def process(**changed: Any) -> Any:
    return lambda true: msgspec.structs.replace(true, **changed)


def first_word(given: list[Any], _: dict[str, Any]) -> None:
    given[0] = given[0].split("\0")[0]


def half(given: list[Any], _: dict[str, Any]) -> None:
    given[0] = given[0][:50_000]


def left_over(given: list[Any], _: dict[str, Any]) -> None:
    given[0] = f"export LEFT=over; {given[0]}"


def less_input(_: list[Any], options: dict[str, Any]) -> None:
    if "input" in options:
        options["input"] = options["input"][:-1]


def more_input(_: list[Any], options: dict[str, Any]) -> None:
    options["input"] = options["input"] + b"x"


def something_else(given: list[Any], _: dict[str, Any]) -> None:
    given[2] = f"{given[2]}?"


def everywhere(_: list[Any], options: dict[str, Any]) -> None:
    options["replace_all"] = True


async def unify(session: Any, args: Any) -> None:
    text = (await session.read_file(args[0])).text
    await session.write_file(args[0], text.replace("\r\n", "\n"))


async def take_the_mode(session: Any, args: Any) -> None:
    await session.run(f"chmod 644 {args[0]}")


def the_file_itself(method: Any) -> Any:
    async def say(path: str) -> Any:
        artifact = await method(path)
        source = Path(method.__self__.workspace) / path
        return msgspec.structs.replace(artifact, path=source)

    return say


def the_same_again(method: Any) -> Any:
    async def say() -> Any:
        told = await method()
        return told or ["told again"]

    return say


def does_nothing(method: Any) -> Any:
    async def say(*_: Any, **__: Any) -> None:
        return None

    return say


HONESTY = {
    "a_background_child_does_not_hold_the_call": lie("run", answers(left_running=0)),
    "a_timeout_ends_the_command_at_its_time": lie("run", answers(outcome="exited")),
    "nothing_survives_a_timeout": lie("run", goes_on()),
    "output_before_a_timeout_is_returned": lie("run", NO_OUTPUT),
    "raw_bytes_survive": lie("run", answers(stdout_data=b"??")),
    "text_like_a_marker_is_harmless": lie(
        "run", answers(stdout_data=lambda true: true.replace(b"REDACTED", b""))
    ),
    "an_exit_code_is_kept_and_the_next_command_works": lie("run", answers(exit_code=0)),
}
CALLS = {
    "many_calls_at_once_get_their_own_answers": lie("read_file", answers(text="0\n")),
    "what_is_no_tool_is_refused": lie("call", swallows()),
    "malformed_arguments_change_nothing": lie("call", swallows()),
    "only_known_promises_are_made": lie("capabilities", returns(lambda true: true | {"magic"})),
    "the_root_is_empty_at_first": lie("list_files", ONE_LEFT),
    "an_absolute_path_is_the_same_file": lie("read_file", NO_TEXT),
}
COMMANDS = {
    "streams_and_exit_code_are_told_apart": lie("run", answers(stderr="")),
    "arguments_arrive_as_they_are": lie(
        "run", answers(stdout_data=lambda true: true.replace(b"$HOME", b"/root"))
    ),
    "a_long_command_line_arrives": lie("run", asks(half)),
    "a_command_runs_in_the_folder_it_is_told": lie("run", ignores("cwd")),
    "the_workspace_is_where_it_is_said_to_be": lie("workspace", always("/elsewhere")),
    "a_blank_command_is_refused": lie("run", swallows()),
    "a_folder_that_is_missing_runs_nothing": lie("run", ignores("cwd")),
    "an_unknown_program_is_told": lie("run", answers(exit_code=0)),
    "commands_and_tools_see_the_same_files": lie("read_file", NO_TEXT),
    "tools_and_commands_are_the_same_user": lie("run", NO_OUTPUT),
    "nothing_of_a_command_is_left_for_the_next": lie("run", asks(left_over)),
    "commands_overlap_and_are_not_mixed_up": lie("run", answers(stdout="0\n")),
    "much_output_is_counted_to_the_byte": lie("run", answers(stdout_bytes=lambda true: true - 1)),
    "megabytes_of_input_arrive": lie("run", asks(less_input)),
    "input_ends": lie("run", asks(more_input)),
    "without_input_nothing_waits_for_any": lie("run", NO_OUTPUT),
    "forwarded_variables_arrive": lie("run", NO_OUTPUT),
    "other_variables_stay_with_the_host": lie("backend", always("docker")),
    "a_variable_that_is_not_set_refuses_the_environment": FORGETS_THE_PROFILE,
    "a_signal_is_told": lie("run", answers(outcome="exited")),
    "a_timeout_ends_all_of_a_command": lie("run", goes_on()),
    "a_cancelled_command_ends": lie("run", goes_on("while")),
    "a_cancelled_tree_ends": lie("run", goes_on("sh child.sh")),
    "a_cancelled_command_takes_no_other_along": lie("run", answers(exit_code=-1)),
    "calls_that_follow_do_not_wait_for_a_slow_one": lie("run", NO_OUTPUT),
}
PROCESSES = {
    "a_start_answers_at_once": lie("processes.start", answers(operation_id="another")),
    "a_list_has_all_of_them": lie("processes.list", NOT_THE_LAST),
    "a_start_is_found_by_its_name": lie("processes.find", returns(lambda _: None)),
    "an_unknown_id_is_an_error_everywhere": lie("processes.get", swallows()),
    "the_exit_code_is_kept": lie("processes.follow", windows(process=process(exit_code=0))),
    "both_streams_are_its_output": lie("processes.follow", windows(output="out\n")),
    "offsets_chain_without_gap_or_overlap": lie(
        "processes.read", answers(output=lambda true: true[1:])
    ),
    "without_an_offset_the_end_is_read": lie("processes.read", answers(truncated=False)),
    "a_read_waits_for_what_comes": lie("processes.read", answers(timed_out=False)),
    "what_is_written_is_read": lie("processes.write", swallows()),
    "variables_are_added": lie("processes.start", ignores("variables")),
    "it_runs_in_the_folder_it_is_told": lie("processes.start", ignores("cwd")),
    "a_start_that_cannot_be_runs_nothing": lie("processes.start", ignores("cwd")),
    "a_terminal_is_one": lie("processes.resize", does_nothing),
    "without_a_terminal_there_is_none": lie("processes.resize", swallows()),
    "a_stop_ends_a_stubborn_tree": lie("processes.stop", claims_to_stop),
    "a_stop_is_the_same_twice": lie(
        "processes.stop", answers(updated_at=lambda _: secrets.token_hex())
    ),
    "a_cleanup_spares_what_is_managed": lie("processes.clean_up", returns(lambda _: ())),
    "a_sub_agent_owns_what_it_starts": lie("subagent", itself),
    "a_list_of_nothing_makes_nothing": lie("processes.list", returns(lambda _: ("one",))),
    "an_end_is_an_event": lie("events", events(cause="")),
    "a_stop_is_another_event": lie("events", events(cause="natural_exit")),
    "a_completion_is_told_once": lie("completions.take", the_same_again),
    "what_is_detached_is_not_told": lie("completions.take", the_same_again),
    "what_was_stopped_is_not_told": lie("completions.take", the_same_again),
    "the_mode_of_what_has_ended_is_settled": lie("processes.update", swallows()),
    "a_model_works_in_the_background": lie("call", NO_WORDS),
}
FILES = {
    "a_new_file_is_there": lie("write_file", answers(action="overwrite")),
    "text_of_every_language_survives": lie(
        "read_file", answers(text=lambda true: true.encode("ascii", "replace").decode())
    ),
    "an_empty_file_is_empty": lie("read_file", answers(text="(empty file)")),
    "an_overwrite_says_so": lie("write_file", answers(old_sha256="")),
    "hashes_are_those_of_the_content": lie("write_file", answers(new_sha256="sha256:00")),
    "create_only_leaves_what_is_there": lie("write_file", ignores("create_only")),
    "folders_on_the_way_are_made": lie("list_files", NO_ENTRIES),
    "a_range_of_lines_is_read": lie("read_file", ignores("limit")),
    "crlf_survives": lie("read_file", answers(text=lambda true: true.replace("\r\n", "\n"))),
    "a_large_text_survives": lie("read_file", answers(text=lambda true: true[:-1])),
    "a_text_that_is_too_large_changes_nothing": lie("write_file", swallows()),
    "unusual_names_are_names": lie("list_files", NO_ENTRIES),
    "a_missing_file_is_an_error": lie("read_file", swallows()),
    "a_folder_is_no_file": lie("write_file", swallows()),
    "a_line_past_the_end_is_no_text": lie("read_file", swallows(FIRST_LINE)),
    "paths_that_lead_out_are_refused": lie("read_file", swallows()),
    "a_path_with_nul_is_refused": lie("write_file", asks(first_word)),
    "a_listing_says_what_is_there": lie("list_files", ONE_LEFT),
    "a_missing_folder_is_an_error": lie("list_files", swallows()),
    "an_edit_replaces_what_is_there_once": lie("edit_file", asks(something_else)),
    "an_edit_of_several_places_is_refused": lie("edit_file", asks(everywhere)),
    "an_edit_of_all_places_counts_them": lie("edit_file", answers(replacements=1)),
    "an_edit_without_a_match_changes_nothing": lie("edit_file", swallows()),
    "an_edit_keeps_the_other_ends_of_lines": lie("edit_file", also(unify)),
    "a_link_inside_is_followed": lie("read_file", NO_TEXT),
    "a_link_that_leads_out_is_refused": NOT_HELD,
    "an_overwrite_keeps_the_mode_of_a_file": lie("write_file", also(take_the_mode)),
    "changes_are_events": lie("events", events(sequence=1)),
}
LIFETIME = {
    "the_next_call_connects_again": lie(
        "list_files", raises(WorkerFailure("the way there is lost for good."), after=1)
    ),
    "a_lost_call_is_unknown_and_never_repeated": lie("run", repeats),
    "files_are_there_after_a_loss": lie("read_file", NO_TEXT),
    "a_kept_session_has_its_files": NEW_INSTEAD,
    "a_kept_session_is_found_by_name": NEW_INSTEAD,
    "records_are_kept": lie("processes.get", answers(exit_code=0)),
    "a_session_without_a_name_leaves_nothing_running": Fault(opens=names_every_session),
    "an_unknown_session_is_an_error": NEW_INSTEAD,
    "a_closed_session_answers_no_more": lie("list_files", swallows()),
    "a_saved_mode_is_not_widened_by_opening": NEW_INSTEAD,
    "shared_sessions_see_the_same_files": lie("read_file", NO_TEXT),
    "shared_sessions_have_their_own_processes": lie(
        "processes.list", returns(lambda _: ("another's",))
    ),
    "sessions_do_not_mix_their_answers": lie("id", always("s-one")),
    "sessions_that_share_nothing_are_apart": Fault(),  # Here they share, which is a fault there.
    "a_fork_is_a_session_of_its_own": lie("fork", itself_as_fork),
    "a_sub_agent_works_in_place": lie("read_file", NO_TEXT),
}
MODES = {
    "a_standard_command_writes_only_inside": NOT_HELD,
    "a_standard_command_changes_nothing_of_the_system": lie("run", answers(exit_code=0)),
    "a_background_command_is_confined_too": NOT_HELD,
    "read_only_tools_change_nothing": NOT_HELD,
    "read_only_commands_change_nothing": NOT_HELD,
    "unconfined_commands_are_not_held": HELD,
    "unconfined_tools_are_not_held": HELD,
    "an_unknown_mode_is_refused": HELD,
    "a_conversation_beside_it_changes_nothing": lie("side", itself),
    "the_result_says_how_it_was_confined": lie("run", answers(envelope={})),
}
BYTES = {
    "every_byte_survives": lie("read_bytes", NOT_THE_LAST),
    "megabytes_survive": lie("read_bytes", NOT_THE_LAST),
    "pieces_are_small_and_whole_together": lie("read_pieces", one_piece),
    "no_bytes_are_a_file_too": lie("read_bytes", ONE_MORE),
    "bytes_replace_a_whole_file": lie("read_bytes", ONE_MORE),
    "bytes_and_text_are_the_same_file": lie("read_bytes", ONE_MORE),
    "bytes_of_a_missing_file_are_an_error": lie("read_bytes", swallows(b"")),
    "bytes_stay_inside": lie("read_bytes", swallows(b"")),
    "bytes_are_not_written_in_read_only": NOT_HELD,
    "an_artifact_is_the_file": lie("present_artifact", answers(size_bytes=4)),
    "an_artifact_does_not_change": lie("present_artifact", the_file_itself),
    "an_artifact_of_megabytes_arrives": lie("present_artifact", answers(size_bytes=0)),
    "an_artifact_of_nothing_arrives": lie("present_artifact", answers(size_bytes=1)),
    "what_is_no_file_is_not_published": lie("present_artifact", swallows()),
}
SEARCHING = {
    "grep_tells_file_and_line": lie("grep", data(records=[])),
    "grep_looks_only_where_it_is_told": lie("grep", ignores("include")),
    "grep_ignores_case_when_asked": lie("grep", ignores("ignore_case")),
    "grep_names_files_when_asked": lie("grep", ignores("output_mode")),
    "grep_without_a_match_is_no_error": lie("grep", BAD),
    "a_pattern_that_is_none_is_an_error": lie("grep", swallows()),
    "a_search_stays_inside": NOT_HELD,
    "glob_finds_files_at_every_depth": lie("glob", data(paths=["a.py"])),
    "glob_without_a_match_is_no_error": lie("glob", data(paths=["a.py"])),
    "git_tells_what_has_changed": lie("git", NO_WORDS),
    "git_commits_what_is_named": lie("git", NO_WORDS),
    "git_reaches_no_other_repository": lie("git", swallows()),
}


async def give_away(session: Any, args: Any) -> None:
    os.chown(Path(session.workspace) / args[0], 4711, 4711)


MOUNTS = {
    "a_mounted_folder_is_the_same_on_both_sides": lie("read_file", NO_TEXT),
    "a_mounted_folder_keeps_its_owner": lie("write_file", also(give_away)),
    "a_mounted_folder_is_shared_whatever_is_said": lie("read_file", NO_TEXT),
    "a_mount_for_reading_is_not_written": Fault(),  # Where nothing is mounted, all is written.
}
FAULTS = {
    **HONESTY,
    **CALLS,
    **COMMANDS,
    **PROCESSES,
    **FILES,
    **LIFETIME,
    **MODES,
    **BYTES,
    **SEARCHING,
    **MOUNTS,
}
"""Each check by its name, and a fault that makes it fail."""
