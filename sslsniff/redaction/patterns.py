"""Kinds of secrets in text: header fields, fields of forms and JSON, tokens, URLs.

Each kind has words by which it is found, and patterns that match only where one of these words is.
All patterns are for text in lower case.
"""

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

import regex

from sslsniff.redaction import field_names
from sslsniff.redaction.multipart import BodyParts
from sslsniff.redaction.name_value_pairs import BLANKS, NEVER, scan_pair, undecided_value
from sslsniff.redaction.secret_values import (
    Scan,
    Text,
    Value,
    scan_element,
    scan_encoded,
    scan_field,
    scan_json,
    scan_named,
    scan_part,
)

Pattern = regex.Pattern[bytes]

BEARER, JWT, URL, PART = "bearer", "jwt", "userinfo", "multipart"
"""What secrets are called that have no name."""

_WEB_TRAILERS = b"\x80\0"
_WEB_TRAILERS_PREFIX = _WEB_TRAILERS + b"[\0-\xff]{3}"
"""How trailers begin in a body of gRPC-Web: a flag, and a length of less than 16 MiB in 4 bytes.

Source: PROTOCOL-WEB.md of gRPC, "Protocol differences".
"""
_HEADER_END = (
    rb"(?:authorization|authorization-auxiliary|authentication|cookie2?|credentials?|passw(?:or)?d"
    rb"|passphrase|passcode|secret|token|api[-_]?key|jwt|jwt-assertion|oidc-data"
    rb"|(?:access|account|app|application|auth|client|consumer|customer|encryption|functions?"
    rb"|license|master|private|rapidapi|secret|service|session|shared|signing|subscription)[-_]key"
    rb"|(?:(?<!\S)|(?<=" + _WEB_TRAILERS_PREFIX + rb"))(?:x-)?auth)(?:-bin)?"
)
"""How the name of a header ends whose value is a credential (docs/redact.md).

In gRPC, ``-bin`` at the end says that the value is base64 ("gRPC over HTTP2", Custom-Metadata).
"""
_HEADER_NAME = rb"[!#$%&'*+.^`|~\w-]{1,128}+"  # RFC 9110 section 5.6.2
_INDENT = rb"(?P<indent>[ \t]{0,64}+)(?:-[ \t]{1,64}+)?+"
"""What is before a name in YAML; with a limit, as ``regex`` first looks as far for the colon."""
_LETTER = rb"(?:3[0-9]|[46][1-9a-f]|[57][0-9a]|5f|2d)"
"""A letter, a digit, an underscore or a hyphen, in hexadecimal."""
_ENCODED_LETTERS = (b"%25", b"%2d", b"%3", b"%4", b"%5", b"%6", b"%7")
_ENCODED_BLANKS = rb"(?:\+|%(?:25)*+(?:2[0b]|0[9ad]))*+"
_ENCODED_COLON = _ENCODED_BLANKS + rb"(?::|%(?:25)*+3a)" + _ENCODED_BLANKS
_ENCODED_QUOTE = rb"(?:%(?:25)*+5c)*+%(?:25)*+"
"""What begins a quotation mark, perhaps after backslashes."""
_TYPE = rb"\[{0,8}[a-z_]\w{0,64}+[!\]]{0,8}"
_ENCODED_TYPE = rb"(?:\[|%(?:25)*+5b){0,8}[a-z_]\w{0,64}+(?:[!\]]|%(?:25)*+(?:21|5d)){0,8}"
"""A type in GraphQL: between the name of a variable and its default value."""
# The end of a name in quotation marks: their last is matched.
_QUOTED = rb"(?=[ +/(\\\"'])(?:[ +/(][^\"'\\\r\n=]{0,64}+)?(?P<escape>\\*+)[\"']"
_NAME_END = _QUOTED + BLANKS + rb":" + BLANKS
"""What is between a name and its value in JSON."""
_PAIR = _QUOTED + rb"(?P<pair>)(?=" + BLANKS + rb"[,}>/]|\s++[\w:.-])"
"""What is after a name that is a value itself."""
_PART_HEAD = rb"[^\r\n]{0,1024}\r?\n(?:[^\r\n]{1,1024}\r?\n){0,16}\r?\n"
"""The rest of the head of a part of a multipart."""
_PARAMETER = rb"name\s{0,16}\*?\s{0,16}"
_PARAMETER_VALUE = rb"=\s{0,16}(?:\"[^\"\r\n]{0,128}|[^\s\";]{0,128})"
_PART_NAME = re.compile(_PARAMETER + _PARAMETER_VALUE + rb"\Z")
_PART_TAIL = re.compile(_PARAMETER + rb"(?:" + _PARAMETER_VALUE + rb")?\Z")
_PART_BEFORE_BYTES = 190
_TAG = re.compile(rb"<(?:[\w.-]{1,64}+:)?[\w.-]{0,64}")
_TAG_BYTES = 130
_LINE_BYTES = 200
_HEAD_LINE_BYTES = 8 << 10
_JWT_BYTES = 2003
_TO_DOTS = bytes(
    each if (chr(each).isalnum() and each < 128) or each in b"_-" else ord(".")
    for each in range(256)
)


