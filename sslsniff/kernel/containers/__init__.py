"""What a process belongs to, by its cgroup: container, pod, systemd unit."""
