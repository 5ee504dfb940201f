//! The mount points, as in the `Hook` trait; `sconce-plugin-api` tests that the two agree.

/// A method of the `Hook` trait that the host calls at a mount point.
pub(crate) struct PointMethod {
    pub(crate) name: &'static str,
    pub(crate) number: u32,
    /// The method of `Call` that reads the point's payload.
    pub(crate) payload: Option<&'static str>,
}

const fn point(number: u32, name: &'static str) -> PointMethod {
    PointMethod {
        name,
        number,
        payload: None,
    }
}

const fn with(number: u32, name: &'static str, payload: &'static str) -> PointMethod {
    PointMethod {
        name,
        number,
        payload: Some(payload),
    }
}

pub(crate) const POINTS: &[PointMethod] = &[
    point(0, "before_run"),
    with(1, "after_run", "outcome"),
    point(2, "before_loop"),
    point(3, "after_loop"),
    point(4, "before_epoch"),
    point(5, "after_epoch"),
    point(6, "after_cycle"),
    point(7, "before_iter"),
    point(8, "after_iter"),
    point(9, "after_forward"),
    point(10, "after_loss"),
    point(11, "after_backward"),
    point(12, "before_update"),
    point(13, "after_update"),
    with(14, "module_forward", "module"),
    with(15, "module_backward", "module"),
    with(16, "before_save_checkpoint", "checkpoint"),
    with(17, "after_save_checkpoint", "checkpoint"),
    with(18, "after_load_checkpoint", "checkpoint"),
    with(19, "epoch_profile", "profile"),
    with(20, "on_exception", "failure"),
];

/// Methods of the `Hook` trait that are not mount points.
pub(crate) const OTHERS: &[&str] = &["new", "save_state", "load_state", "state_restored"];

pub(crate) fn find(name: &str) -> Option<&'static PointMethod> {
    POINTS.iter().find(|point| point.name == name)
}

/// The method name of the trait that is nearest to a mistyped one, if one is near.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let names = POINTS.iter().map(|point| point.name);
    names
        .chain(OTHERS.iter().copied())
        .map(|known| (strsim::damerau_levenshtein(known, name), known))
        .min()
        .filter(|(distance, known)| *distance * 3 <= known.len())
        .map(|(_, known)| known)
}
