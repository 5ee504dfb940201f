#!/usr/bin/env python3
"""Trains by `sconce.train` in this process, as a user of the package would, and compares the weights with those of the program on the same
data. Needs the package alone; arrays and frames of NumPy, pandas and polars are tried where they are installed.

usage: training_in_python.py SCONCE DIRECTORY    the program, and a directory for what is written
"""
import array
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import warnings

import sconce

PROGRAM, PLACE = sys.argv[1], pathlib.Path(sys.argv[2])
PLUGINS = [os.environ["SCONCE_TEST_PLUGINS"]] if "SCONCE_TEST_PLUGINS" in os.environ else []


def rows():
    """A table of two kinds of flowers."""
    draw = random.Random(4)
    table = {"length": [], "width": [], "soil": [], "kind": []}
    for _ in range(240):
        kind = draw.choice(["rose", "tulip"])
        table["length"].append(draw.gauss(3.0 if kind == "rose" else 5.0, 0.7))
        table["width"].append(draw.gauss(1.0, 0.3))
        table["soil"].append(draw.choice(["sand", "clay, wet", 'a "loam"']))
        table["kind"].append(kind)
    return table


def manifest(**changed):
    """A manifest for the table."""
    made = {
        "name": "flowers",
        "seed": 3,
        "threads": 2,
        "model": {"kind": "mlp", "hidden": [8]},
        "data": {"kind": "csv", "target": "kind", "val": {"fraction": 0.2}, "test": {"fraction": 0.1}},
        "optimizer": {"kind": "adamw", "learning_rate": 0.01},
        "train": {"epochs": 4, "batch_size": 16},
    }
    made.update(changed)
    return made


def digest(directory):
    return hashlib.sha256((directory / "weights.safetensors").read_bytes()).hexdigest()


def by_program(name, made):
    """The run of the program by a manifest; its directory."""
    file = PLACE / f"{name}.json"
    file.write_text(json.dumps({**made, "plugins": PLUGINS}))
    output = PLACE / f"{name}-program"
    subprocess.run([PROGRAM, "run", str(file), "--output", str(output)], check=True, capture_output=True)
    return output


def train(name, made, *arguments, **keywords):
    return sconce.train(made, *arguments, output=PLACE / name, progress=False, plugins=PLUGINS, **keywords)


def refused(kind, words, call):
    """Checks that a call raises an error of a kind, with these words in its text."""
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
        return error
    raise AssertionError(f"not refused: {words}")


class Floats:
    """An array without NumPy."""

    def __init__(self, values, shape, kind="f", typestr="<f4"):
        self.values = array.array(kind, values)
        address, count = self.values.buffer_info()
        self.__array_interface__ = {"shape": shape, "typestr": typestr, "data": (address, False), "version": 3}


def a_table_trains_to_the_programs_bits():
    table = rows()
    run = train("table", manifest(), table)
    assert run.outcome == "completed" and len(run.history) == 4, run
    assert run.metrics["val/accuracy"] > 0.8, run.metrics
    assert list(run.history[0])[:1] == ["epoch"] and "val/loss" in run.history[-1], run.history
    from sconce.training.data import _csv

    (PLACE / "flowers.csv").write_text(_csv("/memory/file", table))
    made = manifest()
    made["data"]["file"] = str(PLACE / "flowers.csv")
    assert digest(run.directory) == digest(by_program("flowers", made)), "other weights than the program's"
    again = train("table-again", manifest(), table)
    assert digest(again.directory) == digest(run.directory), "a second run of the process has other weights"

    predicted = run.predict({name: table[name][:5] for name in ("length", "width", "soil")})
    assert predicted.shape == (5, 2) and set(predicted.names) == {"rose", "tulip"}, predicted
    assert sum(a == b for a, b in zip(predicted.classes, table["kind"])) >= 4, predicted.classes
    assert abs(sum(predicted.tolist()[0]) - 1) < 1e-6
    assert sconce.load(run.directory).predict({name: table[name][:5] for name in table}).tolist() == predicted.tolist()
    assert "val/loss" in run.history._repr_html_()


def arrays_are_read_in_place():
    draw = random.Random(1)
    inputs = [draw.gauss(0, 1) for _ in range(300 * 4)]
    classes = [int(sum(inputs[at : at + 4]) > 0) for at in range(0, len(inputs), 4)]
    made = manifest(data={"kind": "npy", "val": {"fraction": 0.2}})
    run = train("arrays", made, (Floats(inputs, (300, 4)), Floats(classes, (300,), "q", "<i8")))
    assert run.metrics["val/accuracy"] > 0.8, run.metrics
    assert run.predict(Floats(inputs[:8], (2, 4))).shape == (2, 2)
    refused(sconce.DataError, ["shape"], lambda: run.predict(Floats(inputs[:9], (3, 3))))
    refused(sconce.DataError, ["different lengths"], lambda: train("lengths", manifest(), {"a": [1], "kind": [1, 2]}))
    refused(sconce.DataError, ["300", "2"], lambda: train("counts", made, (Floats(inputs, (300, 4)), Floats(classes[:2], (2,), "q", "<i8"))))