def _at_word(text: Text, start: int, at: int) -> int:
    return at


def _name_begin(text: Text, start: int, at: int) -> int:
    return max(start, at - field_names.NAME_BEFORE_BYTES)


def _line_begin(text: Text, start: int, at: int) -> int:
    """Return where the line of ``at`` begins, with what frames it as trailers of gRPC-Web."""
    first = max(0, start - 1, at - _LINE_BYTES)
    end = text.rfind(b"\n", first, at)
    trailers = text.rfind(_WEB_TRAILERS, max(first, start, end - 4), at)
    if trailers >= 0:
        return trailers
    return end + 1 if end >= 0 else 0 if at <= _LINE_BYTES and not start else -1


def _head_line_begin(text: Text, start: int, at: int) -> int:
    first = max(start, at - _HEAD_LINE_BYTES)
    return max(first, text.rfind(b"\n", first, at) + 1, text.rfind(b"\r", first, at) + 1)


def _tag_begin(text: Text, start: int, at: int) -> int:
    """Return where the tag begins that has ``at`` in its name."""
    begin = text.rfind(b"<", max(start, at - _TAG_BYTES), at)
    return begin if begin >= 0 and _TAG.fullmatch(text, begin, at) else -1


def _part_begin(text: Text, start: int, at: int) -> int:
    """Return where the parameter ``name`` begins that has ``at`` in its value."""
    first = max(start, at - _PART_BEFORE_BYTES)
    found = _PART_NAME.search(text[first:at])
    return first + found.start() if found else -1


def _jwt_begin(text: Text, start: int, at: int) -> int:
    """Return where a JSON Web Token begins whose first part ends at ``at``."""
    first = max(start, at - _JWT_BYTES)
    part = text[first:at]
    begin = part.find(b"eyj", part.translate(_TO_DOTS).rfind(b".") + 1)
    return first + begin if begin >= 0 else -1


class SecretKind(NamedTuple):
    """What is around a value: ``pattern`` matches up to its first byte, ``scan`` finds its end.

    Without ``scan`` the pattern matches all, and has the value in its group ``secret``. ``begin``
    returns where a match begins that has a word at a position; -1 if there is none. Each text with
    one contains ``needs``. ``usual`` is tried first: it finds the same as both, for most values, in
    its group. ``label``: what a secret is called that has no name.
    """

    pattern: Pattern
    scan: Scan | None = None
    begin: Callable[[Text, int, int], int] = _at_word
    needs: bytes = b""
    usual: "re.Pattern[bytes] | None" = None
    label: str = ""


class WordSearch(NamedTuple):
    """Kinds of secrets that are found by the same words.

    The patterns of ``kinds`` match where a kind begins. ``words`` maps each word to the pattern of
    the rest of a name; those of ``named`` match where the name ends. Each text with a secret
    contains ``needs``.
    """

    words: dict[bytes, Pattern | None]
    kinds: tuple[SecretKind, ...]
    named: tuple[SecretKind, ...] = ()
    needs: bytes = b""


def _compiled(pattern: bytes) -> Pattern:
    return regex.compile(pattern, regex.MULTILINE | regex.DOTALL)


def _or_pair(scan: Scan) -> Scan:
    """Return ``scan`` for what follows a name, or the scan of a pair for a name that is a value."""

    def scan_either(
        text: Text, found: "regex.Match[bytes]", begin: int, parts: BodyParts
    ) -> Value | None:
        if found["pair"] is not None:
            return scan_pair(text, found, parts)
        return scan(text, found, begin, parts)

    return scan_either


def _userinfo(before: bytes, slash: bytes, byte: bytes, colon: bytes, end: bytes) -> SecretKind:
    """Return the userinfo of a URL (RFC 3986 section 3.2.1); ``byte`` is one of an authority.

    Where no port follows a colon there is no authority: then a slash is a byte of a password.
    """
    odd = rb"(?:(?!" + colon + rb")" + byte + rb"){0,256}+" + colon
    odd += rb"(?!\d{0,5}+(?:" + slash + rb"))" + byte + rb"{0,256}+(?:" + slash + rb")"
    odd += rb"(?:" + byte + rb"|" + slash + rb"){0,256}"
    secret = rb"(?P<secret>" + byte + rb"{1,8192}|" + odd + rb")"
    return SecretKind(_compiled(before + secret + rb"(?:" + end + rb")"), label=URL)


