"""What speaks to the kernel? Loaders, the ring buffer, /proc, capabilities. Only here is ctypes."""
