#!/usr/bin/env python3
"""How training scales with the number of ranks: a model of it, and a check of the model on this machine.

    tests/scaling.py [--docs] [--team FILE ...] [--model NAME=MEGABYTES,MILLISECONDS ...] [--work NANOSECONDS]
    tests/scaling.py --check SCONCE PLUGINS [--rounds 5]
    tests/scaling.py --measure SCONCE PLUGINS [--rounds 5]

Without arguments, prints the efficiency of weak scaling (the fraction of the time that ranks compute, with as much work per
rank as in one process) for three models on three networks, beside the figures of the design paper. `--team` takes the output
of `mpirun -n N sconce team --json` instead: the network as it was measured between N ranks.

The model of an update's synchronisation: messages take α each, one after the other, and bytes take 1/β. Three gathers of
headers (update, step, vote), one collection of notes, the exchange of pieces of the gradients and the collection of the sums;
each rank sends 2·(R-1)/R of the gradients' bytes, and as much work as `--work` says is done for each byte on the rank itself.

`--check` trains a small network on 1, 2 and 4 ranks with emulated networks (plugins/sockets/src/network.rs), compares the time
per update with that without one, and ends with 1 if the difference is not the predicted one. `--measure` finds the sum's own
work: the processor time of an update with one beside that without one; use a release build.
"""

import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
from typing import NamedTuple


class Network(NamedTuple):
    name: str
    latency: float  # seconds of a message: α
    bandwidth: float  # bytes per second: β
    source: str = ""


class Model(NamedTuple):
    name: str
    bytes: float  # of all gradients
    step: float  # seconds of a step of one process
    # Fractions of the gradients that are ready at the end of the backward pass only, and of the step that can hide the
    # others' exchange. Nothing measures them yet: they are those that the paper's overlapped figures follow from.
    last: float = 0.2
    hiding: float = 0.5


# The paper names no α and β. These β follow from its blocking figures on 2 nodes, so that they agree there proves nothing;
# those on 16 and 256 nodes do. α is a guess, such as TCP and RDMA have.
ETHERNET_1 = Network("1 Gbit/s", 50e-6, 0.117e9, "α assumed; β 94 % of the line's rate, fitted to the paper on 2 nodes")
ETHERNET_10 = Network("10 Gbit/s", 25e-6, 1.1e9, "α assumed; β 88 % of the line's rate, fitted to the paper on 2 nodes")
FABRIC_100 = Network("100 Gbit/s", 2e-6, 11e9, "α and β assumed, β as at 10 Gbit/s")
# Bytes and times of the paper, measured on two cores with its prototype; the large one's are computed there.
LENET = Model("lenet", 4.4e6, 7.5e-3, last=0.24, hiding=0.45)
GPT = Model("gpt", 3.4e6, 17.5e-3, last=0.36, hiding=0.5)
LARGE = Model("100 M parameters", 400e6, 2.1, last=0.12, hiding=0.57)
# Section 5 of shared/reference/many-machines.md: blocking, overlapped, overlapped with bf16, by the number of nodes.
PAPER = [
    (LENET, ETHERNET_10, {2: (0.64, 0.88, 0.93), 16: (0.49, 0.63, 0.88), 256: (0.47, 0.60, 0.86)}),
    (LENET, FABRIC_100, {2: (0.92, 0.98, 0.99), 16: (0.86, 0.96, 0.98), 256: (0.85, 0.95, 0.98)}),
    (GPT, ETHERNET_10, {2: (0.85, 0.94, 0.97), 16: (0.74, 0.89, 0.94), 256: (0.73, 0.88, 0.93)}),
    (LARGE, ETHERNET_1, {2: (0.38, 0.49, 0.80), 16: (0.25, 0.29, 0.51), 256: (0.24, 0.27, 0.49)}),
    (LARGE, ETHERNET_10, {2: (0.85, 0.98, 0.99), 16: (0.75, 0.96, 0.98), 256: (0.74, 0.96, 0.98)}),
    (LARGE, FABRIC_100, {2: (0.97, 1.00, 1.00), 16: (0.95, 0.99, 1.00), 256: (0.95, 0.99, 1.00)}),
]
# Calls of an update with few bytes, and those that move gradients.
SMALL, LARGE_CALLS = 4, 2
# Seconds per byte of gradients.
WORK = 0.7e-9
WORK_SOURCE = "--measure on two busy cores, release build: 0.68 and 0.87"


