"""The pure checks of a binding."""

from __future__ import annotations

import msgspec
import pytest

from moorage.errors import InvalidArguments, ProtocolMismatch
from moorage.protocol.binding import Binding, InitializeReply, check_binding

GOOD = Binding(version=4, root="/workspace", session="s-1", identity="env-1")


def changed(**fields: object) -> Binding:
    return msgspec.structs.replace(GOOD, **fields)


@pytest.mark.parametrize("binding", [GOOD, changed(identity=""), changed(environment={"CI": "1"})])
def test_a_well_formed_binding_passes(binding: Binding) -> None:
    check_binding(binding)


@pytest.mark.parametrize("version", [3, 5, 0, -1])
def test_any_other_version_is_a_mismatch_that_says_what_to_do(version: int) -> None:
    with pytest.raises(ProtocolMismatch, match=f"protocol {version}, this side 4.*same Moorage"):
        check_binding(changed(version=version))


@pytest.mark.parametrize("root", ["", "workspace", "./x", "/a\0b", "/" + "x" * 5000])
def test_a_root_that_is_not_an_absolute_path_is_refused(root: str) -> None:
    with pytest.raises(InvalidArguments, match=r"^root: "):
        check_binding(changed(root=root))


@pytest.mark.parametrize("field", ["session", "identity"])
@pytest.mark.parametrize("value", [".", "..", "a/b", "/a", "a\0", "x" * 256])
def test_a_name_that_is_not_one_path_component_is_refused(field: str, value: str) -> None:
    with pytest.raises(InvalidArguments, match=f"^{field}: "):
        check_binding(changed(**{field: value}))


def test_an_empty_session_is_refused() -> None:
    with pytest.raises(InvalidArguments, match=r"^session: "):
        check_binding(changed(session=""))


@pytest.mark.parametrize("variables", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0"}])
def test_a_variable_that_the_system_cannot_hold_is_refused(variables: dict[str, str]) -> None:
    with pytest.raises(InvalidArguments, match=r"^environment: "):
        check_binding(changed(environment=variables))


def test_what_is_not_set_does_not_travel() -> None:
    plain = Binding(version=4, root="/w", session="s")
    assert msgspec.json.encode(plain) == b'{"version":4,"root":"/w","session":"s"}'
    reply = InitializeReply(version=4, root="/w")
    assert msgspec.json.encode(reply) == b'{"version":4,"root":"/w"}'


def test_the_values_of_forwarded_variables_are_not_shown() -> None:
    shown = repr(changed(environment={"API_KEY": "sk-live-secret"}))
    assert "API_KEY" in shown
    assert "sk-live-secret" not in shown
