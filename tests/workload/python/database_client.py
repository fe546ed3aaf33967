"""Talks to a database over TLS: ``database_client.py DRIVER PORT PASSWORD``."""

import asyncio
import contextlib
import ssl
import sys


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


def pymysql(port: int, password: str) -> None:
    import pymysql

    database = pymysql.connect(
        host="127.0.0.1",
        port=port,
        user="app",
        password=password,
        database="shop",
        ssl=tls(),
        autocommit=True,
    )
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


if __name__ == "__main__":
    {"psycopg": psycopg, "asyncpg": asyncpg, "pymysql": pymysql, "redis": redis}[sys.argv[1]](
        int(sys.argv[2]), sys.argv[3]
    )
