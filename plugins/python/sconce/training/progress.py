"""Live progress: one updating display in a notebook, a bar in a terminal where `tqdm` is installed, else lines."""

import sys
import time

from .table import html, shown

#: Seconds between updates.
_EVERY = 0.25


def of(history, shows):
    """What shows a run's progress."""
    if not shows:
        return _Nothing(history)
    if _is_notebook():
        return _Notebook(history)
    if sys.stderr is not None and sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            pass
        else:
            return _Bar(history, tqdm)
    return _Lines(history)


def _is_notebook():
    """Whether a display that can be updated is there."""
    shell = sys.modules.get("IPython")
    shell = shell.get_ipython() if shell is not None else None
    return shell is not None and hasattr(shell, "kernel")


class _Nothing:
    """Shows nothing."""

    def __init__(self, history):
        self._history = history
        self._shown = -_EVERY

    def update(self, position, grew):
        """Shows where the run is, and that an epoch has been added."""
        now = time.monotonic()
        if grew or now - self._shown >= _EVERY:
            self._shown = now
            self._show(position, grew)

    def _show(self, position, grew):
        pass

    def close(self):
        """The run has ended."""


def _share(position):
    epochs = max(position["epochs"], 1)
    within = position["batch"] / max(position["batches"], 1) if position["phase"] == "train" else 0
    return min((position["epoch"] + within) / epochs, 1.0)


def _state(position):
    words = [f"epoch {min(position['epoch'] + 1, position['epochs'])} of {position['epochs']}", position["phase"]]
    if position["loss"] is not None:
        words.append(f"loss {position['loss']:.4g}")
    if position["remaining"] is not None:
        words.append(f"{position['remaining']:.0f} s left")
    return ", ".join(words)


class _Notebook(_Nothing):
    def __init__(self, history):
        super().__init__(history)
        self._handle = None

    def _show(self, position, grew):
        from IPython.display import HTML, display

        bar = f'<progress value="{_share(position):.4f}"></progress> {_state(position)}'
        shown = HTML(bar + html(self._history.columns(), self._history[-12:]))
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def close(self):
        if self._handle is not None:
            from IPython.display import HTML

            self._handle.update(HTML(html(self._history.columns(), self._history[-12:])))


class _Bar(_Nothing):
    def __init__(self, history, tqdm):
        super().__init__(history)
        self._bar = tqdm(total=1.0, bar_format="{l_bar}{bar}| {postfix}")

    def _show(self, position, grew):
        self._bar.n = _share(position)
        self._bar.set_postfix_str(_state(position))

    def close(self):
        self._bar.close()


class _Lines(_Nothing):
    def __init__(self, history):
        super().__init__(history)
        self._printed = 0

    def _show(self, position, grew):
        # The last row may get the metrics of a further phase.
        self._print(len(self._history) - 1)

    def close(self):
        self._print(len(self._history))

    def _print(self, until):
        for row in self._history[self._printed : max(until, 0)]:
            columns = [name for name in row if name not in ("iteration", "seconds", "learning_rate")]
            print("  ".join(f"{name} {shown(row[name])}" for name in columns))
        self._printed = max(self._printed, until)

