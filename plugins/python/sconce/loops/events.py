"""The hooks of a PyTorch model, called event by event: what `Hooks` and the frameworks' callbacks have in common."""

import json
import os
import pathlib
import sys
import warnings

from .._errors import HookError, SconceWarning
from .frameworks import PYTORCH
from .modules import Modules
from .tensors import NotShown, Parameters, address

# Mount points by number, in the order of `sconce.POINTS`' numbers.
_POINTS = {
    "before_run": 0,
    "after_run": 1,
    "before_loop": 2,
    "after_loop": 3,
    "before_epoch": 4,
    "after_epoch": 5,
    "after_cycle": 6,
    "before_iter": 7,
    "after_iter": 8,
    "after_forward": 9,
    "after_loss": 10,
    "after_backward": 11,
    "before_update": 12,
    "after_update": 13,
    "module_forward": 14,
}
PHASES = {"train": 0, "val": 1, "test": 2, "predict": 3}
GO_ON, AFTER_EPOCH, NOW = 0, 1, 2

# What serves which request, by the name of the argument.
_SERVED = {
    "save_checkpoint": "save",
    "load_parameters": "load",
    "delete_checkpoint": "delete",
    "copy_checkpoint": "copy",
    "validate": "validate",
}


class Served:
    """What the loop does when hooks ask for it, and where their messages go."""

    def __init__(self, services, reasons=None, log=None):
        self._services = {name: service for name, service in services.items() if service is not None}
        self._reasons = reasons or {}
        self._log = log

    def can(self, request):
        """Why a request is refused, or None."""
        if _SERVED.get(request) in self._services:
            return None
        return self._reasons.get(request, f"this loop can't serve `{request}`")

    def save(self, tag, states):
        self._services["save"](tag, states)

    def load_parameters(self, tag, chosen):
        self._services["load"](tag, chosen)

    def delete(self, tag):
        self._services["delete"](tag)

    def copy(self, origin, tag):
        self._services["copy"](origin, tag)

    def validate(self):
        self._services["validate"]()

    def log(self, level, source, message):
        """Takes a message: level 1 is a warning, 2 information, 3 detail."""
        if self._log is not None:
            self._log(level, source, message)
        elif level == 1:
            warnings.warn(f"{source}: {message}", SconceWarning, stacklevel=2)
        elif level == 2:
            print(f"{source}: {message}" if source != "sconce" else message, file=sys.stderr)


def document(hooks, plugins, name, seed):
    """The text that lists the hooks, and the file that it stands for; `hooks` are entries, or the path of a file that has them."""
    if isinstance(hooks, (str, os.PathLike)):
        path = pathlib.Path(hooks)
        return path.read_text(encoding="utf-8"), path
    listed = {"hooks": hooks, "plugins": [os.fspath(place) for place in plugins], "seed": seed}
    if name:
        listed["name"] = name
    return json.dumps(listed), pathlib.Path.cwd() / "hooks"


def _momentum_of(group):
    """The momentum of an optimizer's group: its first beta, or what SGD and the like call so; None if it has none that can be set."""
    if "betas" in group:
        return float(group["betas"][0])
    # Others than SGD have a buffer for it only if they began with one.
    if group.get("momentum") or "dampening" in group:
        return float(group["momentum"])
    return None


def _set_momentum(group, momentum):
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    elif "momentum" in group:
        group["momentum"] = momentum


