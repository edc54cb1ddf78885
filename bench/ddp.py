#!/usr/bin/env python3
"""Stock DistributedDataParallel, its own compressing hooks and Laconic, side by side.

    bench/ddp.py --hosts 4 --rate 100mbit                      hosts with shaped links (root)
    bench/ddp.py --hosts 2 --rate loopback --model 60m         processes on this machine
    bench/ddp.py --json > a.json; ...; bench/ddp.py --merge a.json b.json      one table of several short runs
    bench/ddp.py --model gpt10m --text input.txt --train 200 --variants stock,recipe=grid      loss on held-out text by seconds of training

All variants live in the same processes and take turns, round by round, so that a busy machine is busy for all. A round is a few
steps of forward, backward and SGD between two barriers. Shown are medians over rounds and, for what a variant gains over the
first one, the middle 80 % of the rounds' ratios. Bytes are those that left the interface; "of the line" is how much of the link's rate they
take, in the time by which a step is longer than the same without any exchange.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import hosts as shaped  # noqa: E402
from torch_models import MODELS, optimizer_of, task_of  # noqa: E402

ALONE = "compute alone"  # without any exchange
VARIANTS = [
    "stock", "fp16", "powersgd-hook:1", "powersgd-hook:4", "dense", "natural exchange=sharded",
    "natural exchange=sharded bucket_cap_mb=4", "topk:0.01+natural memory=feedback", "sbc:0.01 memory=feedback",
    "exchange=powersgd:1", "exchange=powersgd:4",
]  # fmt: skip


def attach_variant(variant, build, torch):
    """A DDP model with what the variant says. `bucket_cap_mb=` is DDP's own: smaller buckets leave earlier."""
    from torch.nn.parallel import DistributedDataParallel

    settings = [word for word in variant.split() if not word.startswith("bucket_cap_mb=")]
    buckets = {"bucket_cap_mb": int(word.partition("=")[2]) for word in variant.split() if word not in settings}
    name, *settings = settings
    if name == "stock":
        return DistributedDataParallel(build(), **buckets)
    if name == "fp16":
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        ddp = DistributedDataParallel(build(), **buckets)
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        return ddp
    if name.startswith("powersgd-hook"):
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

        # With several buckets it hangs on gloo; it runs with one.
        first = torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
        torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 1 << 30
        ddp = DistributedDataParallel(build(), bucket_cap_mb=1000)
        torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = first
        rank = int(name.partition(":")[2] or 1)
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=2)
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        return ddp
    import laconic_comm

    ddp = DistributedDataParallel(build(), **buckets)
    options = {"guard": "off", **dict(setting.split("=", 1) for setting in (settings if "=" not in name else [name, *settings]))}
    if name == "dense":
        laconic_comm.attach(ddp, **{"recipe": "dense", **options})
    else:
        laconic_comm.attach(ddp, None if "=" in name else name, **options)
    return ddp


def sent_bytes():
    device = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    with open(f"/sys/class/net/{device}/statistics/tx_bytes") as file:
        return int(file.read())


def work(options):
    """One rank. Rank 0 prints the rounds as JSON."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    task = task_of(torch, options.model, options.batch, dist.get_rank(), options)
    if options.train:
        train(options, task, torch, dist)
        dist.barrier()
        os._exit(0)
    (x, y), loss = task.batch(0), task.loss
    models = {}
    for variant in [ALONE, *options.variants]:
        model = task.build() if variant == ALONE else attach_variant(variant, task.build, torch)
        models[variant] = model, torch.optim.SGD(model.parameters(), lr=0.01)

    def steps(variant, count):
        model, sgd = models[variant]
        for _ in range(count):
            sgd.zero_grad(set_to_none=False)
            loss(model(x), y).backward()
            sgd.step()

    def timed(run):
        dist.barrier()
        start, cpu, sent = time.perf_counter(), time.process_time(), sent_bytes()
        run()
        mine = torch.tensor([time.perf_counter() - start, time.process_time() - cpu, float(sent_bytes() - sent)], dtype=torch.float64)
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)
        return mine.tolist()

    rounds = []
    for variant in models:
        steps(variant, 4)  # buckets rebuilt, warm starts made
    if options.gate and dist.get_rank() == 0:
        wait_for_gate(options.gate)
    for number in range(options.rounds):
        rounds.append({variant: timed(lambda: steps(variant, options.steps)) for variant in models})
        if dist.get_rank() == 0:
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    if dist.get_rank() == 0:
        print("ROUNDS " + json.dumps(rounds), flush=True)
    dist.barrier()
    os._exit(0)  # gloo's threads may hang at exit where the interpreter's end is not theirs


def train(options, task, torch, dist):
    """Variants one after the other, each from the same start: [step, seconds of training, loss on what is held out]. One that has come to the
    loss of --until ends there."""
    for number, variant in enumerate(options.variants):
        ddp = attach_variant(variant, task.build, torch)
        optimizer = optimizer_of(torch, options.model, ddp.parameters())
        seconds, points, sent = 0.0, [], 0
        for step in range(options.train + 1):
            if step % options.every == 0 or step == options.train:
                points.append([step, seconds, held_out_loss(task, ddp, torch, dist)])
                if points[-1][2] <= options.until:
                    break
            if step == 1 and options.gate and number == 0:  # parameters have been told, buckets made
                if dist.get_rank() == 0:
                    wait_for_gate(options.gate)
                dist.barrier()
            start, before = time.perf_counter(), sent_bytes()
            if step < options.train:
                x, y = task.batch(step)
                optimizer.zero_grad(set_to_none=False)
                task.loss(ddp(x), y).backward()
                optimizer.step()
            seconds += time.perf_counter() - start
            sent += sent_bytes() - before
        if dist.get_rank() == 0:
            print("POINTS " + json.dumps({"variant": variant, "points": points, "bytes": sent / max(1, points[-1][0])}), flush=True)


def held_out_loss(task, ddp, torch, dist):
    """Each rank's share of it, added up: the same number on all."""
    x, y = task.held_out()
    mine = zip(*(of[dist.get_rank() :: dist.get_world_size()].split(64) for of in (x, y)))
    ddp.module.eval()
    with torch.no_grad():
        told = torch.tensor([sum(float(task.loss(ddp.module(a), b)) * len(b) for a, b in mine)], dtype=torch.float64)
    ddp.module.train()
    dist.all_reduce(told)
    return float(told) / len(y)