def messages(ranks, is_direct):
    """Messages of an update that a rank sends one after the other.

    Directly, as the plugin `sockets` does, every call sends to every other rank. An MPI gathers small things along a tree,
    and moves large ones in as many steps as there are other ranks.
    """
    small = ranks - 1 if is_direct else math.ceil(math.log2(ranks))
    return SMALL * small + LARGE_CALLS * (ranks - 1)


def nodes(rank, batches):
    """Number of the largest nodes of a binary tree over all batches that cover a rank's block of this many."""
    begin, end, count = rank * batches, (rank + 1) * batches, 0
    while begin < end:
        length = 1
        while begin % (2 * length) == 0 and begin + 2 * length <= end:
            length *= 2
        begin, count = begin + length, count + 1
    return count


def moved(size, ranks, batches=1):
    """Bytes of gradients that the busiest rank sends or receives in an update, whichever are more."""
    piece = size / ranks
    own = [nodes(rank, batches) for rank in range(ranks)]
    exchanged = max(max(each * (size - piece), (sum(own) - each) * piece) for each in own)
    return exchanged + size - piece


def transfer(network, size, ranks, is_direct=False, batches=1):
    """Seconds that an update's synchronisation takes on the network."""
    return network.latency * messages(ranks, is_direct) + moved(size, ranks, batches) / network.bandwidth


def efficiency(model, network, ranks, is_halved=False, is_overlapped=False, work=0.0):
    time = transfer(network, model.bytes * (0.5 if is_halved else 1.0), ranks)
    if is_overlapped:
        time = max(model.last * time, time - model.hiding * model.step)
    return model.step / (model.step + time + work * model.bytes)


def print_networks(networks):
    for network in networks:
        latency, bandwidth = network.latency * 1e6, network.bandwidth / 1e9
        print(f"{network.name}: α = {latency:g} µs, β = {bandwidth:.3g} GB/s ({network.source})")


def print_beside_paper(work):
    print_networks([ETHERNET_1, ETHERNET_10, FABRIC_100])
    for model in (LENET, GPT, LARGE):
        print(f"{model.name}: {model.bytes / 1e6:g} MB of gradients, {model.step * 1e3:g} ms a step (the paper's)")
    print(f"the sum's own work on the ranks: {work * 1e9:g} ns/byte ({WORK_SOURCE if work == WORK else 'given'})")
    print("\nEfficiency, computed. `network`: blocking, without the sum's own work, as in the paper. `own`, `bf16`: what Sconce does,")
    print("blocking and with that work, by `wire`. The rest is NOT BUILT: if overlapped with the backward pass, without the work; how much")
    print("the backward pass can hide is fitted to the paper's overlapped figures.\n")
    heads = ["model", "network", "nodes", "network", "paper", "diff.", "own", "bf16", "overl.", "paper", "o.+bf16", "paper"]
    widths = [18, 12, 7] + [9] * 9
    line = lambda cells: "".join(str(cell).ljust(width) for cell, width in zip(cells, widths)).rstrip()
    print(line(heads))
    largest = {}
    for model, network, rows in PAPER:
        for ranks, (blocking, overlapped, both) in rows.items():
            found = efficiency(model, network, ranks)
            largest[ranks] = max(largest.get(ranks, 0.0), abs(found - blocking))
            today = [efficiency(model, network, ranks, is_halved, work=work) for is_halved in (False, True)]
            planned = [efficiency(model, network, ranks, is_halved, True) for is_halved in (False, True)]
            cells = [found, blocking, found - blocking, *today, planned[0], overlapped, planned[1], both]
            shown = [f"{cell:+.2f}" if place == 2 else f"{cell:.2f}" for place, cell in enumerate(cells)]
            print(line([model.name, network.name, ranks, *shown]))
    print("\nLargest difference, blocking:", ", ".join(f"{ranks} nodes {worst:.2f}" for ranks, worst in largest.items()))
    print(
        "At 100 Gbit/s the paper is lower by what 0.055 ns a byte beside the network would take, and less than the sum's own work.\n"
        "At 256 nodes ours are lower where steps are short: an exchange among R ranks is R-1 messages, and so is a collection;\n"
        "the paper's don't grow with R. An MPI that sends to several ranks at once lies in between."
    )


