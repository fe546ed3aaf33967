"""Holds a connection as a pool does: ``pooled_database_client.py DRIVER PORT PASSWORD``.

It prepares its statements, and says ``ready``. For each line on standard input it executes them
again: ``more``, or in a transaction that is idle for a while: ``idle``, or does not end: ``hold``.
``name`` changes the name of the process. It says ``done`` after each.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from database_client import _connect_to_mysql, tls  # type: ignore[import-not-found]

IDLE_S = 0.4
HOLD_S = 1.1
CREATE = "CREATE TEMPORARY TABLE stock (sku varchar(50), n int)"
SELECT = "SELECT n FROM stock WHERE sku = {}"
UPDATE = "UPDATE stock SET n = n + {} WHERE sku = {}"
NAME = "pooled-late"


def lines() -> Iterator[str]:
    """Yield the lines of standard input; say when each is done."""
    print("ready", flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "name":
            Path("/proc/self/comm").write_text(NAME)
        else:
            yield word
        print("done", flush=True)


def psycopg(port: int, password: str) -> None:
    import psycopg

    where = f"host=127.0.0.1 port={port} user=app dbname=postgres sslmode=require"
    select, update = SELECT.format("%s"), UPDATE.format("%s", "%s")
    with psycopg.connect(
        where, password=password, autocommit=True, prepare_threshold=0
    ) as database:
        database.execute(CREATE)
        database.execute(select, ("sku-1",))
        database.execute(update, (1, "sku-1"))
        for word in lines():
            if word == "more":
                database.execute(select, ("sku-17",))
                database.execute(update, (911, "sku-17"))
                continue
            if word == "hold":
                database.execute("BEGIN")
                database.execute(update, (3, "sku-17"))
                time.sleep(HOLD_S)
                continue
            with database.transaction():
                database.execute(update, (2, "sku-17"))
                time.sleep(IDLE_S)


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
        await database.execute(CREATE)
        select = await database.prepare(SELECT.format("$1"))
        await select.fetch("sku-1")
        for _ in lines():
            await select.fetch("sku-17")
        await database.close()

    asyncio.run(talk())


def pymysql(port: int, password: str) -> None:
    """Prepare by the protocol's commands, which PyMySQL itself does not use."""
    import struct

    database = _connect_to_mysql(port, password)

    def ask(command: int, data: bytes, packets: int) -> None:
        database._execute_command(command, data)
        for _ in range(packets):
            header = database._read_bytes(4)
            database._read_bytes(int.from_bytes(header[:3], "little"))

    def update(number: int, sku: bytes) -> None:
        bound = b"\0\1\x03\0\xfd\0" + struct.pack("<i", number) + bytes((len(sku),)) + sku
        ask(0x17, struct.pack("<IBI", 1, 0, 1) + bound, 1)

    with database:
        database.query(CREATE)
        ask(0x16, UPDATE.format("?", "?").encode(), 4)
        update(1, b"sku-1")
        for word in lines():
            if word == "more":
                update(911, b"sku-17")
                continue
            database.query("BEGIN")
            update(2, b"sku-17")
            time.sleep(IDLE_S)
            database.query("COMMIT")


DRIVERS: dict[str, Callable[[int, str], None]] = {
    "psycopg": psycopg,
    "asyncpg": asyncpg,
    "pymysql": pymysql,
}

if __name__ == "__main__":
    DRIVERS[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
