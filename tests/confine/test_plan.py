from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.confine import plan as plans
from moorage.confine.plan import Mount, Plan, Rule, aliases, check, contains, parse_mounts, rules
from moorage.errors import ConfigError
from moorage.policy.permission import PermissionMode

STANDARD, READ_ONLY = PermissionMode.STANDARD, PermissionMode.READ_ONLY

TREE = {
    "/": ["bin", "dev", "home", "srv"],
    "/home": ["other", "user"],
    "/home/user": [".moorage", "work"],
    "/home/user/.moorage": ["config.json", "tmp"],
}


def granted(plan: Plan, mounts: tuple[Mount, ...] = ()) -> dict[str, int]:
    return dict(rules(plan, lambda path: TREE.get(path, []), mounts))


def test_without_hidden_paths_everything_but_devices_can_be_read() -> None:
    rights = granted(Plan(STANDARD))
    assert rights["/"] == plans.READ_DIR
    assert rights["/home"] == rights["/bin"] == plans.READ_FILE | plans.EXECUTE
    assert "/dev" not in rights
    assert rights["/dev/null"] == plans.DEVICE_RIGHTS
    assert rights["/dev/urandom"] == plans.READ_FILE


def test_what_leads_to_a_hidden_path_is_granted_entry_by_entry() -> None:
    rights = granted(Plan(STANDARD, hidden_paths=("/home/user/.moorage",)))
    assert rights["/home/other"] == rights["/home/user/work"] == plans.READ_FILE | plans.EXECUTE
    for closed in ("/home", "/home/user", "/home/user/.moorage"):
        assert closed not in rights
    assert not [path for path in rights if path.startswith("/home/user/.moorage/")]


def test_one_hidden_path_inside_another_opens_neither() -> None:
    hidden = ("/home/user", "/home/user/.moorage/deep")
    rights = granted(Plan(STANDARD, hidden_paths=hidden))
    assert not [path for path in rights if path.startswith("/home/user")]
    assert "/home/other" in rights


def test_private_and_readable_paths_reach_into_a_hidden_one() -> None:
    plan = Plan(
        READ_ONLY,
        hidden_paths=("/home/user/.moorage",),
        private_paths=("/home/user/.moorage/tmp",),
        readable_paths=("/home/user/.moorage/logs",),
    )
    rights = granted(plan)
    assert rights["/home/user/.moorage/tmp"] == plans.READ_RIGHTS | plans.WRITE_RIGHTS
    assert rights["/home/user/.moorage/logs"] == plans.READ_RIGHTS


def test_roots_are_writable_in_standard_and_readable_in_read_only() -> None:
    assert granted(Plan(STANDARD, ("/w",)))["/w"] == plans.READ_RIGHTS | plans.WRITE_RIGHTS
    rights = granted(Plan(READ_ONLY, ("/w",)))
    assert rights["/w"] == plans.READ_RIGHTS
    assert rights["/dev/shm"] == plans.READ_RIGHTS  # noqa: S108 - shared memory, no temporary file
    assert "/dev/ptmx" not in rights


def test_nobody_may_make_device_nodes_and_only_roots_among_devices_are_controlled() -> None:
    rights = granted(Plan(STANDARD, ("/w", "/dev/dri")))
    nodes = plans.MAKE_BLOCK | plans.MAKE_CHAR
    assert not [path for path, mask in rights.items() if mask & nodes]
    assert rights["/dev/dri"] & plans.IOCTL_DEV
    assert not rights["/w"] & plans.IOCTL_DEV


def test_a_path_that_is_granted_twice_has_both_rights() -> None:
    plan = Plan(READ_ONLY, ("/w",), private_paths=("/w",))
    assert granted(plan)["/w"] == plans.READ_RIGHTS | plans.WRITE_RIGHTS


def test_an_unconfined_plan_has_no_rules() -> None:
    with pytest.raises(ConfigError, match="no rules"):
        rules(Plan(PermissionMode.UNCONFINED), lambda _: [])


@pytest.mark.parametrize("path", ["relative", "/a/../b", "/a//b", "/a/", "/./a", "", "/a\0b"])
def test_a_path_that_is_not_normal_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="not an absolute path"):
        check(Plan(STANDARD, (path,)))


@pytest.mark.parametrize(
    "plan",
    [
        Plan(STANDARD, ("/home",), ("/home/user",)),
        Plan(STANDARD, ("/home/user",), ("/home/user",)),
        Plan(STANDARD, ("/",), ("/home/user",)),
        Plan(READ_ONLY, ("/home",), ("/home/user",)),
        Plan(STANDARD, hidden_paths=("/home/user",), private_paths=("/home",)),
        Plan(STANDARD, hidden_paths=("/home/user",), readable_paths=("/home/user",)),
    ],
)
def test_a_grant_around_a_hidden_path_is_refused(plan: Plan) -> None:
    with pytest.raises(ConfigError, match=r"contains .* which no command may read"):
        check(plan)


def test_a_root_inside_a_hidden_path_is_refused() -> None:
    with pytest.raises(ConfigError, match="lies in /home/user, which no command may read"):
        check(Plan(STANDARD, ("/home/user/work",), ("/home/user",)))


def test_unconfined_plans_and_the_root_itself_are_not_held_to_that() -> None:
    check(Plan(PermissionMode.UNCONFINED, ("/home",), ("/home/user",)))
    check(Plan(STANDARD, ("/",)))


def test_equal_plans_are_one_key() -> None:
    assert len({Plan(STANDARD, ("/w",)), Plan(STANDARD, ("/w",)), Plan(READ_ONLY, ("/w",))}) == 2