def print_for_docs(work):
    """The table of docs/many-machines.md."""
    print("| model, time of a step | network | 2 nodes | 16 nodes | 256 nodes |")
    print("|---|---|---|---|---|")
    before = None
    for model, network, rows in PAPER:
        step = f"{model.step:g} s" if model.step >= 1.0 else f"{model.step * 1e3:g} ms"
        name = f"{model.name}, {model.bytes / 1e6:g} MB, {step}"
        pairs = [[efficiency(model, network, ranks, halved, work=work) for halved in (False, True)] for ranks in rows]
        cells = " | ".join(f"{own:.2f}, {halved:.2f}" for own, halved in pairs)
        print(f"| {name if model is not before else ''} | {network.name} | {cells} |")
        before = model


def print_measured(files, models, work):
    """Efficiencies on networks that `sconce team --json` has measured."""
    for file in files:
        team = json.loads(pathlib.Path(file).read_text())
        ranks = team["ranks"]
        (small, short), (large, long) = [(4 * each["elements"], each["seconds"]) for each in team["sums"]]
        each = (long - short) / (large - small)
        start = max(short - small * each, 0.0)
        print(f"\n{file}: {ranks} ranks by {team['transport']}, measured: a gather {team['gather_seconds'] * 1e6:.1f} µs,")
        print(f"a sum {start * 1e6:.0f} µs and {each * 1e9:.3g} ns/byte")
        for model in models:
            time = SMALL * team["gather_seconds"] + start + each * model.bytes + work * model.bytes
            print(f"  {model.name}: {time * 1e3:.2f} ms an update beside {model.step * 1e3:g} ms: {model.step / (model.step + time):.2f}")


# --- runs on this machine ---


def manifest(plugins, model, updates, ranks, batches=1, wire="own"):
    count = updates * ranks * batches
    return {
        "name": "scaling",
        "seed": 5,
        "threads": 1,
        "plugins": [str(plugins.resolve())],
        "model": model,
        "data": {"kind": "synthetic-digits", "train": count, "val": 1, "test": 1, "size": 20},
        "metrics": [],
        "optimizer": {"kind": "sgd", "learning_rate": 0.001},
        "train": {"epochs": 1, "batch_size": 1, "accumulate": batches, "test": False},
        "distributed": {"batches": "rank", "wire": wire, "check_every": 0, "timeout": 120},
        "hooks": [],
    }


class Run(NamedTuple):
    update: float  # seconds of an update
    bytes: int  # of the parameters


def parameter_bytes(file):
    with open(file, "rb") as weights:
        (length,) = struct.unpack("<Q", weights.read(8))
        header = json.loads(weights.read(length))
    entries = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
    return sum(end - begin for begin, end in entries)


def run(sconce, content, ranks, network=None):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCONCE_TEAM_")}
    if network:
        environment["SCONCE_TEAM_LATENCY"] = str(network.latency * 1e6)
        if math.isfinite(network.bandwidth):
            environment["SCONCE_TEAM_BANDWIDTH"] = str(network.bandwidth / 1e6)
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "run.json").write_text(json.dumps(content))
        words = ["run"] if ranks == 1 else ["launch", "-n", str(ranks)]
        command = [sconce, *words, str(place / "run.json"), "--output", str(place / "out"), "--quiet"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(command)}: {ended.returncode}\n{ended.stdout}{ended.stderr}")
        record = json.loads((place / "out/run.json").read_text())
        seconds = record["profile"]["train"]["total"]
        return Run(seconds / record["updates"], parameter_bytes(place / "out/weights.safetensors"))


def median(runs):
    return statistics.median(each.update for each in runs)


CHECKED = {"kind": "convnet", "channels": [4, 8], "hidden": [256, 256]}
UPDATES = 60
# Difference between the predicted and the measured time that is accepted, and the time below which none is measured.
TOLERANCE, SMALLEST = 0.3, 2e-3
# Networks whose messages, whose bytes, and both take time; batches per rank and update, of which 3 are two nodes of the
# tree; the gradients' type on the way.
CASES = [
    (Network("2 ms a message", 2e-3, math.inf), 1, "own"),
    (Network("20 MB/s", 0.0, 20e6), 1, "own"),
    (Network("0.5 ms, 20 MB/s", 0.5e-3, 20e6), 1, "own"),
    (Network("0.5 ms, 20 MB/s", 0.5e-3, 20e6), 1, "bf16"),
    (Network("20 MB/s", 0.0, 20e6), 3, "own"),
]


