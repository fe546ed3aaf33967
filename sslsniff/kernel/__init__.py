"""What speaks to the kernel: loaders, the ring buffer, map events. Only here is ctypes."""
