"""Where are secrets in plaintext, and how are they blanked? See docs/redact.md.

This happens between ``flows`` and everything that shows or stores plaintext. Lengths do not change
in any layer: of messages, of frames, and of Huffman codes in header blocks. What cannot be read is
blanked whole: bodies with a content coding, unknown protocols, and bytes after a loss whose meaning
depends on the lost ones.
"""
