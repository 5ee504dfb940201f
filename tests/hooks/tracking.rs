//! `tensorboard`, `webhook`, `mlflow`.