@functools.cache
def word_searches(*, is_head: bool = False) -> tuple[WordSearch, ...]:
    """Return the searches for secrets that may be anywhere in text, or in the head of a message."""
    named = (
        # A member of a JSON object (RFC 8259 section 4), also of JSON that is a string in JSON:
        # with backslashes before its quotes; an argument of GraphQL; a field of a form or a query
        # (application/x-www-form-urlencoded), or of a URL in one, or JSON in one; an attribute of
        # XML; a setting.
        SecretKind(
            _compiled(
                (rb"(?:" + _NAME_END)
                + (rb"|(?=[:\s\\d])" + BLANKS + rb":" + BLANKS)
                + (rb"(?:(?=[\[a-z_])" + _TYPE + rb"\s*+=" + BLANKS + rb")?+")
                + (rb"(?=(?P<escape>\\*+)(?:[\"'{]|\[(?!" + _TYPE + rb")))")
                + (rb"|(?P<encoded>" + _ENCODED_QUOTE + rb"22)" + _ENCODED_COLON)
                + rb"|(?P<field>(?:(?:\+|%20)[\w.+%-]{0,64}?)?[ \t]*+(?:=>?|%(?:25)*+3d)[ \t]*+)"
                + (rb"|" + _PAIR + rb")")
            ),
            _or_pair(scan_named),
            _name_begin,
            usual=re.compile(
                rb"\"[ \n]*(?:,[ \n]*\"value\"[ \n]*)?:[ \n]*\"([^\"\\]+)\""
                rb"|=([^\\> \t&\s\"'<;][^&\s\"'<>;]*)(?=[&\s\"'<>;])"
            ),
        ),
        # An argument or a variable of GraphQL, percent-encoded in a query or a form.
        SecretKind(
            _compiled(
                (_ENCODED_COLON + rb"(?:" + _ENCODED_TYPE + _ENCODED_BLANKS)
                + (rb"(?:=|%(?:25)*+3d)" + _ENCODED_BLANKS + rb")?+")
                + (rb"(?=(?P<encoded>" + _ENCODED_QUOTE + rb"(?:22|5b|7b)))")
            ),
            scan_encoded,
            _name_begin,
        ),
        # An element of XML.
        SecretKind(
            _compiled(rb"(?:\s[^<>]*+)?(?<!/)(?:>|" + NEVER + rb")"), scan_element, _tag_begin, b"<"
        ),
        # A part of multipart/form-data (RFC 7578 section 4.2). Its name is quoted or a token
        # (RFC 2183 section 2), or has a charset (RFC 5987). Lines may end as they do elsewhere.
        SecretKind(
            _compiled(rb"(?<!(?<![\w-])tokens)(?=[\"'; \t\r\n])" + _PART_HEAD),
            scan_part,
            _part_begin,
            b"name",
        ),
    )
    # A header field (RFC 9112 section 5), with lines that continue it (5.2), or one of YAML.
    header = SecretKind(
        _compiled(
            (rb"(?:^|" + _WEB_TRAILERS_PREFIX + rb")" + _INDENT + _HEADER_NAME)
            + (rb"(?<=" + _HEADER_END + rb")[ \t]{0,64}:[ \t]*")
            + rb"(?P<secret>[^\r\n]*(?:\r?\n(?P=indent)[ \t]+[^\r\n]*)*(?:\r?\n?[ \t]*\Z)?)"
        ),
        begin=_line_begin,
    )
    # In a head names may be odd, and lines that continue another may look like a field.
    line = SecretKind(
        _compiled(
            rb"[ \t]*+[^:\s/]++(?<=" + _HEADER_END + rb")[ \t]*+:"
            rb"[ \t]*+(?P<secret>[^\r\n]*(?:\r?\n[ \t]+[^\r\n]*)*)"
        ),
        begin=_head_line_begin,
    )
    names = {word.encode(): _compiled(name.encode()) for word, name in field_names.NAMES.items()}
    hidden = _compiled(
        rb"\\u00" + _LETTER + rb"[^\"\\\r\n]*+(?:\\++[^\"\r\n][^\"\\\r\n]*+)*+(?P<rest>)"
    )
    encoded = _compiled(rb"%(?:25){0,3}+" + _LETTER + rb"[^&=\s\"'<>;/?]*+(?P<rest>)")
    # A part whose name is in sections (RFC 2231 section 3), which are not put together here.
    sections = SecretKind(
        _compiled(rb"name\*\d{1,3}\*?\s{0,16}=" + _PART_HEAD), scan_part, label=PART
    )
    # A token that says what it is: of RFC 6750, RFC 7519, or of Kubernetes over WebSocket.
    bearer = SecretKind(
        _compiled(rb"bearer(?:[ \t]++|\.authorization\.)(?P<secret>[\w.~+/=-]++)"), label=BEARER
    )
    jwt = SecretKind(
        _compiled(rb"(?P<secret>eyj[\w-]{4,2000}+\.eyj[\w-]*+(?:\.[\w-]*+)*+)"),
        begin=_jwt_begin,
        label=JWT,
    )
    # A URL; the same with the slashes escaped in JSON.
    byte = rb"[^\s/?#\"<>\\]"
    url = _userinfo(rb"://", rb"[/?#]", byte, rb":", rb"@")
    escaped_url = _userinfo(rb":(?:\\{1,4}/){2}", rb"\\{1,4}/|[?#]", byte, rb":", rb"@")
    return (
        WordSearch({**names, b"oidc-data": None}, (line if is_head else header,), named),
        # A name that hides: nothing asks for a letter to be escaped.
        WordSearch(
            {rb"\u00": hidden},
            (),
            (SecretKind(_compiled(_NAME_END + rb"|" + _PAIR), _or_pair(scan_json)),),
            rb"\u00",
        ),
        WordSearch(
            dict.fromkeys(_ENCODED_LETTERS, encoded),
            (),
            (SecretKind(_compiled(rb"="), scan_field),),
            b"%",
        ),
        _word_search(b"name*", sections),
        _word_search(b"bearer", bearer),
        _word_search(b".eyj", jwt),
        _word_search(b"://", url),
        _word_search(b":\\", escaped_url),
        *(_encoded_url(percent) for percent in (b"%", b"%25")),
    )


