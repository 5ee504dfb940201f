//! The integration tests. Each module is one topic:
//!
//! | module | what must hold |
//! |---|---|
//! | `adapters` | adapters beside a model that is held: the same bits after an interruption, merged and used |
//! | `averages` | `ema` and `swa` average what their formulas say |
//! | `given_loss` | losses that hooks give train as the host's own, and passes with other parameters |
//! | `self_supervised` | teachers, queues and centres have the same bits on ranks, apart and after a resume |
//! | `tensors` | hooks read and change tensors where they may, without a copy |
//! | `training` | the quickstart learns, MNIST learns, two runs give the same bits |
//! | `order` | which mount points are called, in which order, with which counters |
//! | `outputs_in_parts` | many logits are computed in parts, with the bits of all at once |
//! | `outside_input` | a checkpoint from elsewhere, or a path with `~`, touches nothing outside the run |
//! | `requests` | what hooks ask for is served, or refused with a reason |
//! | `arguments` | wrong arguments are refused in the same words in every language and process |
//! | `faults` | a hook that fails or panics anywhere ends as a message with its name |
//! | `crashes`, `hangs` | one that brings the process down, or does not come back, is named too |
//! | `isolation` | hooks in processes of their own do the same, and end alone |
//! | `reload` | a hook gets another library in mid-run, or keeps its own |
//! | `fault_table` | `docs/faults.md` says what becomes of each fault |
//! | `bad_manifests` | every wrong manifest is told before anything is trained |
//! | `bad_data` | every wrong data file too |
//! | `changed_data` | data that have changed since a checkpoint was saved are named |
//! | `large_batch` | several batches of an update have the gradient of one large batch, whatever the loss counts |
//! | `large_models` | models and files that no memory holds are refused before they are allocated |
//! | `hostile_models` | so are those of models, tokenizers, adapters and tokens that lie; nothing in them is run |
//! | `killed_models` | pretrained models with tied weights or adapters are the same after a kill, on any number of ranks |
//! | `pretrained_text` | perplexity and greedy text of a pretrained model are those of `transformers` |
//! | `large_data` | what no memory holds is read where it lies |
//! | `bad_plugins` | and every wrong plugin |
//! | `board` | the page for many runs answers its own user alone, and writes nothing |
//! | `trial_loads` | … what they do when they are opened too |
//! | `plugins` | names, copies, instances, the outside plugin |
//! | `ranks`, `rank_ends` | the same bits on any number of ranks, and how runs end in which one does not go on |
//! | `cluster` | the templates for Slurm and Kubernetes are what these take, and their commands go on |
//! | `views` | predictions of several views are the mean of theirs; features; what views and missing targets exclude |
//! | `view_sizes` | the model runs for views of each size, and learns from all; what does not fit them is refused |
//! | `class_weights` | weights of classes by name and balanced are those of a list |
//! | `commands` | `check`, `plugins`, `inspect` |
//! | `devices` | a device that can't be had, a precision, copies for hooks: told before and after a run |
//! | `threads` | no more are started than the process may use, and results are those of as many as are asked for |
//! | `injection` | a run that is killed, loses power or has a call fail at any call that changes its directory ends as an undisturbed one |
//! | `resume` | a run goes on from a checkpoint with the same bits, or says why it can't |
//! | `steering` | frozen parameters, momenta, batches of an update and statistics, as hooks ask for them |
//! | `stopping` | signals, failures, and directories that are in use |
//! | `checkpoints`, `swap` | saving, going back, evaluating other parameters |
//! | `rates_and_clips` | `lr-schedule` and `grad-clip`: the rates that hold, the gradients that are stepped |
//! | `control` | `early-stopping`, `stop-on-nan`, `time-limit`, `check` end runs when they should |
//! | `late` | on a device, losses and metrics are fetched when somebody reads them, with the same values |
//! | `measured` | where averages were measured, they are what is kept, evaluated and loaded |
//! | `hook_docs` | the tables of options in the docs are those of the schemas |
//! | `documentation` | `sconce docs` has all pages, and finds what is in them |
//! | `legal_table` | the tables of what is legal where are those of the code |
//! | `keeping` | `checkpoint` saves, keeps, loads and publishes what it should |
//! | `kept` | the metrics of a run are those of the weights that it keeps |
//! | `times` | all of a run's time is accounted for |
//! | `modules`, `view`, `sharing` | what hooks see and tell each other |
//! | `signatures` | altered plugins are refused, and trusted keys decide about the others |
//! | `evaluated_files` | a model is evaluated on files of its own, on the same rows as in the training or on new ones |
//! | `examples` | the manifests in `examples/` do what the README says of them |
//! | `autoencoder` | a task of one's own has the whole command line |
//! | `distillation` | a task's loss that reads what a plugin publishes |
//! | `after_training` | weights, `summary`, `eval`, `predict`, and models that don't fit |
//! | `generate`, `samples` | a model of text writes what it has learnt, after the training and during it, or says why it can't |
//! | `model_docs` | the models in `docs/models.md` can be built, and train |
//! | `pytorch` | the same steps as in PyTorch give the same losses |
//! | `moments` | an optimizer's moments stored as `bf16` have the same bits in any course of a run |
//! | `precision` | single precision computes what double precision does, at real sizes |
//! | `c_hooks` | hooks in C and C++ train as those in Rust do, and their failures are reported |
//! | `candle_gradients` | which of candle's operations can be trained through |
//! | `gradient_audit` | a model that cannot learn is stopped, with its reason |
//! | `folds` | each sample is validated in one fold, and folds are compared by mean and deviation |
//! | `foreseen` | what can be known before a run, `check` and `run` report before it |
//! | `references` | metrics, modules and data sets that entries name |
//! | `model_directory` | a trained model predicts without its training data and manifest, or says why it can't |
//! | `target_scaling` | metrics and predictions of scaled targets are in the data's own units |
//! | `validations` | validations by epochs and by iterations, and what resumes in the middle |
//! | `variables` | values of environment variables that mean nothing are refused |
//! | `versions` | plugins of an older and a newer API |
//! | `author` | what the macros write is what the API says |
#![allow(
    clippy::needless_pass_by_value,
    clippy::too_many_lines,
    reason = "tables of cases read best as they are"
)]
#![allow(
    clippy::expect_used,
    reason = "a test that finds its machine broken may say so by panicking"
)]

