//! The nearest valid name, for messages about mistyped ones.

/// Longest name for which suggestions are computed, in bytes.
const LONGEST: usize = 1000;

/// Names of things in PyTorch, Lightning, Keras and MMEngine with their names here.
const ELSEWHERE: [(&str, &str); 54] = [
    ("16", "bf16"),
    ("16-mixed", "bf16"),
    ("32", "f32"),
    ("accumulate_grad_batches", "accumulate"),
    ("accumulation_steps", "accumulate"),
    ("batch", "batch_size"),
    ("batchsize", "batch_size"),
    ("bf16-mixed", "bf16"),
    ("bs", "batch_size"),
    ("callback", "hooks"),
    ("callbacks", "hooks"),
    ("check_val_every_n_epoch", "validate_every"),
    ("criterion", "loss"),
    ("dataset", "data"),
    ("default_root_dir", "output"),
    ("eps", "epsilon"),
    ("eval_batch", "eval_batch_size"),
    ("float16", "bf16"),
    ("float32", "f32"),
    ("fp16", "bf16"),
    ("fp32", "f32"),
    ("gpu", "cuda"),
    ("half", "bf16"),
    ("gradient-clipping", "grad-clip"),
    ("gradient_accumulation_steps", "accumulate"),
    ("hidden_sizes", "hidden"),
    ("limit_train_batches", "limit_train"),
    ("logger", "console"),
    ("lr", "learning_rate"),
    ("max_epochs", "epochs"),
    ("model-ema", "ema"),
    ("momenta", "momentum"),
    ("n_embd", "width"),
    ("n_epochs", "epochs"),
    ("n_head", "heads"),
    ("n_layer", "layers"),
    ("num_epochs", "epochs"),
    ("num_threads", "threads"),
    ("num_train_epochs", "epochs"),
    ("num_workers", "loader_threads"),
    ("optim", "optimizer"),
    ("output_dir", "output"),
    ("per_device_eval_batch_size", "eval_batch_size"),
    ("per_device_train_batch_size", "batch_size"),
    ("random_seed", "seed"),
    ("save_dir", "output"),
    ("train_cfg", "train"),
    ("transforms", "augment"),
    ("type", "kind"),
    ("val_batch_size", "eval_batch_size"),
    ("val_interval", "validate_every"),
    ("wd", "weight_decay"),
    ("work_dir", "output"),
    ("workers", "loader_threads"),
];

/// Returns the one name that we use for something another framework calls `name`.
pub fn ours(name: &str) -> Option<&'static str> {
    let found = ELSEWHERE.iter().find(|(elsewhere, _)| *elsewhere == name);
    found.map(|(_, ours)| *ours)
}

/// Returns the known name nearest to `wanted`, if one is near: another framework's name for it, at most
/// a third of the letters different, or one containing the other.
///
/// ```
/// use sconce_base::nearest::nearest;
///
/// assert_eq!(nearest("epohcs", ["epochs", "batch_size"]), Some("epochs"));
/// assert_eq!(nearest("lr", ["kind", "learning_rate"]), Some("learning_rate"));
/// assert_eq!(nearest("colour", ["epochs", "batch_size"]), None);
/// ```
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The edit distance takes time and memory in proportion to the length; no valid name is that long.
    if wanted.len() > LONGEST {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    let elsewhere = ELSEWHERE.iter().find(|(name, _)| *name == wanted);
    if let Some((_, ours)) = elsewhere
        && let Some(name) = known.iter().find(|name| *name == ours)
    {
        return Some(name);
    }
    known
        .into_iter()
        .map(|name| {
            (
                strsim::damerau_levenshtein(&name.to_lowercase(), &wanted.to_lowercase()),
                name,
            )
        })
        .filter(|(distance, name)| is_near(*distance, wanted, name))
        .min()
        .map(|(_, name)| name)
}

fn is_near(distance: usize, wanted: &str, name: &str) -> bool {
    let contains =
        wanted.len() >= 3 && name.contains(wanted) || name.len() >= 3 && wanted.contains(name);
    contains || distance * 3 <= wanted.chars().count().max(name.chars().count())
}
