"""A kernel traces functions, or one line says which one does."""

from pathlib import Path

from sslsniff.kernel import release
from tests.live.functions.tracing import build, show


def test_a_kernel_traces_or_says_which_one_does(tmp_path: Path) -> None:
    shown = show(build("traceme.c", tmp_path, "-O0"), "^traceme$")
    if release.has_attach_cookies():
        assert (shown.returncode, shown.stdout) == (0, "52\n")
        assert "traceme(a=3, b=5)" in shown.stderr
        return
    assert shown.returncode == 1
    assert shown.stdout == ""  # the program has not started
    [line] = shown.stderr.splitlines()
    assert "tracing functions needs kernel 5.15 or newer" in line
