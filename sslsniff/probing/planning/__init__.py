"""Where do probes belong in an untrusted file? Other processes than the capture find it out.

``Planning`` (planning.py) gets open files and returns their plans. It asks a process without rights
(``process``), whose workers (``worker``) parse the files, within limits.
"""