# Links are shaped when all is warm: at their rate the models' broadcasts alone would take minutes.
def wait_for_gate(folder):
    open(os.path.join(folder, "warm"), "w").close()
    while not os.path.exists(os.path.join(folder, "shaped")):
        time.sleep(0.05)


def run_on_hosts(command, options):
    shaped.bits_per_second(options.rate)  # what is none is said at once
    with tempfile.TemporaryDirectory() as folder, shaped.Hosts(options.hosts) as hosts:
        warm, done = os.path.join(folder, "warm"), os.path.join(folder, "shaped")

        def shape_when_warm(_):
            if os.path.exists(warm) and not os.path.exists(done):
                hosts.shape(options.rate)
                open(done, "w").close()

        return hosts.run([*command, "--gate", folder], options.timeout, meanwhile=shape_when_warm)


def middle(values, share):
    """Quantiles that hold this share of the values between them."""
    ordered = sorted(values)
    cut = (1 - share) / 2 * (len(ordered) - 1)
    return ordered[round(cut)], ordered[round(len(ordered) - 1 - cut)]


def summary(rounds, options):
    first = options.variants[0]
    rows = []
    bits = None if options.rate == "loopback" else shaped.bits_per_second(options.rate)
    alone = statistics.median(one[ALONE][0] for one in rounds)
    for name in rounds[0]:
        seconds = [one[name][0] / options.steps for one in rounds]
        ratios = [one[first][0] / one[name][0] for one in rounds]
        cpu = [one[name][1] / one[first][1] for one in rounds]
        low, high = middle(ratios, 0.8)
        sent = statistics.median(one[name][2] for one in rounds)
        # What the busiest host sends, beside what its link carries while nobody computes.
        beyond = statistics.median(one[name][0] for one in rounds) - alone
        rows.append({
            "variant": name,
            "samples_per_second": options.batch * options.hosts / statistics.median(seconds),
            "speedup": statistics.median(ratios), "speedup_low": low, "speedup_high": high,
            "cpu": statistics.median(cpu), "cpu_seconds": statistics.median(one[name][1] for one in rounds) / options.steps,
            "sent_megabytes": sent / options.steps / 1e6,
            "line": 8 * sent / bits / beyond if bits and beyond > 0 else None,
        })  # fmt: skip
    return rows


def show(rows, options):
    print(f"{options.hosts} hosts, {options.rate}, model {options.model}, batch {options.batch} per host, {options.rounds} rounds\n")
    print(f"| variant | samples/s | x {options.variants[0]} [middle 80 %] | CPU x | CPU ms per step | MB sent per host and step | of the line |\n|---|---|---|---|---|---|---|")
    for row in rows:
        line = f"{row['line']:.0%}" if row["line"] else "-"
        print(f"| {row['variant']} | {row['samples_per_second']:.1f} | {row['speedup']:.2f} [{row['speedup_low']:.2f}-{row['speedup_high']:.2f}] "
              f"| {row['cpu']:.2f} | {1e3 * row['cpu_seconds']:.1f} | {row['sent_megabytes']:.3f} | {line} |")  # fmt: skip


