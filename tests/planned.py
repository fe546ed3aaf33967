"""What belongs into a file, as a capture finds it out."""

from pathlib import Path

from sslsniff.analysis.file_analyzer import FileAnalyzer
from sslsniff.capture import survey
from sslsniff.matching.probe_set import Attachment, Refusal, ReturnStyle


def plan_file(
    path: Path | str, style: ReturnStyle = ReturnStyle.INSTRUCTIONS, *, key_log: bool = False
) -> Attachment | Refusal:
    """Return what to attach to the file at ``path``, or why nothing."""
    with FileAnalyzer(style, key_log=key_log) as analyzer:
        return survey.analyse_all([str(path)], analyzer)[str(path)]
