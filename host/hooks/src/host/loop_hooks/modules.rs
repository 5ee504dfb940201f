//! Mount points at the model's modules, for a loop that shows tensors of its own there.

use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{ModuleAbi, TextAbi};

use super::LoopHooks;
use crate::bridge::ForeignTensor;
use crate::host::error::{HostError, HostResult};

impl LoopHooks<'_> {
    /// Whether hooks are called after the forward pass of the plan's module of this index in the batch in progress.
    pub fn listens_at_module(&mut self, index: usize) -> bool {
        // The model may also be called between batches, which is no pass of the loop's.
        if self.followed.missing() != Some(Point::AfterForward) {
            return false;
        }
        let position = self.followed.position();
        let hooks = self.hooks.as_mut();
        hooks.is_some_and(|hooks| hooks.listens(Point::ModuleForward, index, position))
    }

    /// The plan's module of this index has computed its output: `module_forward`. Its tensors are shown for the call.
    ///
    /// # Errors
    ///
    /// If a hook fails, or the plan has no such module.
    pub fn module_forward(
        &mut self,
        index: usize,
        input: Option<ForeignTensor>,
        output: Option<ForeignTensor>,
    ) -> HostResult {
        if !self.listens_at_module(index) {
            return Ok(());
        }
        let (Some(module), Some(hooks)) = (self.known.modules.get(index), &mut self.hooks) else {
            return Err(HostError::Loop(format!("the plan has no module {index}")));
        };
        let payload = ModuleAbi {
            name: TextAbi::new(&module.name),
            kind: TextAbi::new(&module.kind),
        };
        let foreign = &self.shared.tensors.foreign;
        foreign.set_module([input, output]);
        let place = (index, &payload);
        let called = hooks.call_module(
            Point::ModuleForward,
            place,
            self.followed.position(),
            &self.shared,
        );
        foreign.set_module([None, None]);
        called?;
        self.serve()
    }
}
