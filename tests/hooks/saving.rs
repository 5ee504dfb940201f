//! `save-file`, and the rarer options of `checkpoint`.
