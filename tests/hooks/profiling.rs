//! `iteration-timer`, `profile`, `trace`, `memory`, `throughput`.