mod adapters;
mod after_training;
mod any_loop;
mod arguments;
mod author;
mod autoencoder;
mod averages;
mod bad_data;
mod bad_manifests;
mod bad_plugins;
#[cfg(unix)]
mod board;
mod c_hooks;
mod candle_gradients;
mod changed_data;
mod checkpoints;
mod class_weights;
mod cluster;
mod commands;
mod control;
mod crashes;
mod devices;
mod distillation;
mod documentation;
mod evaluated_files;
mod examples;
mod fault_table;
mod faults;
mod finite;
mod folds;
mod foreseen;
mod generate;
mod given_loss;
mod gradient_audit;
mod hangs;
mod hook_docs;
mod hostile_models;
mod keeping;
mod kept;
#[cfg(unix)]
mod killed_models;

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod injection;
mod isolation;
mod large_batch;
mod large_data;
mod large_models;
mod late;
mod legal_table;
mod measured;
mod mixtures;
mod model_directory;
mod model_docs;
mod modules;
mod moments;
mod museum;
mod mutations;
mod named_checkpoints;
mod order;
mod outputs_in_parts;
mod outside_input;
mod plugins;
mod precision;
#[cfg(unix)]
mod pretrained_text;
mod pytorch;
mod rank_ends;
mod ranks;
mod rates_and_clips;
mod references;
mod reload;
mod requests;
mod resume;
mod samples;
mod self_supervised;
mod sharing;
mod signatures;
#[cfg(unix)]
mod steering;
mod stopping;
mod swap;
mod sweeps;
mod target_scaling;
mod tensors;
mod threads;
mod times;
mod training;
mod trial_loads;
mod validations;
mod variables;
mod versions;
mod view;
mod view_sizes;
mod views;