@pytest.mark.parametrize(
    ("abi", "added"),
    [
        (1, 0),
        (2, plans.REFER),
        (3, plans.REFER | plans.TRUNCATE),
        (4, plans.REFER | plans.TRUNCATE),
        (5, plans.REFER | plans.TRUNCATE | plans.IOCTL_DEV),
        (9, plans.REFER | plans.TRUNCATE | plans.IOCTL_DEV),
    ],
)
def test_each_abi_handles_every_right_that_it_knows(abi: int, added: int) -> None:
    assert plans.handled_rights(abi) == 0x1FFF | added


def test_scopes_come_with_the_sixth_abi() -> None:
    assert plans.handled_scopes(5) == 0
    assert plans.handled_scopes(6) == plans.SCOPE_ABSTRACT_SOCKET | plans.SCOPE_SIGNAL


MOUNTS = (
    Mount("8:1", "/", "/"),
    Mount("8:2", "/", "/home"),
    Mount("8:2", "/user", "/srv/shared"),
    Mount("8:2", "/user/.moorage/sessions", "/srv/deep"),
    Mount("8:1", "/", "/backup"),
)


def test_a_hidden_path_is_hidden_wherever_it_is_mounted_again() -> None:
    assert list(aliases("/home/user/.moorage", MOUNTS)) == ["/srv/shared/.moorage", "/srv/deep"]
    assert list(aliases("/etc/moorage", MOUNTS)) == ["/backup/etc/moorage"]
    plan = Plan(STANDARD, ("/srv/shared",), ("/home/user/.moorage",))
    with pytest.raises(ConfigError, match=r"/srv/shared contains /srv/shared/\.moorage"):
        rules(plan, lambda _: [], MOUNTS)


def test_a_part_of_a_hidden_path_is_hidden_wherever_it_is_mounted_again() -> None:
    home = "/home/user/.moorage"
    part = Mount("8:1", f"{home}/sessions", "/mnt/sessions")
    disk = (Mount("8:9", "/a", f"{home}/state"), Mount("8:9", "/", "/mnt/disk"))
    mounts = (Mount("8:1", "/", "/"), part, *disk, Mount("8:9", "/a/b", "/mnt/b"))
    found = {"/mnt/sessions", "/mnt/disk/a", "/mnt/b"}
    assert set(aliases(home, mounts)) == found
    plan = Plan(STANDARD, ("/home/user/work",), (home,))
    names = {"/": ["home", "mnt"], "/mnt": ["sessions", "disk", "b"], "/mnt/disk": ["a", "c"]}
    grants = dict(rules(plan, lambda path: names.get(path, []), mounts))
    assert "/mnt/disk/c" in grants
    assert not found & grants.keys()
    with pytest.raises(ConfigError, match="/mnt contains /mnt/"):
        rules(plan._replace(writable_roots=("/mnt",)), lambda _: [], mounts)


def test_of_two_mounts_on_one_point_the_last_counts() -> None:
    stacked = (Mount("8:1", "/", "/"), Mount("8:2", "/", "/"), Mount("8:2", "/", "/again"))
    assert list(aliases("/x", stacked)) == ["/again/x"]
    assert list(aliases("/x", ())) == []


def test_another_part_of_the_same_disk_shows_nothing_that_is_hidden() -> None:
    elsewhere = (Mount("8:1", "/", "/"), Mount("8:1", "/srv", "/mnt/srv"))
    assert list(aliases("/home/user/.moorage", elsewhere)) == []


def test_mounts_are_read_as_the_kernel_writes_them() -> None:
    text = (
        "27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 0:25 /a\\040b /mnt/c\\134d rw - tmpfs x rw\n"
    )
    assert parse_mounts(text) == (Mount("254:0", "/", "/"), Mount("0:25", "/a b", "/mnt/c\\d"))


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


@given(st.sets(PATHS, max_size=4), PATHS)
def test_no_rule_ever_covers_a_hidden_path(hidden: set[str], asked: str) -> None:
    found = rules(Plan(STANDARD, hidden_paths=tuple(hidden)), lambda _: ["a", "b", "c", "dev"])
    is_hidden = any(contains(path, asked) for path in hidden)
    leads_there = any(contains(asked, path) for path in hidden)
    can_read = any(rule.rights & plans.READ_FILE and contains(rule.path, asked) for rule in found)
    assert can_read is not (is_hidden or leads_there)
    assert Rule("/", plans.READ_DIR) in found


def test_a_terminal_domain_opens_one_terminal_and_leaves_the_rest_to_the_first() -> None:
    names = {"/": ["dev", "home", "srv"], "/dev": ["null", "pts", "tty"]}
    granted = dict(plans.terminal_rules("/dev/pts/7", names.__getitem__))

    assert granted == {
        "/": plans.REFER,
        "/dev/pts/7": plans.TERMINAL_RIGHTS,
        "/home": plans.TERMINAL_RIGHTS | plans.REFER,
        "/srv": plans.TERMINAL_RIGHTS | plans.REFER,
        "/dev/null": plans.TERMINAL_RIGHTS | plans.REFER,
        "/dev/tty": plans.TERMINAL_RIGHTS | plans.REFER,
    }


def test_a_plan_with_terminals_may_use_what_lies_in_their_folder() -> None:
    plan = Plan(PermissionMode.READ_ONLY, terminals=("/dev/pts",))

    assert dict(rules(plan, lambda _: []))["/dev/pts"] == plans.DEVICE_RIGHTS
    with pytest.raises(ConfigError):
        check(plan._replace(terminals=("dev/pts",)))
