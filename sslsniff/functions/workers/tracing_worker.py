"""What a worker answers about the file of a traced program: plans, code, names of types."""

from typing import Any

from sslsniff.functions.places.file_plans import plan_places, plan_served_functions
from sslsniff.functions.stacks.code_file import CodeFile
from sslsniff.functions.values.go_type_names import GoTypeNames
from sslsniff.functions.workers import requests
from sslsniff.functions.workers.code_messages import frame_row, place_rows
from sslsniff.functions.workers.file_worker import Answer, FileWorker, OpenFile
from sslsniff.functions.workers.plan_messages import plans_message

_CODE, _TYPES = "code", "types"


def _places(file: OpenFile, request: dict[str, Any]) -> Any:
    return plans_message([*plan_places(file.elf, requests.parse_wanted(request))])


def _served(file: OpenFile, request: dict[str, Any]) -> Any:
    return plans_message([plan_served_functions(file.elf, requests.parse_wanted(request))])


def _type_name(file: OpenFile, request: dict[str, Any]) -> Any:
    if _TYPES not in file.kept:
        file.kept[_TYPES] = GoTypeNames(file.elf)
    types: GoTypeNames = file.kept[_TYPES]
    return types.at(request["address"])


def _frame(file: OpenFile, request: dict[str, Any]) -> Any:
    return frame_row(_code_of(file).call_frame(request["address"]))


def _code(file: OpenFile, request: dict[str, Any]) -> Any:
    return place_rows(_code_of(file).places(request["address"]))


def _code_of(file: OpenFile) -> CodeFile:
    if _CODE not in file.kept:
        file.kept[_CODE] = CodeFile(file.elf, "")
    code: CodeFile = file.kept[_CODE]
    return code


ANSWERS: dict[str, Answer] = {
    requests.PLACES: _places,
    requests.SERVED: _served,
    requests.TYPE_NAME: _type_name,
    requests.FRAME: _frame,
    requests.CODE: _code,
}
WORKER = FileWorker(ANSWERS)
