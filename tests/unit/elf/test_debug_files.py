"""Programs whose symbols are in a file of their own: OpenSSL linked in, and stripped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sslsniff.analysis import result_cache
from sslsniff.analysis.attachments import make_attachment
from sslsniff.analysis.file_analyzer import FileAnalyzer
from sslsniff.elf import debug_files
from sslsniff.elf.elf_file import Elf
from sslsniff.matching.probe_set import Attachment, Refusal, ReturnStyle
from tests import libraries
from tests.planned import plan_file
from tests.unit import rust_files

SOURCE = """
#include <openssl/ssl.h>
int main(void) {
    SSL *ssl = SSL_new(SSL_CTX_new(TLS_client_method()));
    char byte;
    size_t count;
    SSL_write_ex(ssl, &byte, 1, &count);
    SSL_read_ex(ssl, &byte, 1, &count);
    return SSL_write(ssl, &byte, 1) + SSL_read(ssl, &byte, 1);
}
"""
NOBODY = 65534


class Program:
    """A program, its symbols taken out into ``debug`` and a link to that put in."""

    def __init__(self, folder: Path, unstripped: Path) -> None:
        self.path, self.debug = folder / "program", folder / "program.debug"
        subprocess.run(["objcopy", "--only-keep-debug", unstripped, self.debug], check=True)
        link = f"--add-gnu-debuglink={self.debug}"
        subprocess.run(["objcopy", "--strip-all", link, unstripped, self.path], check=True)

    def plan(self) -> Attachment | Refusal:
        return plan_file(str(self.path))

    def assert_not_found(self) -> None:
        """At most its errors tell of its functions, and then it needs return probes."""
        found = self.plan()
        assert isinstance(found, Refusal)
        [row] = found.unprobed
        assert row.library == "openssl"
        assert row.reason.startswith("it is linked in without symbols")
        assert row.remedy is not None


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(debug_files, "FOLDER", str(tmp_path / "debug"))


@pytest.fixture(scope="module", params=["sha1", "none"])
def unstripped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program as it was linked, with a build id and without."""
    path = tmp_path_factory.mktemp("static") / "program"
    options = ("-static", "-w", f"-Wl,--build-id={request.param}", "-lssl", "-lcrypto")
    subprocess.run(["gcc", "-x", "c", "-", "-o", path, *options], input=SOURCE.encode(), check=True)
    return path


@pytest.fixture
def program(unstripped: Path, tmp_path: Path) -> Program:
    made = Program(tmp_path, unstripped)
    with Elf(str(made.path)) as elf:
        assert elf.section(".symtab") is None
        assert elf.function("SSL_read") is None
    return made


@pytest.mark.tools
def test_one_that_comes_later_is_noticed(tmp_path: Path) -> None:
    functions, texts = [rust_files.OLD_ENCRYPT], [rust_files.source_path("0.21.12")]
    unstripped = rust_files.made(tmp_path / "unstripped", functions, texts, body="nop\nret")
    program = Program(tmp_path, unstripped)
    aside = program.debug.rename(tmp_path / "aside")
    for _ in range(2):
        found = program.plan()
        assert isinstance(found, Refusal)
        assert found.remedy.startswith("build it with symbols, install its debug file, or ")
    aside.rename(program.debug)
    assert isinstance(program.plan(), Attachment)


@pytest.mark.heavy
def test_the_probes_are_those_of_the_unstripped_program(program: Program, unstripped: Path) -> None:
    found, whole = program.plan(), plan_file(str(unstripped))
    assert isinstance(found, Attachment)
    assert isinstance(whole, Attachment)
    assert len(whole.probes) > 5
    assert found == whole._replace(path=str(program.path), debug_file=str(program.debug))
    assert program.plan() == found  # as remembered


@pytest.mark.heavy
@pytest.mark.parametrize("place", [".debug/program.debug", "debug{folder}/program.debug"])
def test_the_linked_file_is_found_elsewhere(program: Program, tmp_path: Path, place: str) -> None:
    moved = tmp_path / place.format(folder=tmp_path)
    moved.parent.mkdir(parents=True)
    program.debug.rename(moved)
    found = program.plan()
    assert isinstance(found, Attachment)
    assert found.debug_file == str(moved)


@pytest.mark.heavy
@pytest.mark.parametrize("unstripped", ["sha1"], indirect=True)
def test_a_file_by_build_id_is_found_first(program: Program, tmp_path: Path) -> None:
    with Elf(str(program.path)) as elf:
        build_id = elf.build_id
    assert build_id
    moved = tmp_path / "debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    moved.parent.mkdir(parents=True)
    moved.write_bytes(program.debug.read_bytes())
    found = program.plan()
    assert isinstance(found, Attachment)
    assert found.debug_file == str(moved)


@pytest.mark.heavy
def test_without_the_file_nothing_is_found(program: Program) -> None:
    program.debug.unlink()
    program.assert_not_found()


@pytest.mark.heavy
def test_the_file_of_another_program_is_not_used(program: Program) -> None:
    subprocess.run(["objcopy", "--only-keep-debug", sys.executable, program.debug], check=True)
    program.assert_not_found()


@pytest.mark.heavy
def test_a_file_that_others_can_write_is_not_used(program: Program) -> None:
    os.chown(program.debug, NOBODY, NOBODY)
    program.assert_not_found()
    os.chown(program.path, NOBODY, NOBODY)
    assert isinstance(program.plan(), Attachment)
    program.debug.chmod(0o666)
    program.path.write_bytes(program.path.read_bytes())  # what was remembered does not hold
    program.assert_not_found()


@pytest.mark.heavy
def test_a_fifo_is_not_waited_for(program: Program) -> None:
    program.debug.unlink()
    os.mkfifo(program.debug)
    program.assert_not_found()


@pytest.mark.tools
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None
)
@given(data=st.data())
def test_a_damaged_file_raises_nothing(program: Program, data: st.DataObject) -> None:
    whole = program.debug.read_bytes()
    place = data.draw(
        st.integers(0, len(whole) - 1) | st.integers(len(whole) - 4096, len(whole) - 1)
    )
    change = data.draw(st.binary(min_size=1, max_size=64))
    cut = data.draw(st.booleans())
    program.debug.write_bytes(
        whole[:place] + (b"" if cut else change + whole[place + len(change) :])
    )
    try:
        with Elf(str(program.path)) as elf:
            debug_files.find(elf)
    finally:
        program.debug.write_bytes(whole)


@pytest.mark.tools
def test_libraries_with_symbols_need_none() -> None:
    with Elf(str(libraries.library("3.0").path)) as elf:
        assert isinstance(make_attachment(elf, ReturnStyle.INSTRUCTIONS), Attachment)
        assert elf.wanted is None


@pytest.mark.tools
def test_a_program_with_a_debug_file_but_no_tls_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As C libraries whose debug files a debugger brought: no worker is needed again."""
    unstripped = tmp_path / "unstripped"
    subprocess.run(
        ["gcc", "-x", "c", "-", "-o", unstripped], input=b"int main(void) { return 0; }", check=True
    )
    program = Program(tmp_path, unstripped)
    found = program.plan()
    assert found == Refusal(
        "there is no TLS library in it that sslsniff knows", debug_file=str(program.debug)
    )
    monkeypatch.setattr(FileAnalyzer, "_queue", lambda *_: pytest.fail("it is not remembered"))
    assert program.plan() == found