def check(sconce, plugins, rounds):
    """Whether emulated networks make updates as much longer as predicted."""
    alone = median([run(sconce, manifest(plugins, CHECKED, UPDATES, 1), 1) for _ in range(rounds)])
    print(f"1 rank: {alone * 1e3:.2f} ms an update (medians of {rounds} runs of {UPDATES} updates)\n")
    print("ranks  network           batches  wire  control  with it  longer by  predicted  ratio     ms an update")
    is_right = True
    for ranks in (2, 4):
        for network, batches, wire in CASES:
            content = manifest(plugins, CHECKED, UPDATES, ranks, batches, wire)
            # In turn, so that both have the same neighbours.
            pairs = [(run(sconce, content, ranks), run(sconce, content, ranks, network)) for _ in range(rounds)]
            control, with_it = (median([pair[place] for pair in pairs]) for place in (0, 1))
            size = pairs[0][0].bytes * (0.5 if wire == "bf16" else 1.0)
            predicted = transfer(network, size, ranks, is_direct=True, batches=batches)
            ratio = (with_it - control) / predicted
            is_measured = predicted >= SMALLEST
            is_right &= not is_measured or abs(ratio - 1.0) <= TOLERANCE
            verdict = "" if is_measured else "  (too short to judge)"
            if is_measured and abs(ratio - 1.0) > TOLERANCE:
                verdict = "  DIFFERS"
            times = [control, with_it, with_it - control, predicted]
            shown = "".join(f"{time * 1e3:9.2f}" + ("  " if place > 1 else "") for place, time in enumerate(times))
            print(f"{ranks:<7}{network.name:<18}{batches:<9}{wire:<4}{shown}{ratio:6.2f}{verdict}", flush=True)
    if not is_right:
        sys.exit(f"a predicted time differs from the measured one by more than {TOLERANCE:.0%}")


def processor_time(sconce, plugins, ranks, rounds):
    """Seconds of processor time of a rank's update, the shortest of the runs, and the bytes of its gradients."""
    short, long = 20, 120
    model = {"kind": "mlp", "hidden": [2000, 2000]}
    found = {}
    for updates in (short, long):
        times = []
        for _ in range(rounds):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            size = run(sconce, manifest(plugins, model, updates, ranks), ranks).bytes
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        found[updates] = min(times)
    return (found[long] - found[short]) / (long - short) / ranks, size


def measure(sconce, plugins, rounds):
    """Prints what a sum costs the ranks' processors: 2 ranks beside one, a network with many parameters."""
    (alone, size), (joint, _) = (processor_time(sconce, plugins, ranks, rounds) for ranks in (1, 2))
    print(f"{size / 1e6:.1f} MB of gradients; processor time of an update, the shortest of {rounds} runs:")
    print(f"  1 rank {alone * 1e3:.2f} ms, 2 ranks {joint * 1e3:.2f} ms each: a sum takes {(joint - alone) / size * 1e9:.2f} ns/byte")
    print("  (--work; with what it takes to pass the bytes through the sockets)")


def described(text):
    name, _, numbers = text.partition("=")
    try:
        megabytes, milliseconds = (float(number) for number in numbers.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is not NAME=MEGABYTES,MILLISECONDS") from None
    return Model(name, megabytes * 1e6, milliseconds * 1e-3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", nargs=2, metavar=("SCONCE", "PLUGINS"), help="compare with runs on this machine")
    parser.add_argument("--measure", nargs=2, metavar=("SCONCE", "PLUGINS"), help="the sum's own work, for --work")
    parser.add_argument("--rounds", type=int, default=5, help="runs of which the median counts")
    parser.add_argument("--team", nargs="+", default=[], metavar="FILE", help="outputs of `sconce team --json`")
    parser.add_argument("--model", nargs="+", type=described, metavar="NAME=MB,MS", help="gradients and step, for --team")
    parser.add_argument("--work", type=float, default=WORK * 1e9, metavar="NS", help="the sum's own work, nanoseconds a byte")
    parser.add_argument("--docs", action="store_true", help="prints the table of docs/many-machines.md")
    given = parser.parse_args()
    if given.check or given.measure:
        sconce, plugins = given.check or given.measure
        (check if given.check else measure)(sconce, pathlib.Path(plugins), given.rounds)
    elif given.team:
        print_measured(given.team, given.model or [LENET, GPT, LARGE], given.work * 1e-9)
    else:
        (print_for_docs if given.docs else print_beside_paper)(given.work * 1e-9)


if __name__ == "__main__":
    main()
