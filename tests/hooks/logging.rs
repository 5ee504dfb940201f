//! `progress`, `jsonl`, `training-trace`.
