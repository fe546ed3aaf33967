"""Where do probes belong in a file that nobody vouches for? Found out apart from the capture.

``Planning`` (planning.py) takes open files and gives back plans. It asks a process without rights
(``process``), which lets workers (``worker``) look into the files, within limits.
"""
