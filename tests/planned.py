"""What belongs into a file, as a capture finds it out."""

from pathlib import Path

from sslsniff.analysis.planning import Planning
from sslsniff.capture import survey
from sslsniff.matching.probe_set import Attachment, Refusal, ReturnStyle


def plan_file(
    path: Path | str, style: ReturnStyle = ReturnStyle.INSTRUCTIONS, *, key_log: bool = False
) -> Attachment | Refusal:
    """Return what to attach to the file at ``path``, or why nothing."""
    with Planning(style, key_log=key_log) as planning:
        return survey.plan_all([str(path)], planning)[str(path)]
