from __future__ import annotations

import pytest

from moorage.workspace.protected import is_protected_name


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/config",
        "sub/.git/hooks/pre-commit",
        ".hg/store",
        ".svn/entries",
        ".moorage/config.json",
        ".moorage-state",
        ".moorage-home/x",
        ".env",
        "app/.env",
        ".env.local",
        ".env.production",
        ".ENV",
        ".envrc",
        ".env_backup",
        ".netrc",
        "_netrc",
        ".npmrc",
        ".pypirc",
        ".pgpass",
        "id_rsa",
        ".ssh/id_ed25519",
        "id_ecdsa",
        "server.key",
        "tls/private.pem",
        "app-key.pem",
        "store.p12",
        "private_key",
        "private-key.txt",
        "credentials",
        ".aws/credentials",
        "credentials.json",
        ".git-credentials",
        "client_secret.json",
        "secrets.yaml",
        "secrets/data.txt",
        "my.secret",
    ],
)
def test_names_of_credentials_and_repository_state_are_protected(path: str) -> None:
    assert is_protected_name(path)


@pytest.mark.parametrize(
    "path",
    [
        ".",
        "a.txt",
        ".gitignore",
        ".github/workflows/ci.yml",
        ".gitattributes",
        "git/config",
        "repo.git.txt",
        ".environment",
        "env",
        "prod.environment.ts",
        ".env.example",
        "app/.env.sample",
        ".env.template",
        "secret.py",
        "src/credentials/client.ts",
        "private_key.go",
        "id_rsa.pub",
        "keyboard.txt",
        "cert.pem",
        "moorage/home.py",
    ],
)
def test_ordinary_names_source_code_and_templates_are_not(path: str) -> None:
    assert not is_protected_name(path)
