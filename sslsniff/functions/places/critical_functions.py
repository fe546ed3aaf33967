"""Functions that are not probed unless it is forced, and why.

A probe stops a thread for a moment wherever it is. In these functions that may be on a stack that
is being switched, in a signal handler, or where an unwinder reads the instructions.
"""

import re
from typing import NamedTuple


class CriticalFunctions(NamedTuple):
    """A part of a runtime: ``names`` of its functions, but not those of ``others``."""

    part: str
    names: re.Pattern[str]
    others: re.Pattern[str] | None = None


# The functions of Go's runtime that run on the stack of the goroutine that called them.
_GO_ON_GOROUTINES = re.compile(
    r"runtime\.(?:[A-Z]\w*(?:\.\w+)?|\(\*[A-Z]\w*\)\.\w+|gopanic|gorecover|goexit0?|newproc"
    r"|mallocgc|newobject|newarray|growslice|makeslice\w*|makemap\w*|makechan\w*"
    r"|mapaccess\w*|mapassign\w*|mapdelete\w*|chansend\w*|chanrecv\w*|closechan|selectgo"
    r"|selectnb\w+|concatstring\w*|slicebytetostring|stringtoslicebyte|deferproc\w*|deferreturn"
    r"|panic\w+|convT\w*|assertE2I\w*|typeAssert)"
)

CRITICAL_FUNCTIONS = (
    CriticalFunctions(
        "Go's scheduler and garbage collector",
        re.compile(
            r"(?:runtime|internal/runtime/[\w/]+|runtime/internal/[\w/]+|runtime/cgo|_cgo_\w+"
            r"|x_cgo_\w+|_rt0_\w+|gosave_\w+|setg_gcc\w*|crosscall\w*|gogo|callRet)(?:\..*)?"
        ),
        _GO_ON_GOROUTINES,
    ),
    CriticalFunctions(
        "Go's system calls", re.compile(r"(?:syscall|internal/runtime/syscall)\.[rR]aw\w*")
    ),
    CriticalFunctions(
        "the unwinder",
        re.compile(
            r"_?_Unwind_\w+|_ULx86_64_\w+|__(?:gxx|gcc|rust)_\w*personality\w*|rust_eh_personality"
            r"|__register_frame\w*|__deregister_frame\w*|_U_dyn_\w+|unw_\w+"
            r"|<?(?:gimli|addr2line|unwinding|std::sys::personality)::.*"
        ),
    ),
    CriticalFunctions(
        "Rust's panic machinery",
        re.compile(
            r"<?(?:std::panicking|panic_unwind|panic_abort|core::panicking|std::sys::backtrace"
            r"|std::backtrace_rs|std::rt|std::sys::(?:pal::unix::)?stack_overflow)::.*"
            # Newer releases of Rust mangle them, as functions of a crate `__rustc`.
            r"|(?:__rustc::)?(?:rust_begin_unwind|rust_panic|__rust_start_panic|__rust_drop_panic"
            r"|__rust_panic_cleanup|__rust_foreign_exception)"
        ),
    ),
    CriticalFunctions(
        "the start of the program, or its dynamic linker",
        re.compile(
            r"_start|_init|_fini|__libc_start_\w+|__libc_csu_\w+|_dl_\w+|dl_\w+_resolve\w*"
            r"|_dl_runtime_resolve\w*|__tls_get_addr|__do_global_\w+|(?:de)?register_tm_clones"
            r"|frame_dummy|_GLOBAL__sub_\w+"
        ),
    ),
    CriticalFunctions(
        "the way back from a signal, or another stack",
        re.compile(
            r"__restore(?:_rt)?|(?:__)?(?:sig)?setjmp|_setjmp|__sigsetjmp|(?:__|_)?(?:sig)?longjmp"
            r"|____longjmp_chk|(?:__)?vfork|(?:__)?clone3?|(?:__)?(?:set|swap|get|make)context"
            r"|__start_context"
        ),
    ),
    CriticalFunctions("stubs of other files' functions", re.compile(r".*@plt")),
)


def critical_part(name: str) -> str | None:
    """Return the part of a runtime that a function with this demangled name is in; None: none."""
    for each in CRITICAL_FUNCTIONS:
        if each.names.fullmatch(name) and not (each.others and each.others.fullmatch(name)):
            return each.part
    return None
