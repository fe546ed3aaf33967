"""Talks to a database over TLS: ``database_client.py DRIVER PORT PASSWORD``."""

import asyncio
import contextlib
import ssl
import sys
from typing import Any


def tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def psycopg(port: int, password: str) -> None:
    import psycopg

    where = f"host=127.0.0.1 port={port} user=app dbname=postgres sslmode=require"
    with psycopg.connect(where, password=password, autocommit=True) as database:
        database.execute("CREATE TABLE users (id int, name text, born date)")
        with database.cursor() as cursor:
            cursor.executemany("INSERT INTO users VALUES (%s, %s)", [(1, "Ada"), (2, "Grace")])
        for _ in range(7):  # from the fifth time on it is prepared by name
            database.execute("SELECT name FROM users WHERE id = %s", (2,)).fetchall()
        for statement in ("SELECT nothing", "SELECT 1 / %s"):
            with contextlib.suppress(psycopg.Error):
                database.execute(statement, (0,) if "%s" in statement else None)
        with database.pipeline():
            for number in range(3):
                database.execute("UPDATE users SET name = %s WHERE id > %s", (f"n{number}", 0))


def asyncpg(port: int, password: str) -> None:
    import asyncpg

    async def talk() -> None:
        database = await asyncpg.connect(
            host="127.0.0.1",
            port=port,
            user="app",
            password=password,
            database="postgres",
            ssl=tls(),
        )
        await database.execute("CREATE TABLE numbers (n bigint, t text)")
        await database.executemany(
            "INSERT INTO numbers VALUES ($1, $2)", [(n, str(n)) for n in range(5)]
        )
        await database.fetch("SELECT n, t FROM numbers WHERE n >= $1", 2)
        await database.close()

    asyncio.run(talk())


def _connect_to_mysql(port: int, password: str) -> Any:
    import pymysql

    return pymysql.connect(
        host="127.0.0.1",
        port=port,
        user="app",
        password=password,
        database="shop",
        ssl=tls(),
        autocommit=True,
    )


def pymysql(port: int, password: str) -> None:
    import pymysql

    database = _connect_to_mysql(port, password)
    with database, database.cursor() as cursor:
        cursor.execute("CREATE TABLE users (id int, name varchar(100))")
        cursor.execute("INSERT INTO users VALUES (1, 'Ada'), (2, 'Grace')")
        for _ in range(3):
            cursor.execute("SELECT name FROM users WHERE id = %s", (2,))
        cursor.execute("UPDATE users SET name = 'x'")
        with contextlib.suppress(pymysql.Error):
            cursor.execute("SELECT nothing")
        database.ping()


def redis(port: int, password: str) -> None:
    import redis

    for protocol in (2, 3):
        database = redis.Redis(
            host="127.0.0.1",
            port=port,
            password=password,
            ssl=True,
            ssl_cert_reqs="none",
            protocol=protocol,
        )
        database.set("user:1", "Ada")
        database.get("user:1")
        database.rpush("list", 1, 2, 3)
        database.lrange("list", 0, -1)
        database.delete("list")
        with contextlib.suppress(redis.ResponseError):
            database.lpush("user:1", 1)
        with database.pipeline(transaction=False) as pipeline:
            for number in range(100):
                pipeline.incr(f"n:{number % 3}")
            pipeline.execute()
        listener = database.pubsub()  # type: ignore[no-untyped-call]
        listener.subscribe("news", "weather")
        listener.get_message(timeout=2)
        listener.get_message(timeout=2)
        database.publish("news", "hello")
        listener.get_message(timeout=2)
        listener.close()
        database.close()


def pipelined_psycopg(port: int, password: str) -> None:
    """Ask by libpq for what fails, while more that depends on it was sent already."""
    import psycopg

    where = f"host=127.0.0.1 port={port} user=app dbname=postgres sslmode=require"
    link = psycopg.pq.PGconn.connect(f"{where} password={password}".encode())
    link.enter_pipeline_mode()
    batches: list[list[str | tuple[str, bytes]]] = [
        [("one", b"select 'one'"), ("old", b"select 'old'")],
        [("one", b"select 'dup'")],
        [("bad", b"bad"), ("old", b"select 'never'")],
        ["one", "old", "bad"],
    ]
    for batch in batches:
        for each in batch:
            if isinstance(each, str):
                link.send_query_prepared(each.encode(), None)
            else:
                link.send_prepare(each[0].encode(), each[1])
        link.pipeline_sync()
    left = len(batches)
    while left:
        result = link.get_result()
        left -= result is not None and result.status == psycopg.pq.ExecStatus.PIPELINE_SYNC
    link.finish()


def bulk_pymysql(port: int, password: str) -> None:
    """Execute what was prepared last, and many rows at once, as the clients of MariaDB do."""
    import struct

    database = _connect_to_mysql(port, password)

    def ask(command: int, data: bytes) -> None:
        database._execute_command(command, data)

    def answer(packets: int) -> None:
        for _ in range(packets):
            header = database._read_bytes(4)
            database._read_bytes(int.from_bytes(header[:3], "little"))

    last = struct.pack("<I", 0xFFFFFFFF)
    bound = last + b"\0\1\0\0\0\0\1\xfd\0\3bob"
    with database:
        database.query("CREATE OR REPLACE TABLE bulk (i int, s varchar(50) DEFAULT 'none')")
        ask(0x16, b"INSERT INTO bulk VALUES (?, ?)")
        answer(4)  # with two definitions, and their end
        rows = b"\0\1\0\0\0\0\3one\1\0\3two\0\3\0\0\0\2"
        ask(0xFA, last + b"\x80\0\3\0\xfd\0" + rows)
        answer(1)
        for text, packets in ((b"SELECT ? FROM none", 2), (b"INSERT INTO bulk (s) VALUES (?)", 4)):
            ask(0x16, text)
            ask(0x17, bound)
            answer(packets)


def silent_redis(port: int, password: str) -> None:
    """Ask Redis for no replies, some of which it refuses."""
    import socket

    def talk(lines: str, end: bytes) -> None:
        for words in map(str.split, lines.split(";")):
            sent = [f"*{len(words)}", *(part for word in words for part in (f"${len(word)}", word))]
            link.sendall("".join(f"{part}\r\n" for part in sent).encode())
        received = b""
        while not received.endswith(end):
            received += link.recv(4096)

    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        tls().wrap_socket(plain) as link,
    ):
        talk("CLIENT REPLY SKIP;SET k 1", b"required.\r\n")
        talk(f"CLIENT REPLY OFF;AUTH {password}", b"+OK\r\n")
        talk("CLIENT REPLY SKIP;SET k 1;INCR n;LPUSH k x;GET k", b"$1\r\n1\r\n")
        talk("CLIENT REPLY OFF;SET k 2;CLIENT REPLY ON;GET k", b"$1\r\n2\r\n")
        talk("SUBSCRIBE a b;UNSUBSCRIBE;GET k", b"$1\r\n2\r\n")


DRIVERS = {
    "psycopg": psycopg,
    "asyncpg": asyncpg,
    "pymysql": pymysql,
    "redis": redis,
    "pipelined_psycopg": pipelined_psycopg,
    "bulk_pymysql": bulk_pymysql,
    "silent_redis": silent_redis,
}

if __name__ == "__main__":
    DRIVERS[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
