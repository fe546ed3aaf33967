"""Does a program end, under the preloaded library, as it ends without it?

``random_programs`` runs programs of ``tests/workload/stress`` bare and watched and compares them;
``__main__`` does so for thousands of seeds, and writes the table of docs/preload.md.
"""
