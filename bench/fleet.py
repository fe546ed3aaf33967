"""``python -m bench.fleet``: what a fleet of agents sends, and where the receivers are full.

A simulation with the figures that ``python -m bench scale kafka`` measured here. See docs/scale.md.
"""

import argparse
import math
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import results
from bench.scale import RATE

_SECONDS = 3600
_BURST_S = 60
_SPREAD = (
    1.2  # of the logarithms of rates: the busiest tenth of hosts has nearly half of the traffic
)
_FULL = 0.8
"""Of its capacity a receiver is used at most: more, and a burst waits for long."""


@dataclass(frozen=True)
class Fleet:
    """Hosts with ``rate`` exchanges a second on average, over ``connections`` each.

    Each host has ``bursts`` an hour, of a minute with ``burst_factor`` times its rate.
    """

    hosts: int
    rate: float
    connections: int
    bursts: float
    burst_factor: float
    partitions: int
    seed: int = 1


@dataclass(frozen=True)
class Load:
    """Exchanges a second: of the whole fleet in each second, and of its busiest partition."""

    whole: np.ndarray
    busiest: np.ndarray

    @property
    def mean(self) -> float:
        """Of the whole fleet, on average."""
        return float(self.whole.mean())

    @property
    def peak(self) -> float:
        """Of the whole fleet, in the busiest second."""
        return float(self.whole.max())

    @property
    def skew(self) -> float:
        """How much more than its share the busiest partition has, on average."""
        return float(self.busiest.mean() / self.whole.mean())


def simulate(fleet: Fleet) -> Load:
    """Return the load of an hour.

    A host's rate is drawn from a log-normal distribution; its connections go to partitions by the
    hashes of their keys, so evenly but for chance. Bursts of hosts begin at random.
    """
    random = np.random.default_rng(fleet.seed)
    rates = random.lognormal(0, _SPREAD, fleet.hosts)
    rates *= fleet.rate / rates.mean()
    whole = np.full(_SECONDS, rates.sum())
    partitions = np.zeros((fleet.partitions, _SECONDS))
    for rate in rates:
        own = random.multinomial(fleet.connections, np.full(fleet.partitions, 1 / fleet.partitions))
        shares = own / fleet.connections
        partitions += (rate * shares)[:, None]
        for _ in range(random.poisson(fleet.bursts)):
            begin = random.integers(0, _SECONDS - _BURST_S)
            more = rate * (fleet.burst_factor - 1)
            whole[begin : begin + _BURST_S] += more
            partitions[:, begin : begin + _BURST_S] += more * shares[:, None]
    return Load(whole, partitions.max(axis=0) * fleet.partitions)


@dataclass(frozen=True)
class Output:
    """What an exchange takes at the host, in seconds of CPU, and how many bytes it sends.

    ``receiver_cpu_s``: of the Collector or broker; None for a file.
    """

    name: str
    cpu_s: float
    out_bytes: float
    receiver_cpu_s: float | None


def outputs() -> list[Output]:
    """Return the outputs that were measured."""
    rows = {row.what: row for row in results.load().parts["scale"]}
    found = []
    for what, row in rows.items():
        name = what.partition(", ")[2].removesuffix(": CPU")
        if what.endswith(": CPU"):
            out = rows[what.removesuffix("CPU") + "out"].value
            taken = rows.get(f"{what} of the receiver")
            receiver_s = taken.value / 100 / RATE if taken is not None else None
            found.append(Output(name, row.value / 100 / RATE, out, receiver_s))
    return found


def decoded_rate() -> float:
    """Return how many exchanges a second one consumer decodes from Kafka."""
    [row] = [
        row for row in results.load().parts["kafka"] if row.what.endswith("two consumers sooner")
    ]
    one_s = float(row.note.rpartition("one ")[2].removesuffix(" s"))
    chunks = int(row.what.partition(" ")[0].replace(",", ""))
    return chunks / 2 / one_s


def consumers_for(load: Load, rate: float) -> int:
    """Return how many consumers decode the busiest second in time, each ``rate`` exchanges/s."""
    return math.ceil(load.peak * load.skew / (rate * _FULL))


def main() -> None:
    """Print what a fleet sends, and what receives it."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=100, help="exchanges/s of a host, on average")
    parser.add_argument("--connections", type=int, default=50, help="of a host, open at once")
    parser.add_argument("--bursts", type=float, default=1, help="of a host, in an hour")
    parser.add_argument("--burst-factor", type=float, default=10)
    parser.add_argument("--partitions", type=int, default=256)
    given = parser.parse_args()
    fleet = Fleet(**vars(given))
    load, decoded = simulate(fleet), decoded_rate()
    print(
        f"{fleet.hosts:,} hosts: {load.mean:,.0f} exchanges/s on average, {load.peak:,.0f} in the"
        f" busiest second; the busiest of {fleet.partitions} partitions has {load.skew:.2f} times"
        " its share"
    )
    table = Table(
        "output", "CPU of a host", "sent by a host", "by the fleet", "in its peak", "receivers"
    )
    for each in outputs():
        table.add_row(
            each.name,
            f"{100 * each.cpu_s * fleet.rate:.1f} %",
            f"{each.out_bytes * fleet.rate / 1e3:,.0f} kB/s",
            f"{each.out_bytes * load.mean / 1e6:,.0f} MB/s",
            f"{each.out_bytes * load.peak / 1e6:,.0f} MB/s",
            _processors(each, load),
        )
    Console(width=120).print(table)
    needed = consumers_for(load, decoded)
    print(
        f"receivers: processors of Collectors or brokers that the peak needs, {_FULL:.0%} used\n"
        f"plaintext through Kafka: a consumer decodes {decoded:,.0f} exchanges/s, so the peak needs"
        f" {needed:,} consumers and as many partitions; {fleet.partitions} partitions are"
        f" {'enough' if fleet.partitions >= needed else 'too few'}"
    )


def _processors(output: Output, load: Load) -> str:
    if output.receiver_cpu_s is None:
        return ""
    return f"{math.ceil(output.receiver_cpu_s * load.peak / _FULL):,}"


if __name__ == "__main__":
    main()