class Counts(sconce.Hook):
    """Counts iterations, and stops."""

    def __init__(self, config=None, setup=None):
        super().__init__(config, setup)
        self.iterations = 0
        self.at = (config or {}).get("at", 20)

    def after_iter(self, task):
        if task.phase == "train":
            self.iterations += 1
            if self.iterations == self.at:
                task.stop("enough")

    def state_dict(self):
        return {"iterations": self.iterations}

    def load_state_dict(self, state):
        self.iterations = state["iterations"]


def hooks_are_classes_and_instances():
    hook = Counts()
    before = sys.argv, sys.stdout
    run = train("hooks", manifest(), rows(), [hook, "ema"])
    assert (run.outcome, run.reason, hook.iterations) == ("stopped", "enough", 20), (run, hook.iterations)
    assert (sys.argv, sys.stdout) == before, "the process is not the hooks'"
    assert hook.setup.run_directory == run.directory
    run = train("class", manifest(), rows(), [{"hook": Counts, "config": {"at": 3}, "name": "mine"}])
    assert (run.outcome, run.history) == ("stopped", run.history) and run.manifest["hooks"][0]["name"] == "mine"

    class Breaks(sconce.Hook):
        def before_epoch(self, task):
            raise RuntimeError("broken on purpose")

    error = refused(sconce.HookError, ["broken on purpose"], lambda: train("breaks", manifest(), rows(), [Breaks]))
    assert error.run.outcome == "failed" and error.hook == "Breaks"
    refused(sconce.ManifestError, ["can't run apart"], lambda: train("apart", manifest(), rows(), [{"hook": Counts, "isolation": "process"}]))
    refused(sconce.ManifestError, ["int"], lambda: train("number", manifest(), rows(), [3]))


def hooks_in_processes_of_their_own():
    run = train("isolated", manifest(), rows(), [{"hook": "csv", "isolation": "process"}, Counts])
    assert run.outcome == "stopped" and (run.directory / "train.csv").is_file(), sorted(run.directory.iterdir())
    (PLACE / "hook.py").write_text("import sconce\n\nclass InAFile(sconce.Hook):\n    def after_epoch(self, task):\n        task.publish_metric('one', 1.0)\n")
    run = train("file", manifest(), rows(), [{"hook": str(PLACE / "hook.py")}])
    assert run.history[0]["train/one"] == 1.0, run.history[0]


def mistakes_are_exceptions_with_hints():
    refused(sconce.ManifestError, ["epoch", "did you mean"], lambda: train("typo", manifest(train={"epochz": 1, "batch_size": 4}), rows()))
    refused(sconce.DataError, ["colour"], lambda: train("column", manifest(data={"kind": "csv", "target": "colour"}), rows()))
    refused(sconce.PluginError, ["emaa"], lambda: train("hook", manifest(), rows(), ["emaa"]))
    refused(sconce.ManifestError, ["int"], lambda: sconce.train(3))
    train("twice", manifest(), rows(), [{"hook": "checkpoint"}])
    refused(sconce.ManifestError, ["overwrite=True"], lambda: train("twice", manifest(), rows(), [{"hook": "checkpoint"}]))
    train("twice", manifest(), rows(), [{"hook": "checkpoint"}], overwrite=True)
    found = sconce.check(manifest(train={"epochz": 1, "batch_size": 4}), rows(), plugins=PLUGINS)
    assert found[0]["level"] == "error" and "epochz" in found[0]["text"], found
    assert sconce.check(manifest(), rows(), plugins=PLUGINS) == [], sconce.check(manifest(), rows(), plugins=PLUGINS)
    refused(sconce.ManifestError, ["3 threads"], lambda: train("threads", manifest(threads=3), rows()))


def runs_are_compared():
    train("short", manifest(train={"epochs": 1, "batch_size": 16}), rows(), ["report"])
    table = sconce.compare(sconce.load(PLACE / "short"), PLACE / "table")
    assert [row["run"] for row in table] == ["short", "table"] and [row["train.epochs"] for row in table] == [1, 4], table
    assert "val/loss" in repr(table)
    assert "<svg" in sconce.load(PLACE / "short").report().html
    refused(sconce.DataError, ["report"], lambda: sconce.load(PLACE / "table").report())


