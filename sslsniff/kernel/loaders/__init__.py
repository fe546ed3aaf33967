"""How do BPF programs get into the kernel? Through libbpf (CO-RE), or compiled by bcc."""
