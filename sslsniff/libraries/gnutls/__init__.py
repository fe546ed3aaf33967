"""GnuTLS: its rows, and the layout of its sessions."""
