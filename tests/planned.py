"""What belongs into a file, as a capture finds it out."""

from pathlib import Path

from sslsniff import targets
from sslsniff.attachments import Attachment, Refusal
from sslsniff.parts import ReturnStyle
from sslsniff.planning.planning import Planning


def plan_file(
    path: Path | str, style: ReturnStyle = ReturnStyle.INSTRUCTIONS
) -> Attachment | Refusal:
    """Return what to attach to the file at ``path``, or why nothing."""
    with Planning(style) as planning:
        return targets.plan_all([str(path)], planning)[str(path)]
