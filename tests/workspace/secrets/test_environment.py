from __future__ import annotations

import pytest

from moorage.workspace.redact import Redactor
from moorage.workspace.secrets.environment import secret_values

VALUE = "x7Kd92mQpL0a"


@pytest.mark.parametrize(
    "name",
    [
        "STRIPE_KEY",
        "STRIPE_KEY_LIVE",
        "DB_PASS",
        "DB_PASS2",
        "DB_PWD",
        "PGPASSWORD",
        "MYSQL_ROOT_PASSWORD",
        "SUDO_PASSWD",
        "SSH_PASSPHRASE",
        "GITHUB_PAT",
        "GITHUB_TOKEN",
        "GITHUBTOKEN",
        "GitHubToken",
        "npm_config_//registry.npmjs.org/:_authToken",
        "npm_config__auth",
        "SIGNING_KEY",
        "API_KEY",
        "OPENAI_APIKEY",
        "AWS_ACCESS_KEY_ID",
        "aws_secret_access_key",
        "AWS_SESSION_TOKEN",
        "SECRET_KEY_BASE",
        "VAULT_SECRET_ID",
        "SSH_PRIVATE_KEY",
        "GPG_PRIVATE_KEY",
        "AZURE_CREDENTIALS",
        "REGISTRY_CREDS",
        "BASIC_AUTH",
        "DOCKER_AUTH_CONFIG",
        "SESSION_COOKIE",
        "NEXT_PUBLIC_TOKEN",
        "KEY",
        "ENCRYPTION_KEY_1",
        "JWT",
    ],
)
def test_a_name_with_a_telling_word_makes_its_value_secret(name: str) -> None:
    assert secret_values({name: VALUE}) == {VALUE}


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "PWD",
        "OLDPWD",
        "OLD_PWD",
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "GPG_KEY",
        "GPG_KEY_ID",
        "KEYMAP",
        "KEYBOARD_LAYOUT",
        "PUBLIC_KEY",
        "NEXT_PUBLIC_API_KEY",
        "CACHE_KEY",
        "GIT_CONFIG_KEY_0",
        "GIT_AUTHOR_NAME",
        "AUTHOR",
        "COMPASS",
        "BYPASS_RULES",
        "MONKEY",
        "TOKENIZERS_PARALLELISM",
        "PASSWORDLESS_SUDO",
        "TOKEN_FILE",
        "PASSWORD_STORE_DIR",
        "PASSWORD_MIN_LENGTH",
        "AUTH_TYPE",
        "GIT_ASKPASS",
        "XDG_SESSION_ID",
        "PATTERN",
        "DATABASE_NAME",
        "",
        "7",
    ],
)
def test_other_names_leave_their_value_alone(name: str) -> None:
    assert secret_values({name: VALUE}) == frozenset()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_TOKEN", "1234567"),
        ("DB_PASS", "password"),
        ("DB_PASS", "Postgres"),
        ("API_TOKEN", "/home/me/.token"),
        ("SIGNING_KEY", "~/keys/signing.pem"),
        ("SIGNING_KEY", "./keys/signing.pem"),
        ("DEPLOY_SECRET", "/secrets/deploy"),
        ("MAX_TOKENS", "16384000"),
        ("LICENSE_KEY", "20260131"),
        ("PROXY_AUTH", "negotiate"),
        ("SERVICE_AUTH", "kerberos-only"),
        ("SERVICE_AUTH", "https://login.example.org/authorize"),
        ("REPORT_DSN", "https://reports.example.org/1"),
    ],
)
def test_a_value_that_ordinary_output_holds_is_no_secret(name: str, value: str) -> None:
    assert secret_values({name: value}) == frozenset()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DB_PASS", "20260131"),
        ("DB_PASS", "correcthorse"),
        ("SECRET_KEY", "/x9Kd+aaZ0=="),
        ("SIGNING_KEY", "correct-horse-battery-staple"),
        ("API_TOKEN", "0b0f9a8e-3f55-4b7b-9f0e-6c6b1f0f7a11"),
        ("SLACK_WEBHOOK_URL", "https://hooks.example.org/T0/B0/x7Kd92mQ"),
    ],
)
def test_what_only_looks_like_a_number_a_path_or_words_stays_secret(name: str, value: str) -> None:
    assert secret_values({name: value}) == {value}


def test_a_password_that_repeats_the_name_of_its_user_is_no_secret() -> None:
    assert secret_values({"DB_USER": "harbours", "DB_PASS": "harbours"}) == frozenset()
    assert secret_values({"DB_TEXT": "harbours", "DB_PASS": "harbours"}) == {"harbours"}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("postgres://me:x7Kd92mQpL0a@db:5432/app", {"x7Kd92mQpL0a"}),
        ("a=redis://:x7Kd92mQpL0a@r,b=amqp://u:Zz92mQpL0axx@q", {"x7Kd92mQpL0a", "Zz92mQpL0axx"}),
        ("https://me:p%40ss-word@host/", {"p%40ss-word", "p@ss-word"}),
        ("https://me:x%40@host/", {":x%40@"}),
        ("https://me:hunter2@host/", {":hunter2@"}),
        ("postgres://postgres:postgres@localhost/app", {":postgres@"}),
        ("https://1234567890abcdef1234@errors.example.org/1", {"1234567890abcdef1234"}),
        ("https://me@host/path:with@sign", set()),
        ("https://host/~me?mail=a:bcdefghij@host", set()),
        ("ssh://git@host", set()),
        ("https://me:***@host/", set()),
    ],
)
def test_of_an_address_only_the_password_is_secret_whatever_the_name(
    value: str, found: set[str]
) -> None:
    assert secret_values({"PLACE": value}) == found
    assert secret_values({"DATABASE_URL": value}) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("Server=db;User=me;Password=x7Kd92mQpL0a;", {"x7Kd92mQpL0a"}),
        ("AccountName=me;AccountKey=x7Kd92mQpL0a==;EndpointSuffix=x", {"x7Kd92mQpL0a=="}),
        ("host=db password='x7Kd 92mQpL0a' user=me", {"x7Kd 92mQpL0a"}),
        ("me:x7Kd92mQpL0a@tcp(db:3306)/app", {"x7Kd92mQpL0a"}),
        ("host=db user=me password=postgres", set()),
        ("/var/lib/app/data.sqlite", set()),
    ],
)
def test_of_a_connection_only_the_password_is_secret(value: str, found: set[str]) -> None:
    for name in ("APP_DSN", "STORAGE_CONNECTION_STRING", "DATABASE_URL"):
        assert secret_values({name: value}) == found


def test_the_password_of_an_address_is_masked_and_the_rest_is_shown() -> None:
    redactor = Redactor(secret_values({"DATABASE_URL": "postgres://me:x7Kd92mQpL0a@db:5432/app"}))
    shown = redactor.text("connecting to postgres://me:x7Kd92mQpL0a@db:5432/app")
    assert shown == "connecting to postgres://me:[REDACTED]@db:5432/app"


def test_both_halves_of_a_login_are_masked_together_and_the_password_alone() -> None:
    assert secret_values({"BASIC_AUTH": "me:x7Kd92mQpL0a"}) == {"me:x7Kd92mQpL0a", VALUE}
