//! `loss-spike`, `on-plateau`, and what `stop-on-nan` dumps and rolls back.
