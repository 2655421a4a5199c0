from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.tools.classify import classify

LOW = [
    "pwd", "ls -la", "cat a.txt", "head -n 5 a", "tail -c 10 a", "wc -l a", "file a", "stat a",
    "du -sh .", "rg foo src", "grep -rn 'a b' .", "grep secret src/a.py", "echo hi",
    'echo "rm -rf /"', "true", "git status", "git log --oneline -5", "git diff HEAD~1", "git show",
    "git branch", "git branch -a", "git branch --list 'x'", "git tag -l", "git remote -v",
    "git stash list", "git config --get user.name", "git --no-pager log", "git -C sub status",
    "git show HEAD@{1}", "grep -rn 'a|b; $c' .", 'rg "a|b" src', "echo a\\;b", "echo 'x; rm y'",
    "git rev-parse HEAD", "git worktree list", "git reflog",
]  # fmt: skip
MEDIUM = [
    "git add a.py", "git commit -m x", "git restore --staged a", "pytest -q", "make test",
    "cd sub && go test",
]  # fmt: skip
HIGH = [
    "", "ls | head", "ls > f", "ls; pwd", "ls && pwd", "echo $HOME", "echo `ls`", "cat *.py",
    'echo "$X"', 'echo "it\'s" ; ls \'x\'', "echo {a,b}", "echo 2>&1",

    "cat ~/x", "cat a\nb", "env", "printenv", "set", "export A=1", "cat .env", "cat .git/config",
    "head id_rsa", "cat //server/share", "grep -f .netrc x", "grep --file=.env x",
    "pip install x", "npm install", "npm publish", "npx cowsay", "curl http://x", "wget x",
    "ssh host", "scp a b", "rsync a b", "gh pr list", "git push", "git fetch", "git pull",
    "FOO=1 ls", "./ls", "/bin/cat a", "python x.py", "rg --pre=x y", "rg --hostname-bin x y",
    "file -C -m x", "git log --output=x", "git log --outp=x", "git diff --ext-diff",
    "git show --textconv", "git grep -O less", "git grep --open-files-in-pager x", "git",
    "git -c core.pager=x log", "git --exec-path=x status", "git branch new", "git config a b",
    "git show .env",
]  # fmt: skip
DESTRUCTIVE = [
    "rm -rf x", "rmdir x", "unlink x", "mv a b", "chmod 777 a", "chown a b", "sudo ls",
    "dd if=a of=b", "truncate -s 0 a", "docker ps", "kubectl get pods", "terraform plan",
    "/bin/rm x", "cd x && rm -rf y", "ls | xargs rm", "timeout 5 rm x", "A=1 rm x", "mkfs.ext4 x",
    "git reset --hard", "git clean -fd", "git checkout x", "git switch x", "git merge x",
    "git rebase x", "git restore a", "git restore --staged --worktree a", "git branch -D x",
    "git push --force", "git stash drop", "git -c a=b clean", "find . -delete",
    "echo $(rm x)", "echo `rm x`", "(rm x)",
]  # fmt: skip


@pytest.mark.parametrize("command", LOW)
def test_commands_that_only_read_are_low(command: str) -> None:
    verdict = classify(command)
    assert (verdict.risk, verdict.read_only, verdict.concurrency_safe) == ("low", True, True)
    assert not verdict.destructive


@pytest.mark.parametrize("command", MEDIUM)
def test_staging_and_checks_are_medium_and_not_reading(command: str) -> None:
    verdict = classify(command)
    assert (verdict.risk, verdict.read_only, verdict.destructive) == ("medium", False, False)


def test_asking_a_server_is_medium_and_reading() -> None:
    verdict = classify("git ls-remote origin")
    assert (verdict.risk, verdict.read_only) == ("medium", True)


@pytest.mark.parametrize("command", HIGH)
def test_what_is_not_known_to_only_read_is_high(command: str) -> None:
    verdict = classify(command)
    assert (verdict.risk, verdict.read_only, verdict.destructive) == ("high", False, False)
    assert verdict.reason


@pytest.mark.parametrize("command", DESTRUCTIVE)
def test_what_may_lose_work_is_destructive(command: str) -> None:
    verdict = classify(command)
    assert (verdict.risk, verdict.read_only, verdict.destructive) == ("high", False, True)


@given(st.text(alphabet="ls -rmgit\n'\"|&;<>$()=/.", max_size=40))
def test_no_text_makes_it_fail(command: str) -> None:
    verdict = classify(command)
    if verdict.read_only:
        assert shlex.split(command)[0] in {"ls", "rg", "git"}
