//! `sconce.forward/1` and `sconce.given-loss/1`: forward passes that hooks ask for, and losses that they give.

use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{
    ForwardMode, ForwardPasses, ForwardPassesTable, GivenLoss, Refusal, TensorAbi, check_name,
    why_no_forward_at, why_no_loss_at, why_no_loss_on_first,
};

use super::values::copied;
use crate::bridge::forward::AskedPass;
use crate::bridge::shared::BridgeState;
use crate::bridge::witness::HookAction;

impl ForwardPasses for BridgeState<'_> {
    fn run(
        &self,
        set: &str,
        view: u32,
        module: &str,
        mode: u32,
        name: &str,
    ) -> Result<(), Refusal> {
        if let Some(message) = why_no_forward_at(self.point()) {
            return Err(Refusal::new(Status::NOT_LEGAL_HERE, message));
        }
        let mode = ForwardMode::from_number(mode).ok_or_else(|| {
            let message =
                format!("this host does not know the mode {mode} of a forward pass; update it");
            Refusal::new(Status::UNSUPPORTED, message)
        })?;
        let pass = AskedPass {
            view: (view != ForwardPassesTable::WHOLE).then_some(view),
            module: (!module.is_empty()).then_some(module),
            mode,
        };
        check_name("a published name", name)
            .and_then(|()| self.sees(&HookAction::Value { name, json: None }))
            .and_then(|()| self.run_forward(set, &pass, name))
            .map_err(Refusal::invalid)
    }
}

impl GivenLoss for BridgeState<'_> {
    unsafe fn set(&self, value: f64, gradient: &TensorAbi) -> Result<(), Refusal> {
        let not_here = |message| Err(Refusal::new(Status::NOT_LEGAL_HERE, message));
        if let Some(message) = why_no_loss_at(self.point(), self.phase()) {
            return not_here(message);
        }
        if self.is_on_first_of_several() {
            return not_here(why_no_loss_on_first(&self.hook_name()));
        }
        // SAFETY: guaranteed by the caller.
        let gradient = unsafe { copied(gradient) };
        self.sees(&HookAction::Loss { value })
            .and(gradient)
            .and_then(|gradient| self.give_loss(value, gradient))
            .map_err(Refusal::invalid)
    }
}
