"""What each standard hook costs in training: per iteration and per epoch, beside a step of LeNet; the table of docs/hooks.md.

usage: hook_costs.py [--write] [HOOK ...]

Each hook runs alone, with the options below, over LeNet (`benches/lenet_job.json`) on drawn digits, once with few and once with
many batches an epoch; the times are those that the host takes of each call, so the rest of the machine's noise stays outside.
Needs `cargo build --release`. `--write` puts the table into docs/hooks.md.
"""
import argparse, http.server, json, os, pathlib, subprocess, sys, tempfile, threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
FEW, MANY, EPOCHS = 20, 120, 2
# Hooks that need options, or whose defaults do nothing in so short a run.
OPTIONS = {
    "stop-after": {"epochs": 1000},
    "time-limit": {"hours": 100},
    "check": {"monitor": "loss", "required": 1000, "rule": "less", "by_epoch": 1000},
    "lr-schedule": {"schedule": {"kind": "cosine"}},
    "lr-range-test": {"min": 1e-6, "max": 1e-5, "steps": 10},
    "grad-clip": {"max_norm": 1.0},
    "freeze": {"parameters": ["conv1.*"], "until_epoch": 100},
    "accumulation-schedule": {"factors": {"0": 1}},
    "prune": {"amount": 0.5, "begin": 5, "end": 100, "every": 10},
    "weight-constraint": {"kind": "max-norm", "max": 3.0},
    "grad-noise": {"eta": 0.3},
    "precise-batchnorm": {"samples": 100},
    "swa": {"start": 0.5},
    "early-stopping": {"patience": 1000},
    "stop-on-nan": {"watch": ["loss", "gradients"]},
    "save-file": {"files": [str(ROOT / "README.md")]},
    "output-mask": {"present": [str(digit) for digit in range(10)], "phases": ["val"]},
    "accumulate": {"variables": ["outputs", "targets"], "phases": ["val"], "save": "npy"},
    "compute-stats": {"variables": {"outputs": ["mean", "std"]}},
    "plot-lines": {"metrics": ["loss", "val/accuracy"]},
}
# They speak to a server of their own, or need what this model has not.
LEFT_OUT = {"overfit-check": "ends its run; one look at the loss", "mlflow": "as `webhook`", "precise-batchnorm": "a pass over its samples per call", "python": "what its methods cost; see its page", "samples": "what its texts take to write"} | {name: "part of its method; see its page" for name in ("barlow-twins", "byol", "deep-cluster", "dino", "ibot", "moco", "simclr", "swav", "vicreg")}


def server():
    """Takes whatever is posted; its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{listening.server_port}/"


def run(hooks, batches):
    """`run.json` of a run."""
    sconce = os.environ.get("SCONCE", str(ROOT / "target/release/sconce"))
    with tempfile.TemporaryDirectory() as output:
        command = [sconce, "run", str(ROOT / "tests/benches/lenet_job.json"), "--output", f"{output}/run", "--quiet"]
        data = {"kind": "synthetic-digits", "train": FEW * 64, "val": 256, "test": 1}
        data["train"] = MANY * 64
        settings = {"data": data, "train.epochs": EPOCHS, "train.limit_train": batches, "train.test": False, "hooks": hooks}
        for path, value in settings.items():
            command += ["--set", f"{path}={json.dumps(value)}"]
        finished = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_PROXY": "127.0.0.1"})
        record = pathlib.Path(output) / "run/run.json"
        if finished.returncode != 0:
            return None, finished.stderr.strip().splitlines()[0] if finished.stderr.strip() else "failed"
        return json.loads(record.read_text()), None


def seconds(record):
    """What hooks took in training and validation passes, and around them as far as it is told."""
    return sum(hook["seconds"] for phase in record["profile"].values() for hook in phase["hooks"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("hooks", nargs="*")
    arguments = parser.parse_args()
    sconce = os.environ.get("SCONCE", str(ROOT / "target/release/sconce"))
    listed = json.loads(subprocess.run([sconce, "plugins", str(pathlib.Path(sconce).parent), "--json"], capture_output=True, text=True).stdout)
    names = sorted(hook["name"] for plugin in listed["plugins"] if plugin["name"].startswith("sconce-plugin-") for hook in plugin["hooks"])
    address = server()
    bare, problem = run([], MANY)
    if problem:
        sys.exit(problem)
    train = bare["profile"]["train"]
    step = 1e3 * train["total"] / (EPOCHS * MANY)
    lines = [f"A step of the bare run: {step:.2f} ms.", "", "| hook | µs per iteration | of a step | ms per epoch |", "|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    for name in names:
        if arguments.hooks and name not in arguments.hooks:
            continue
        if name in LEFT_OUT:
            lines.append(f"| `{name}` | {LEFT_OUT[name]} | | |")
            continue
        options = {"url": address} if name == "webhook" else OPTIONS.get(name, {})
        hooks = [{"hook": name, "config": options}]
        (few, problem), (many, _) = run(hooks, FEW), run(hooks, MANY)
        if problem or many is None:
            print(f"{name}: {problem}", file=sys.stderr)
            continue
        # Below what can be measured, the difference may be negative.
        each = max((seconds(many) - seconds(few)) / (EPOCHS * (MANY - FEW)), 0)
        epoch = seconds(few) / EPOCHS - FEW * each
        lines.append(f"| `{name}` | {1e6 * each:.1f} | {0.1 * 1e6 * each / step:.2f} % | {1e3 * max(epoch, 0):.2f} |")
        print(lines[-1], flush=True)
    if arguments.write:
        page = ROOT / "docs/hooks.md"
        text = page.read_text()
        before, rest = text.split("<!-- costs -->\n")
        after = rest.split("<!-- end of costs -->")[1]
        page.write_text(before + "<!-- costs -->\n" + "\n".join(lines) + "\n<!-- end of costs -->" + after)


main()