def _encoded_url(percent: bytes) -> WordSearch:
    """Return the search for a URL that is percent-encoded once or twice; its slashes may not be."""
    word = percent + b"3a"
    slash = b"|".join(percent + each for each in (b"2f", b"3f", b"23"))
    byte = rb"(?:(?!" + slash + rb")[^\s&/?#\"<>\\])"
    before = word + rb"(?:/|" + percent + rb"2f){2}"
    colon, end = rb"(?::|" + word + rb")", rb"@|" + percent + b"40"
    return _word_search(word, _userinfo(before, rb"[/?#]|" + slash, byte, colon, end))


def _word_search(word: bytes, kind: SecretKind) -> WordSearch:
    return WordSearch({word: None}, (kind,), needs=word)


@functools.cache
def _beginnings() -> frozenset[bytes]:
    words = {word for each in word_searches() for word in each.words}
    words |= {b"eyj", b"value", _WEB_TRAILERS + bytes(1)}
    return field_names.name_beginnings() | {
        word[:size] for word in words for size in range(1, len(word))
    }


@functools.cache
def _longest_beginning() -> int:
    return max(map(len, _beginnings()))


_HEADER_TAIL = re.compile(
    (rb"(?:" + _WEB_TRAILERS + rb"[\0-\xff]{0,2}|(?:" + _WEB_TRAILERS_PREFIX + rb")?")
    + (rb"[ \t]{0,64}(?:-[ \t]{0,64})?(?:" + _HEADER_NAME + rb")?)")
)


def undecided_tail(text: Text, start: int) -> int:
    """Return where a secret's name or beginning may begin that goes on in the next bytes."""
    size = len(text)
    end = bytes(text[max(start, size - _longest_beginning()) :])
    beginnings = _beginnings()
    first = next((at for at in range(len(end)) if end[at:] in beginnings), len(end))
    places = [size - len(end) + first, _tag_begin(text, start, size), undecided_value(text, start)]
    line = _line_begin(text, start, size)
    if line >= 0 and (line == size or _HEADER_TAIL.fullmatch(text, line, size)):
        places.append(line)
    parameter = text.find(b"name", max(start, size - _PART_BEFORE_BYTES))
    if parameter >= 0 and (found := _PART_TAIL.search(text, parameter)):
        places.append(found.start())
    if text.find(b"eyj", max(start, size - _JWT_BYTES)) >= 0:
        places += [
            _jwt_begin(text, start, size - count)
            for count in range(4)
            if text.endswith(b".eyj"[:count])
        ]
    return min(place for place in places if place >= 0)


@functools.cache
def authority_pattern() -> Pattern:
    """Return the pattern of userinfo in an authority without a URL; only heads have these."""
    return _compiled(
        rb"^(?:connect |(?::authority|host)[ \t]*:[ \t]*)(?P<secret>[^\s/?#\"<>\\]{1,8192})@"
    )


@functools.cache
def _header_end() -> Pattern:
    return _compiled(_HEADER_END + rb"\Z")


@functools.lru_cache(maxsize=1024)
def is_secret_header(name: str) -> bool:
    """Return whether the value of a header is a credential."""
    return _header_end().search(name.lower().encode("latin-1", "replace")) is not None
