//! `sconce.requests/1` and `sconce.claims/1`: what hooks ask for, and where each request is allowed.

use sconce_base::patterns::Patterns;
use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{
    Asked, Claims, Collection, GENERATED_TEXT, Keep, Refusal, Request, Requests, TextRequest,
    check_ratio, why_not_asked_on_first,
};

use crate::bridge::requests::StopRequest;
use crate::bridge::shared::BridgeState;
use crate::bridge::values::ValueContent;
use crate::bridge::witness::HookAction;

impl Requests for BridgeState<'_> {
    fn request(&self, request: u32, number: f64, text: &str) -> Result<(), Refusal> {
        let Some(request) = Request::from_number(request) else {
            let message = format!("this host does not know the request {request}; update it");
            return Err(Refusal::new(Status::UNSUPPORTED, message));
        };
        let not_here = |message| Err(Refusal::new(Status::NOT_LEGAL_HERE, message));
        if let Some(message) = request.why_not_at(self.point(), self.phase()) {
            return not_here(message);
        }
        if self.is_on_first_of_several()
            && let Some(message) = why_not_asked_on_first(&self.hook_name(), request)
        {
            return not_here(message);
        }
        let asks = HookAction::Asks {
            request: request.name(),
            number,
            text,
        };
        self.sees(&asks)
            .and_then(|()| request.decode(number, text))
            .and_then(|asked| ask(self, asked))
            .map_err(Refusal::invalid)
    }
}

impl Claims for BridgeState<'_> {
    fn claim(&self, what: &str) -> Result<(), Refusal> {
        BridgeState::claim(self, what).map_err(Refusal::invalid)
    }
}

/// Applies a request immediately or queues it for the loop. Requests that concern the current iteration or
/// the optimizer's settings apply immediately.
fn ask(shared: &BridgeState<'_>, asked: Asked) -> Result<(), String> {
    let requests = &shared.requests;
    shared.journal.note_requests(requests);
    match asked {
        Asked::Stop {
            reason,
            after_epoch,
        } => requests.ask_stop(StopRequest {
            reason,
            after_epoch,
            hook: shared.hook_name(),
        }),
        Asked::SkipBatch => requests.ask_skip_batch(),
        Asked::SkipUpdate => requests.ask_skip_update(),
        Asked::ScaleLoss(factor) => requests.scale_loss(factor),
        Asked::LeaveOut(point) => requests.leave_out(point),
        Asked::DeclareMetric(name) => {
            // With one that is not valid, references to all others could not be resolved.
            Patterns::new(std::slice::from_ref(&name))?;
            requests.declare_metric(name);
        }
        Asked::DeclareAsks(names) => requests.declare_asks(names),
        Asked::DeclareReads(names) => requests.declare_reads(names),
        Asked::SelectModules(names) => {
            Patterns::new(&names)?;
            requests.select_modules(names);
        }
        Asked::SetLearningRate { group, rate } => {
            shared.note_groups();
            let mut groups = shared.optimizer.groups.borrow_mut();
            match group {
                None => groups.set_learning_rate(rate),
                Some(group) => groups.set_learning_rate_of(&group, rate)?,
            }
            shared
                .optimizer
                .learning_rate
                .set(groups.default().learning_rate);
        }
        Asked::SetMomentum { group, momentum } => {
            set_momentum(shared, group.as_deref(), momentum)?;
        }
        Asked::SetWeightDecay { group, decay } => {
            shared.note_groups();
            let mut groups = shared.optimizer.groups.borrow_mut();
            match group {
                None => groups.set_weight_decay(decay),
                Some(group) => groups.set_weight_decay_of(&group, decay)?,
            }
        }
        Asked::Generate(request) => write_text(shared, &request)?,
        Asked::SetAccumulation(batches) => shared.set_accumulation(batches),
        Asked::Freeze { ref name, ratio } => {
            let index = shared.tensors.parameter_index(name)?;
            let is_buffer = shared.is_buffer(Collection::Parameters, index);
            check_ratio(name, ratio, is_buffer)?;
            requests.ask(asked, shared.hook_name());
        }
        asked => requests.ask(asked, shared.hook_name()),
    }
    Ok(())
}

/// Has the model write text for the current hook, and publishes it.
fn write_text(shared: &BridgeState<'_>, request: &TextRequest) -> Result<(), String> {
    let Some(text) = shared.model.text.get() else {
        return Err("this loop's model writes no text".to_owned());
    };
    // The model's time is not the hook's own, for which the watchdog has limits.
    shared.trail.end();
    let written = text.write(request);
    if let Some(hook) = shared.hook() {
        shared.trail.begin(hook);
    }
    let json = serde_json::to_string(&written?).map_err(|error| error.to_string())?;
    let value = ValueContent::Json(json.into());
    shared.set_value(&shared.values, GENERATED_TEXT, Keep::Batch, value);
    Ok(())
}

fn set_momentum(
    shared: &BridgeState<'_>,
    group: Option<&str>,
    momentum: f64,
) -> Result<(), String> {
    if !shared.optimizer.has_momentum.get() {
        let advice = "give it one in the manifest, if only a small one";
        return Err(format!(
            "the optimizer was configured without a momentum: {advice}"
        ));
    }
    shared.note_groups();
    let mut groups = shared.optimizer.groups.borrow_mut();
    let Some(group) = group else {
        groups.set_momentum(Some(momentum));
        return Ok(());
    };
    groups.set_momentum_of(group, momentum)
}

#[cfg(test)]
mod tests {
    use sconce_plugin_api::ext::WrittenText;

    use super::*;
    use crate::bridge::WritesText;
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
        let none = write_text(&shared, &request);
        assert_eq!(none, Err("this loop's model writes no text".to_owned()));
        shared.set_text(Echo);
        assert_eq!(write_text(&shared, &request), Ok(()));
        #[expect(unsafe_code, reason = "as a hook reads it")]
        let json = shared.values.json(GENERATED_TEXT).and_then(|text| {
            // SAFETY: nothing of this name is set meanwhile.
            unsafe { text.read() }
        });
        assert_eq!(json, Some(r#"[{"text":"a","tokens":0,"end":""}]"#));
        let tokens = 0;
        let refused = write_text(&shared, &TextRequest { tokens, ..request });
        assert_eq!(refused, Err("nothing to write".to_owned()));
    }
}
