"""Secrets blanked in plaintext, between ``flows`` and all that shows or stores it (docs/redact.md).

Lengths stay, in every layer: of messages, of frames, and of Huffman codes in header blocks. What
cannot be looked into is blanked whole: content codings, protocols that are not known, bytes after
a loss where their beginning decides what they are.
"""
