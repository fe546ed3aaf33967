import os
import subprocess

from sslsniff.preload.watched_processes import WatchedProcesses


def test_an_end_is_told_once() -> None:
    """Also while another process holds the same files, as one that is being forked does."""
    with subprocess.Popen(["sleep", "60"]) as process:
        watched = WatchedProcesses(process.pid)
        release, hold = os.pipe()
        child = os.fork()
        if not child:
            os.close(hold)
            os.read(release, 1)
            os._exit(0)
        assert watched.wait(0) == []
        process.kill()
        assert watched.wait(10) == [process.pid]
        assert watched.have_ended
        assert watched.wait(0) == []
        watched.close()
        os.close(hold)
        os.close(release)
        os.waitpid(child, 0)
