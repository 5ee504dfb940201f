//! The output of one module of a pass.

use candle_core::{Error, Result, Tensor};

use super::{ModuleInfo, Taps};

/// Keeps the output of one module, detached from the graph.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use sconce_nn::{ModuleInfo, ModuleOutput, Pass};
///
/// # fn main() -> candle_core::Result<()> {
/// let double = ModuleInfo::new("double", "scale");
/// let mut kept = ModuleOutput::of("double");
/// let x = Tensor::new(&[1.0_f32, 2.0], &Device::Cpu)?;
/// Pass::evaluation().with_taps(&mut kept).module(&double, &x, |x, _| x.affine(2.0, 0.0))?;
/// assert_eq!(kept.take()?.to_vec1::<f32>()?, [2.0, 4.0]);
/// assert!(kept.take().is_err());
/// # Ok(())
/// # }
/// ```
pub struct ModuleOutput<'a> {
    name: &'a str,
    output: Option<Tensor>,
}

impl<'a> ModuleOutput<'a> {
    /// Creates one for the module of this name, which has not been run.
    pub fn of(name: &'a str) -> ModuleOutput<'a> {
        ModuleOutput { name, output: None }
    }

    /// Takes the output of the module's last run.
    ///
    /// # Errors
    ///
    /// If it has not been run since the last call.
    pub fn take(&mut self) -> Result<Tensor> {
        (self.output.take())
            .ok_or_else(|| Error::Msg(format!("the module `{}` has not been run", self.name)))
    }
}

impl Taps for ModuleOutput<'_> {
    fn listens(&mut self, module: &ModuleInfo) -> bool {
        module.name == self.name
    }

    fn enter(&mut self, module: &ModuleInfo, input: &Tensor) -> Result<Option<Tensor>> {
        Ok((module.name == self.name).then(|| input.clone()))
    }

    fn leave(&mut self, _module: &ModuleInfo, _input: &Tensor, output: Tensor) -> Result<Tensor> {
        self.output = Some(output.detach());
        Ok(output)
    }
}
