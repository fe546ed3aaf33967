"""s2n-tls.

All that sends, early data too, hands ``s2n_sendv_with_offset`` a list of buffers, of which the
first bytes may be left out. All that receives calls ``s2n_recv`` (tls/s2n_send.c, tls/s2n_recv.c,
tls/s2n_early_data_io.c). What would block is called again with the same bytes, without those that
the result counted. A compiler may inline ``s2n_sendv_with_offset`` into the other two.
"""

from sslsniff.matching.rows import Plan, Row

_OBJECT = ("rdi",)
_PLAIN = ("rdi", "rsi")
_LIST = ("rdi", "rsi", "rdx")
_LIST_OFFSET = ("rdi", "rsi", "rdx", "rcx")
_SENDS = ("s2n_sendv_with_offset",)

S2N = Plan(
    library="s2n",
    symbols=("s2n_send", "s2n_recv", "s2n_connection_new"),
    marks=(),
    file_names=("libs2n.so",),
    required=(
        ((Row("s2n_recv", "c_read_plain_enter", "c_return", _PLAIN),),),
        (
            (
                Row(
                    "s2n_sendv_with_offset",
                    "c_write_list_offset_enter",
                    "c_list_return",
                    _LIST_OFFSET,
                ),
                Row("s2n_send", "c_write_plain_enter", "c_return", _PLAIN, through=_SENDS),
            ),
        ),
    ),
    optional=(
        Row("s2n_sendv", "c_write_list_enter", "c_list_return", _LIST, through=_SENDS),
        Row("s2n_negotiate", "c_handshake_enter", registers=_OBJECT),
        Row("s2n_connection_free", "openssl_free_enter", registers=_OBJECT),
        Row("s2n_connection_wipe", "openssl_clear_enter", registers=_OBJECT),
    ),
)
