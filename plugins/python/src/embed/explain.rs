//! Python's exceptions as errors of the hook.

use sconce_plugin_api::HookError;

use super::functions::functions;
use super::gil::Gil;

/// The exception that is set, as an error; `file` is the hook's.
pub(super) fn last(gil: &Gil, file: &str) -> HookError {
    let Some(exception) = gil.exception() else {
        return HookError::new("Python reported a failure without an exception");
    };
    let described = functions().and_then(|functions| {
        let arguments = gil.tuple([gil.share(exception.pointer()), gil.text(file)])?;
        let parts = gil.call(&functions.explain, &arguments)?;
        let text = |index| gil.item(&parts, index).and_then(|part| gil.to_text(&part));
        Some((text(0)?, text(1)?, text(2)))
    });
    let Some((message, place, config_path)) = described else {
        return plain(gil, &exception);
    };
    let error = HookError::new(message).at(place);
    match config_path {
        Some(path) => error.in_config(path),
        None => error,
    }
}

/// The exception's own text, where the package can't describe it.
fn plain(gil: &Gil, exception: &super::gil::Ref) -> HookError {
    // An exception of the description itself is of no interest.
    drop(gil.exception());
    let text = gil
        .attribute(exception, c"args")
        .and_then(|arguments| gil.item(&arguments, 0))
        .and_then(|text| gil.to_text(&text));
    drop(gil.exception());
    HookError::new(text.unwrap_or_else(|| "an exception without a description".into())).at("")
}
