"""Programs with AWS-LC, built for these tests: what compilers inline decides what is found."""

import pytest

from sslsniff.analysis.stripped_fitting import fit_without_symbols
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.boringssl.functions_without_symbols import find_ssl_functions
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import ReturnStyle
from tests.boringssl.judging import FIELDS, judge_fields, misplaced_probes, read_truth
from tests.workload.boringssl.builds import Build, Built, Frames, build, offsets
from tests.workload.boringssl.releases import RELEASES

[RELEASE] = [each for each in RELEASES if each.name == "aws-lc-sys-0.10.0"]
INLINED = Build("gcc", "O2")
"""``SSL_read_ex`` calls ``SSL_peek``, and takes data itself."""

BY_POINTERS = Build("gcc", "O2", frames=Frames.NONE, by_pointers=True)


def functions(built: Built) -> tuple[dict[str, int], ObjectLayout]:
    with Elf(str(built.stripped)) as elf:
        found = find_ssl_functions(elf)
    assert found.refusal is None
    places = {e.name: e.function.address for e in found.functions if e.is_proved and e.function}
    return places, found.layout


@pytest.mark.heavy
@pytest.mark.parametrize("how", [INLINED, BY_POINTERS], ids=lambda how: how.name)
def test_functions_are_where_their_symbols_are(how: Build) -> None:
    built = build(RELEASE, how)
    truth = read_truth(built.whole)
    found, layout = functions(built)
    assert {*found} >= {"SSL_read", "SSL_read_ex", "SSL_peek", "SSL_write", "SSL_do_handshake"}
    inner = found.pop("ssl_read_impl")
    assert any(inner in places for name, places in truth.items() if "ssl_read_impl" in name)
    assert all(place in truth[name] for name, place in found.items())
    verdicts = judge_fields(layout, offsets(RELEASE))
    assert {name: each.verdict.value for name, each in verdicts.items()} == dict.fromkeys(
        FIELDS, "right"
    )


@pytest.mark.heavy
def test_an_inner_read_that_takes_data_is_probed() -> None:
    """Else what a program reads by ``SSL_read_ex`` would be missing."""
    built = build(RELEASE, INLINED)
    with Elf(str(built.stripped)) as elf:
        [part], _, unprobed = fit_without_symbols(elf, ReturnStyle.INSTRUCTIONS)
        places = {each.program: each.offset for each in part.probes if "enter" in each.program}
        [(start, _)] = elf.code_parts
        shift = start - elf.offset(start)
    assert not unprobed
    truth = read_truth(built.whole)
    assert places["c_read_enter"] + shift in truth["SSL_read_ex"]
    assert places["c_read_plain_enter"] + shift in truth["SSL_read"]
    assert misplaced_probes(built.whole, built.stripped) == ("", ())
