"""Semaphores of static probes: whether the kernel finds them in a process that starts."""

from sslsniff.elf.elf_file import Elf

_PAGE_BYTES = 4096


def is_found_at_start(elf: Elf, semaphore: int) -> bool:
    """Return whether the kernel counts up the semaphore at a linked address when a file is mapped.

    It takes the first writable mapping with that page of the file (find_ref_ctr_vma and
    delayed_ref_ctr_inc in kernel/events/uprobes.c). Where linkers put segments next to each other
    in the file, as lld does, that is the one that is read-only once it is relocated: in a process
    that runs already the kernel finds the right one.
    """
    page = elf.offset(semaphore, of_data=True) // _PAGE_BYTES
    for part in elf.writable():
        first = elf.offset(part.address, of_data=True)
        last = first + len(part.data) - 1
        if first // _PAGE_BYTES <= page <= last // _PAGE_BYTES:
            return 0 <= semaphore - part.address < len(part.data)
    return True
