//! The hook's requests: rejected by the host's rules, or recorded and served.

use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{
    self, Collection, GENERATED_TEXT, Keep, Refusal, Request, Requests, Values, WrittenText,
    check_ratio, why_not_asked_on_first,
};

use super::super::seen::SeenRequest;
use super::super::stage::{FakeRun, FakeStop};

impl Requests for FakeRun {
    fn request(&self, request: u32, number: f64, text: &str) -> Result<(), Refusal> {
        let Some(request) = Request::from_number(request) else {
            return Err(Refusal::new(Status::UNSUPPORTED, "unknown request"));
        };
        self.uses.asks(request);
        let why_not = (self.is_on_first_of_several())
            .then(|| why_not_asked_on_first(&self.hook.name, request))
            .flatten();
        let why_not = why_not.or_else(|| request.why_not_at(self.point(), self.phase()));
        let answer = match why_not {
            Some(message) => Err(Refusal::new(Status::NOT_LEGAL_HERE, message)),
            None => (request.decode(number, text))
                .and_then(|asked| ask(self, asked))
                .map_err(Refusal::invalid),
        };
        if let Some(at) = self.place.get() {
            self.seen.borrow_mut().asked.push(SeenRequest {
                at,
                request,
                number,
                text: text.to_owned(),
                refused: answer.as_ref().err().map(|refusal| refusal.message.clone()),
            });
        }
        answer
    }
}

fn ask(stage: &FakeRun, asked: ext::Asked) -> Result<(), String> {
    use ext::Asked as A;
    match asked {
        A::Stop {
            reason,
            after_epoch,
        } => {
            let mut stop = stage.requests.stop.borrow_mut();
            // The first request's reason is kept, unless a later stop is more urgent.
            let replaces = |known: &FakeStop| known.after_epoch && !after_epoch;
            if stop.as_ref().is_none_or(replaces) {
                *stop = Some(FakeStop {
                    reason,
                    after_epoch,
                });
            }
        }
        A::SkipBatch => stage.requests.skip_batch.set(true),
        A::SkipUpdate => stage.requests.skip_update.set(true),
        A::SetLearningRate { group, rate } => {
            let is_of_one = group.is_some();
            for_groups(stage, group.as_deref(), |group| {
                let scale = if is_of_one { 1.0 } else { group.scale };
                group.learning_rate = rate * scale;
            })?;
        }
        A::SetMomentum { group, momentum } => {
            for_groups(stage, group.as_deref(), |group| group.momentum = momentum)?;
        }
        A::SetWeightDecay { group, decay } => {
            for_groups(stage, group.as_deref(), |group| group.weight_decay = decay)?;
        }
        A::ScaleLoss(factor) => {
            let scale = stage.requests.loss_scale.get().unwrap_or(1.0);
            stage.requests.loss_scale.set(Some(scale * factor));
        }
        A::SetAccumulation(batches) => stage.requests.accumulation.set(Some(batches)),
        A::LeaveOut(point) => stage.requests.left_out.borrow_mut().push(point),
        A::DeclareMetric(name) => stage.seen.borrow_mut().declared_metrics.push(name),
        A::DeclareAsks(names) => {
            stage.uses.declare_asks(&names)?;
            stage.seen.borrow_mut().declared_asks = Some(names);
        }
        A::DeclareReads(names) => {
            stage.uses.declare_reads(&names)?;
            stage.seen.borrow_mut().declared_reads = Some(names);
        }
        A::SelectModules(names) => *stage.requests.modules.borrow_mut() = Some(names),
        A::Freeze { ref name, ratio } => {
            let index = stage.index(Collection::Parameters, name)?;
            let parameters = stage.parameters.borrow();
            let is_buffer = parameters.get(index).is_some_and(|tensor| tensor.is_buffer);
            check_ratio(name, ratio, is_buffer)?;
            stage.requests.pending.borrow_mut().push(asked);
        }
        A::Generate(request) => {
            let texts = request
                .prompts
                .iter()
                .map(|prompt| backwards(prompt, request.tokens))
                .collect::<Result<Vec<_>, _>>()?;
            let json = serde_json::to_string(&texts).map_err(|error| error.to_string())?;
            Values::set(stage, Keep::Batch as u32, GENERATED_TEXT, &json)
                .map_err(|refusal| refusal.message)?;
        }
        asked => stage.requests.pending.borrow_mut().push(asked),
    }
    Ok(())
}

/// What the kit's model writes: the prompt backwards, a token for each character.
fn backwards(prompt: &str, tokens: u64) -> Result<WrittenText, String> {
    if prompt.is_empty() {
        return Err("a prompt is empty: the model needs a token to begin with".to_owned());
    }
    let most = usize::try_from(tokens).unwrap_or(usize::MAX);
    let text: String = prompt.chars().rev().take(most).collect();
    let end = if prompt.chars().count() > most {
        "length"
    } else {
        "stop"
    };
    Ok(WrittenText {
        tokens: text.chars().count() as u64,
        end: end.to_owned(),
        text,
    })
}

/// Changes the group of this name, or all groups if no name is given.
fn for_groups(
    stage: &FakeRun,
    name: Option<&str>,
    change: impl Fn(&mut super::super::stage::FakeGroup),
) -> Result<(), String> {
    let mut groups = stage.groups.borrow_mut();
    let Some(name) = name else {
        groups.iter_mut().for_each(change);
        return Ok(());
    };
    if let Some(group) = groups.iter_mut().find(|group| &*group.name == name) {
        change(group);
        return Ok(());
    }
    let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
    Err(format!(
        "there is no parameter group `{name}`; there are: {}",
        names.join(", ")
    ))
}