def show_training(said):
    """A line of JSON for each variant."""
    lines = [line.removeprefix("POINTS ") for line in said.splitlines() if line.startswith("POINTS ")]
    if not lines:
        raise shaped.Trouble(f"rank 0 has no losses; it said:\n{said.strip()}")
    print("\n".join(lines))
    return 0


def merged(files):
    """Rounds of several runs of the same kind, and what they were."""
    runs = []
    for name in files:
        try:
            with open(name) as file:
                runs.append(json.load(file))
        except (OSError, ValueError) as error:
            raise shaped.Trouble(f"'{name}' is no output of --json: {error}") from None
    for key in ("hosts", "rate", "model", "batch", "steps"):
        if len({run.get(key) for run in runs}) > 1:
            raise shaped.Trouble(f"the runs differ in '{key}'")
    if len({tuple(run["rounds"][0]) for run in runs}) > 1:
        raise shaped.Trouble("the runs differ in their variants")
    return runs[0], [one for run in runs for one in run["rounds"]]


def run_on_loopback(command, options):
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000),
                       WORLD_SIZE=str(options.hosts), GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # fmt: skip
    processes = [
        subprocess.Popen(command, env=dict(environment, RANK=str(i)), text=True, stdout=subprocess.PIPE if i == 0 else subprocess.DEVNULL)
        for i in range(options.hosts)
    ]
    try:
        said = processes[0].communicate(timeout=options.timeout)[0]
    except subprocess.TimeoutExpired:
        raise shaped.Trouble(f"the processes take longer than {options.timeout} seconds") from None
    finally:
        for process in processes:
            process.kill()
    return said


def main():
    parser = argparse.ArgumentParser(description="Compares stock DDP, torch's hooks and Laconic, interleaved.")
    parser.add_argument("--hosts", type=int, default=4, help="how many (4)")
    parser.add_argument("--rate", default="100mbit", help=f"of every link: {', '.join(shaped.RATES)} or loopback (100mbit)")
    parser.add_argument("--model", choices=MODELS, default="10m", help="how many parameters (10m)")
    parser.add_argument("--batch", type=int, default=16, help="per host (16)")
    parser.add_argument("--rounds", type=int, default=8, help="(8)")
    parser.add_argument("--steps", type=int, default=1, help="in a round (1)")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="comma-separated; the first is what others are compared with")
    parser.add_argument("--train", type=int, default=0, metavar="STEPS", help="train each variant for so many steps and tell its loss")
    parser.add_argument("--until", type=float, default=0, metavar="LOSS", help="with --train: a variant ends when its loss is this or less")
    parser.add_argument("--every", type=int, default=20, help="steps between losses (20)")
    parser.add_argument("--cifar", help="folder of CIFAR-10's binary batches, for resnet20; else images are drawn")
    parser.add_argument("--text", help="for a GPT; else letters are drawn")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds (3600)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="outputs of --json, shown as one")
    parser.add_argument("--gate", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.variants = [v.strip() for v in options.variants.split(",")]
    if options.worker:
        try:
            return work(options)
        except Exception as error:  # said in one sentence by whoever reads this rank's output
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(1)
    if options.merge:
        try:
            run, rounds = merged(options.merge)
        except shaped.Trouble as trouble:
            print(f"ddp: {trouble}", file=sys.stderr)
            return 1
        for key in ("hosts", "rate", "model", "batch", "steps"):
            setattr(options, key, run[key])
        options.rounds, options.variants = len(rounds), [name for name in rounds[0] if name != ALONE]
        show(summary(rounds, options), options)
        return 0
    # Freed blocks stay mapped, for everybody alike: page faults would hide what is compared.
    os.environ["GLIBC_TUNABLES"] = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=68719476736:glibc.malloc.top_pad=67108864"
    command = [sys.executable, os.path.abspath(__file__), "--worker", *sys.argv[1:]]
    shaped.stop_on_signals()
    try:
        if options.rate == "loopback":
            said = run_on_loopback(command, options)
        else:
            said = run_on_hosts(command, options)
        if options.train:
            return show_training(said)
        lines = [line for line in said.splitlines() if line.startswith("ROUNDS ")]
        if not lines:
            raise shaped.Trouble(f"rank 0 has no figures; it said:\n{said.strip()}")
    except shaped.Trouble as trouble:
        print(f"ddp: {trouble}", file=sys.stderr)
        return 1
    rounds = json.loads(lines[0][len("ROUNDS "):])
    rows = summary(rounds, options)
    if options.json:
        print(json.dumps({"hosts": options.hosts, "rate": options.rate, "model": options.model, "batch": options.batch,
                          "steps": options.steps, "rounds": rounds, "rows": rows}))  # fmt: skip
    else:
        show(rows, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
