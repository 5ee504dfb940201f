//! `compute-stats`, `accumulate`, `classification`, `predictions`, `output-mask`, `plot-lines`.
