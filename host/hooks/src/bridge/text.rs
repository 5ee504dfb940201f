//! Text that the run's model writes for hooks.

use sconce_plugin_api::ext::{GENERATED_TEXT, Keep, TextRequest, WrittenText};

use super::shared::BridgeState;
use super::values::ValueContent;

/// Writes text with the model that is trained, and the parameters that it has at the time.
pub trait WritesText {
    /// Writes on from each prompt of a request.
    ///
    /// # Errors
    ///
    /// Why it can't: the model isn't one of text, a prompt or an option can't be used, or the model can't be run.
    fn write(&self, request: &TextRequest) -> Result<Vec<WrittenText>, String>;
}

impl BridgeState<'_> {
    /// Sets what writes text with the run's model; must precede the first call of a hook.
    pub fn set_text(&self, text: impl WritesText + 'static) {
        // Already set: a second call would belong to another run.
        drop(self.text.set(Box::new(text)));
    }

    /// Has the model write text for the current hook, and publishes it.
    pub(super) fn write_text(&self, request: &TextRequest) -> Result<(), String> {
        let Some(text) = self.text.get() else {
            return Err("this loop's model writes no text".to_owned());
        };
        // The model's time is not the hook's own, for which the watchdog has limits.
        self.trail.end();
        let written = text.write(request);
        if let Some(hook) = self.hook() {
            self.trail.begin(hook);
        }
        let json = serde_json::to_string(&written?).map_err(|error| error.to_string())?;
        let value = ValueContent::Json(json.into());
        self.set_value(&self.values, GENERATED_TEXT, Keep::Batch, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Level, Log};

    struct Silent;

    impl Log for Silent {
        fn log(&self, _level: Level, _source: &str, _message: &str) {}
    }

    /// Repeats each prompt.
    struct Echo;

    impl WritesText for Echo {
        fn write(&self, request: &TextRequest) -> Result<Vec<WrittenText>, String> {
            let echo = |prompt: &String| WrittenText {
                text: prompt.clone(),
                ..WrittenText::default()
            };
            match request.tokens {
                0 => Err("nothing to write".to_owned()),
                _ => Ok(request.prompts.iter().map(echo).collect()),
            }
        }
    }

    #[test]
    fn what_was_written_is_published_for_the_hook() {
        let shared = BridgeState::new(&Silent);
        shared.register("mine");
        let request = TextRequest {
            prompts: vec!["a".to_owned()],
            ..TextRequest::default()
        };
        let none = shared.write_text(&request);
        assert_eq!(none, Err("this loop's model writes no text".to_owned()));
        shared.set_text(Echo);
        assert_eq!(shared.write_text(&request), Ok(()));
        // SAFETY: nothing of this name is set meanwhile.
        #[expect(unsafe_code, reason = "as a hook reads it")]
        let json = shared
            .values
            .json(GENERATED_TEXT)
            .and_then(|text| unsafe { text.read() });
        assert_eq!(json, Some(r#"[{"text":"a","tokens":0,"end":""}]"#));
        let tokens = 0;
        let refused = shared.write_text(&TextRequest { tokens, ..request });
        assert_eq!(refused, Err("nothing to write".to_owned()));
    }
}
