"""Posts the end of a run to a webhook, as Slack, Mattermost and Discord (`/slack`) accept it. Standard library only."""

import json
import urllib.request
from dataclasses import dataclass

import sconce


class Notify(sconce.Hook):
    asks = []
    reads = []

    @dataclass
    class Config:
        url: str
        only_failures: bool = False
        #: Seconds to wait for the server.
        timeout: float = 10.0

    def after_run(self, task, outcome):
        if self.config.only_failures and outcome.kind != "failed":
            return
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in task.metrics_of("val").items())
        reason = f" ({outcome.reason})" if outcome.reason else ""
        text = f"Run `{task.facts['run']}` {outcome.kind}{reason} after epoch {task.epoch}: {metrics}"
        request = urllib.request.Request(
            self.config.url,
            data=json.dumps({"text": text}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            urllib.request.urlopen(request, timeout=self.config.timeout).close()
        except OSError as error:
            # A run does not fail because its message was not delivered.
            task.warn(f"the webhook can't be reached: {error}")