def long():
    return manifest(train={"epochs": 100_000, "batch_size": 16})


def an_interrupt_saves_and_ends():
    class Interrupts(sconce.Hook):
        is_resumed = False

        def after_epoch(self, task):
            if task.epoch == 1 and task.phase == "train":
                os.kill(os.getpid(), signal.SIGINT)

        def before_loop(self, task):
            self.is_resumed = task.is_resumed
            if self.is_resumed:
                task.stop("resumed")

    run = train("interrupted", long(), rows(), [Interrupts])
    assert run.outcome == "interrupted" and run.last_checkpoint.is_dir(), run
    assert run.predict({name: column[:3] for name, column in rows().items()}).shape == (3, 2), "by the checkpoint"
    hook = Interrupts()
    resumed = train("interrupted", long(), rows(), [hook], resume=True)
    assert (resumed.outcome, resumed.reason, hook.is_resumed) == ("stopped", "resumed", True), resumed


def one_training_at_a_time():
    begun, end = threading.Event(), threading.Event()

    class Waits(sconce.Hook):
        def before_loop(self, task):
            begun.set()
            end.wait()
            task.stop("told to")

    results = []
    other = threading.Thread(target=lambda: results.append(train("first", manifest(), rows(), [Waits])))
    other.start()
    assert begun.wait(60)
    refused(sconce.ManifestError, ["under way"], lambda: train("second", manifest(), rows()))
    end.set()
    other.join()
    assert results[0].outcome == "stopped"


def a_second_interrupt_raises_at_once():
    begun, end, ended = threading.Event(), threading.Event(), threading.Event()

    class Hangs(sconce.Hook):
        def before_loop(self, task):
            begun.set()
            end.wait()

        def after_run(self, task, outcome):
            ended.set()

    def interrupt():
        begun.wait()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)

    threading.Thread(target=interrupt).start()
    try:
        train("hung", long(), rows(), [Hangs])
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("it waited for the hook")
    end.set()
    # The first one still ends the run.
    assert ended.wait(60)


def a_forked_copy_is_refused():
    child = os.fork()
    if child == 0:
        try:
            sconce.load(PLACE / "table").predict({name: column[:1] for name, column in rows().items()})
        except sconce.Error as error:
            os._exit(0 if "forked" in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def frames_are_tables():
    if importlib.util.find_spec("numpy"):
        import numpy

        draw = numpy.random.default_rng(0)
        inputs = draw.normal(size=(200, 6)).astype("float32")
        targets = inputs.sum(1, keepdims=True)
        made = manifest(data={"kind": "npy", "val": {"fraction": 0.2}})
        run = train("numpy", made, (inputs, targets))
        numpy.save(PLACE / "x.npy", inputs)
        numpy.save(PLACE / "y.npy", targets)
        made["data"].update(inputs=str(PLACE / "x.npy"), targets=str(PLACE / "y.npy"))
        assert digest(run.directory) == digest(by_program("numpy", made))
        assert numpy.asarray(run.predict(inputs[:3])).shape == (3, 1)
        turned = train("turned", manifest(data={"kind": "npy", "val": {"fraction": 0.2}}), (numpy.asfortranarray(inputs), targets))
        assert digest(turned.directory) == digest(run.directory)
    else:
        print("numpy is not installed: skipped")
    for name in ("pandas", "polars"):
        if not importlib.util.find_spec(name):
            print(f"{name} is not installed: skipped")
            continue
        frame = getattr(importlib.import_module(name), "DataFrame")(rows())
        run = train(name, manifest(), frame)
        assert digest(run.directory) == digest(PLACE / "table"), name
        assert len(run.predict(frame).rows()) == 240
        assert len(getattr(run.history, f"to_{name}")()) == 4
        if name == "polars":

            class Handed:
                def __arrow_c_stream__(self, requested_schema=None):
                    return frame.__arrow_c_stream__(requested_schema)

            assert digest(train("arrow", manifest(), Handed()).directory) == digest(PLACE / "table")


def main():
    # Shells start what is in the background with interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=sconce.SconceWarning)
    # A fork of a process with threads is what one test is about.
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")
    for test in (
        a_table_trains_to_the_programs_bits,
        arrays_are_read_in_place,
        hooks_are_classes_and_instances,
        hooks_in_processes_of_their_own,
        mistakes_are_exceptions_with_hints,
        runs_are_compared,
        an_interrupt_saves_and_ends,
        one_training_at_a_time,
        a_second_interrupt_raises_at_once,
        a_forked_copy_is_refused,
        frames_are_tables,
    ):
        begin = time.monotonic()
        test()
        print(f"{test.__name__.replace('_', ' ')}: {time.monotonic() - begin:.1f} s")


main()