class LoopHooks:
    """The hooks of a model in a loop that calls them event by event.

    Each method is a step of the lifecycle. A call that is missing or out of order raises `sconce.OrderError`, which names it. At a mount
    point where no hook listens, a call costs a look into a set.
    """

    def __init__(
        self,
        hooks,
        *,
        model,
        optimizer=None,
        output=None,
        name=None,
        seed=0,
        plugins=(),
        plan=None,
        framework=PYTORCH,
        follows=None,
        served=None,
        states=None,
    ):
        from ..training.installation import extension
        from ..training.objects import entries

        self.optimizer = optimizer
        self.parameters = Parameters(model)
        plan = dict(plan or {})
        plan.setdefault("groups", self._group_plan())
        has_momentum = any(_momentum_of(group) is not None for group in self._groups_of_optimizer())
        plan.setdefault("has_momentum", has_momentum)
        self._modules = Modules(model if framework.has_modules else None)
        plan.setdefault("modules", self._modules.plan())
        follows = [one for one in (framework.follows if follows is None else follows) if has_momentum or one != "set_momentum"]
        description = {"plan": plan, "absent": framework.absent, "shows": framework.shows, "follows": follows}
        forget = None
        if not isinstance(hooks, (str, os.PathLike)):
            # Instances and classes of `sconce.Hook` are known by numbers.
            hooks, forget = entries(hooks, model, optimizer)
        self._forget = forget
        text, path = document(hooks, plugins, name, seed)
        try:
            shown = self.parameters.shown()
        except NotShown as problem:
            raise HookError(str(problem)) from None
        served = served or Served({})
        output = None if output is None else os.path.abspath(output)
        threads = self.parameters.threads()
        calls = extension().start_hooks(text, path, json.dumps(description), output, shown, states, served, threads)
        for call, function in calls.items():
            setattr(self, f"_{call}", function)
        self._phase = PHASES["train"]
        self._listeners = {}
        self._reads = None if (reads := self._reads()) is None else frozenset(reads)
        self._is_over = False
        self._rates = self._rates_of_optimizer()
        self._shown = []
        asks = None if (asks := self._asks()) is None else frozenset(asks)
        self._may = lambda request: asks is None or request in asks
        self._may_skip = self._may("skip_update")
        self._may_scale = self._may("scale_loss")
        self._may_freeze = self._may("freeze")
        self._may_set_rates = any(map(self._may, ("set_learning_rate", "set_weight_decay", "set_momentum")))
        self._may_write = self._reads is None or "parameters" in self._reads
        # Mount points that no hook uses, by which the loop has come since the last call: told with the next one.
        self._passed, self._loss = 0, None
        if self._listens_at_modules():
            self._modules.watch(self._listens_at_module, self._module_forward)

    # Where hooks listen.

    def listens(self, point):
        """Whether a hook is called at a mount point in the phase of now."""
        return point in self._here()

    def _here(self):
        known = self._listeners.get(self._phase)
        if known is None:
            known = frozenset(name for name, number in _POINTS.items() if self._listens(number))
            self._listeners[self._phase] = known
        return known

    def _listens_at_modules(self):
        """Whether a hook may be called at modules, in whatever phase."""
        return self._listens_ever(_POINTS["module_forward"])

    def _wants(self, what):
        return self._reads is None or what in self._reads or "batch" in self._reads

    # Passes.

    def begin_training(self):
        """The training begins, before an evaluation that precedes its first epoch; an epoch begins it by itself."""
        self._begin_training()
        self._note_writes()

    def begin_epoch(self, batches=None):
        """A training epoch begins, of this many batches if that is known."""
        self.refresh()
        self._phase = PHASES["train"]
        self._begin_epoch(batches)
        self._note_writes()

    def end_epoch(self, is_complete=None):
        """The epoch ends; returns whether hooks want the training to end: 0, 1 (after the epoch), 2 (now)."""
        return self._end_epoch(is_complete)

    def end_cycle(self):
        """The epoch and its validation are over."""
        stopping = self._end_cycle()
        self._note_writes()
        return stopping

    def begin_evaluation(self, phase="val", batches=None):
        """A validation ("val"), a test ("test") or a prediction ("predict") begins."""
        self._phase = PHASES[phase]
        self._begin_evaluation(self._phase, batches)
        self._note_writes()

    def end_evaluation(self):
        """The evaluation ends."""
        stopping = self._end_evaluation()
        self._phase = PHASES["train"]
        self._note_writes()
        return stopping

    # Batches.

    def begin_batch(self, samples, updates=None, inputs=None, targets=None):
        """A batch begins; returns whether hooks skip it, after which `end_batch` comes next."""
        if self.optimizer is not None:
            self._take_over_rates()
        if inputs is not None:
            self.show("inputs", inputs)
        if targets is not None:
            self.show("targets", targets)
        self._listening = self._here()
        return self._begin_batch(samples, updates)

    def show(self, name, tensor):
        """Shows a tensor of the batch, if a hook may read it and it can be shown."""
        if not self._wants(name) or not hasattr(tensor, "data_ptr"):
            return
        try:
            tensor = tensor.detach()
            self._show(name, address(tensor))
            # Kept until the batch ends: its memory is lent.
            self._shown.append(tensor)
        except NotShown:
            pass

    def _catch_up(self):
        passed, self._passed = self._passed, 0
        if passed:
            self._pass_by(passed, self._loss)

    def after_forward(self, outputs=None):
        """The model's outputs are there."""
        if "after_forward" not in self._listening:
            self._go_by(1)
            return
        self._catch_up()
        if outputs is not None:
            self.show("outputs", outputs)
        self._after_forward()

    def _go_by(self, point):
        if self._passed >= point:
            # Twice, or too late: the call itself says so.
            self._catch_up()
        self._passed |= point

    def after_loss(self, loss):
        """The loss is there, a mean over the batch's samples as a number, or None if the loop does not know it; returns what hooks want it
        multiplied by."""
        if "after_loss" not in self._listening and not self._may_scale:
            self._go_by(2)
            self._loss = loss
            return 1.0
        self._catch_up()
        return self._after_loss(loss)

    def after_backward(self):
        """The batch's gradients are there."""
        if self._may_freeze:
            self._leave_frozen_out()
        if "after_backward" not in self._listening:
            self._go_by(4)
            return
        self._catch_up()
        self._after_backward(self._lent())
        self.parameters.note_changes(gradients=True)

    def before_update(self):
        """The update's gradients are there; returns whether hooks skip it. The optimizer has the rates that hooks want then."""
        if "before_update" in self._listening:
            self._catch_up()
            is_skipped = self._before_update(self._lent())
            self.parameters.note_changes(gradients=True)
        elif self._may_skip:
            self._catch_up()
            is_skipped = self._before_update([])
        else:
            self._go_by(8)
            is_skipped = False
        if self._may_set_rates:
            self._hand_over_rates()
        return is_skipped

    def after_update(self):
        """The optimizer has stepped."""
        if "after_update" not in self._listening:
            self._go_by(16)
            return
        self._catch_up()
        self._after_update()
        self._note_writes()

    def end_batch(self):
        """The batch is over; returns whether hooks want the training to end: 0, 1 (after the epoch), 2 (now)."""
        passed, self._passed = self._passed, 0
        stopping = self._end_batch(passed, self._loss)
        if self._shown:
            self._shown.clear()
        self._note_writes()
        return stopping

    def _lent(self):
        try:
            return self.parameters.gradients()
        except NotShown as problem:
            raise HookError(str(problem)) from None

    def _leave_frozen_out(self):
        for name in self._frozen():
            parameter = self.parameters.by_name.get(name)
            if parameter is not None:
                # Not zeros: weight decay and momentum would go on.
                parameter.grad = None

    def _note_writes(self):
        if self._may_write and self._took_writes():
            self.parameters.note_changes(gradients=False)

    def refresh(self):
        """Looks again where the parameters are: `model.double()` or a replaced one moves them."""
        if self.parameters.refresh():
            self._move_parameters(self.parameters.shown())

    # Rates.

    def _groups_of_optimizer(self):
        return [] if self.optimizer is None else self.optimizer.param_groups

    def _named_groups(self):
        for index, group in enumerate(self._groups_of_optimizer()):
            yield "default" if index == 0 else str(group.get("name", f"group{index}")), group

    def _group_plan(self):
        plan = [
            {"name": name, "learning_rate": float(group["lr"]), "weight_decay": float(group.get("weight_decay", 0.0))}
            for name, group in self._named_groups()
        ]
        return plan or [{"name": "default", "learning_rate": 0.0}]

    def _rates_of_optimizer(self):
        return [group["lr"] for group in self._groups_of_optimizer()]

    def _take_over_rates(self):
        """Shows hooks the rates that a schedule of the loop's own has set."""
        rates = self._rates_of_optimizer()
        if rates != self._rates:
            self._rates = rates
            self._set_rates([(name, float(group["lr"])) for name, group in self._named_groups()])

    def _hand_over_rates(self):
        """Gives the optimizer the rates that hooks have set."""
        wanted = {name: (rate, decay, momentum) for name, rate, decay, momentum in self._groups()}
        for name, group in self._named_groups():
            if name not in wanted:
                continue
            rate, decay, momentum = wanted[name]
            if rate != float(group["lr"]):
                group["lr"] = rate
            if "weight_decay" in group and decay != float(group["weight_decay"]):
                group["weight_decay"] = decay
            if momentum is not None and momentum != _momentum_of(group):
                _set_momentum(group, momentum)
        self._rates = self._rates_of_optimizer()

    # The end, states, and what hooks have found.

    def metric(self, name, value):
        """Sets a metric of the pass in progress: its value over the batches until now."""
        self._metric(name, float(value))

    def metrics(self, phase="train"):
        """The metrics of a phase's pass in progress or of its last one, those of hooks among them."""
        return dict(self._metrics(PHASES[phase]))

    def stopping(self):
        """Whether hooks want the training to end: 0, 1 (after the epoch), 2 (now)."""
        return self._stopping()

    def is_in_epoch(self):
        """Whether a pass over the training data is in progress."""
        return self._is_in_epoch()

    def stop_reason(self):
        """The hook that wants the training to end, and why; None if none does."""
        return self._stop_reason()

    def position(self):
        """Counters: epochs, iterations and updates finished, batches trained in the epoch."""
        epoch, iteration, update, trained = self._position()
        return {"epoch": epoch, "iteration": iteration, "update": update, "trained": trained}

    def states(self):
        """The hooks' states as bytes, for a checkpoint of the loop's own; then `saved`."""
        return self._states()

    def saved(self, path, error=None):
        """The checkpoint with the states is at `path`, or could not be written because of `error`."""
        self._saved(os.fspath(path), None if error is None else str(error))

    def restore(self, states):
        """Goes back to states; the model and the optimizer are the loop's to restore."""
        self._restore(bytes(states))
        self._note_writes()

    def finish(self):
        """The run ends: `after_run`, and the hooks are gone."""
        self._end(self._finish)

    def fail(self, error):
        """The loop has failed: `on_exception`, `after_run`, and the hooks are gone."""
        self._end(lambda: self._fail(str(error)))

    def _end(self, ending):
        if self._is_over:
            return
        self._is_over = True
        self._modules.leave()
        try:
            ending()
        finally:
            if self._forget is not None:
                self._forget()
