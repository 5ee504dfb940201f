//! Calls of isolated hooks and their results, as they travel between processes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::abi::{Refusal, Status, TextAbi};
use crate::ext::{GroupAbi, HostCall, MetricAbi};

/// A host's answer to an isolated hook.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer<'a> {
    /// As a table's functions return it.
    pub status: u32,
    /// A count, an index, flags, a truth, or the bits of a second number.
    pub count: u64,
    /// A number.
    pub number: f64,
    /// A name or JSON.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
    /// Why it was refused.
    #[serde(borrow)]
    pub message: Cow<'a, str>,
}

/// A result that travels to an isolated hook.
pub trait Travels<'a>: Sized {
    /// Writes it to an answer.
    fn write(self, answer: &mut Answer<'a>);

    /// Reads it from an answer; `keep` makes of its text one that lives as long as the process.
    fn read(answer: &Answer<'_>, keep: &mut dyn FnMut(&str) -> &'static str) -> Self;

    /// The answer that has it.
    fn answer(self) -> Answer<'a> {
        let mut answer = Answer::default();
        self.write(&mut answer);
        answer
    }
}

/// Sends calls of an isolated hook to the host.
pub trait Forwards {
    /// Waits for the answer.
    fn ask<'s, R: Travels<'s>>(&'s self, call: HostCall<'_>) -> R;

    /// Needs none.
    fn post(&self, call: HostCall<'_>);
}

macro_rules! counts {
    ($($number:ty)*) => {$(
        impl Travels<'_> for $number {
            #[allow(clippy::cast_lossless, reason = "of some of the types")]
            fn write(self, answer: &mut Answer<'_>) {
                answer.count = self as u64;
            }

            fn read(answer: &Answer<'_>, _keep: &mut dyn FnMut(&str) -> &'static str) -> Self {
                answer.count as $number
            }
        }
    )*};
}

counts! { u32 u64 usize }

impl Travels<'_> for bool {
    fn write(self, answer: &mut Answer<'_>) {
        answer.count = self.into();
    }

    fn read(answer: &Answer<'_>, _keep: &mut dyn FnMut(&str) -> &'static str) -> Self {
        answer.count != 0
    }
}

impl Travels<'_> for () {
    fn write(self, _answer: &mut Answer<'_>) {}

    fn read(_answer: &Answer<'_>, _keep: &mut dyn FnMut(&str) -> &'static str) -> Self {}
}

impl Travels<'_> for f64 {
    fn write(self, answer: &mut Answer<'_>) {
        answer.number = self;
    }

    fn read(answer: &Answer<'_>, _keep: &mut dyn FnMut(&str) -> &'static str) -> Self {
        answer.number
    }
}

impl<'a> Travels<'a> for &'a str {
    fn write(self, answer: &mut Answer<'a>) {
        answer.text = self.into();
    }

    fn read(answer: &Answer<'_>, keep: &mut dyn FnMut(&str) -> &'static str) -> Self {
        keep(&answer.text)
    }
}

/// A name, which lives as long as the run.
fn write_name(name: TextAbi, answer: &mut Answer<'_>) {
    // SAFETY: the host lends a name with its text, which lives longer than the answer is written.
    let name = unsafe { name.read() };
    answer.text = name.unwrap_or_default().to_owned().into();
}

impl Travels<'_> for MetricAbi {
    fn write(self, answer: &mut Answer<'_>) {
        write_name(self.name, answer);
        answer.number = self.value;
    }

    fn read(answer: &Answer<'_>, keep: &mut dyn FnMut(&str) -> &'static str) -> Self {
        MetricAbi {
            name: TextAbi::new(keep(&answer.text)),
            value: answer.number,
        }
    }
}

impl Travels<'_> for GroupAbi {
    fn write(self, answer: &mut Answer<'_>) {
        write_name(self.name, answer);
        answer.number = self.learning_rate;
        answer.count = self.weight_decay.to_bits();
    }

    fn read(answer: &Answer<'_>, keep: &mut dyn FnMut(&str) -> &'static str) -> Self {
        GroupAbi {
            name: TextAbi::new(keep(&answer.text)),
            learning_rate: answer.number,
            weight_decay: f64::from_bits(answer.count),
        }
    }
}

impl<'a, T: Travels<'a>> Travels<'a> for Option<T> {
    fn write(self, answer: &mut Answer<'a>) {
        match self {
            Some(value) => value.write(answer),
            None => answer.status = Status::NOT_FOUND.0,
        }
    }

    fn read(answer: &Answer<'_>, keep: &mut dyn FnMut(&str) -> &'static str) -> Self {
        (answer.status == Status::OK.0).then(|| T::read(answer, keep))
    }
}

impl<'a, T: Travels<'a>> Travels<'a> for Result<T, Refusal> {
    fn write(self, answer: &mut Answer<'a>) {
        match self {
            Ok(value) => value.write(answer),
            Err(refusal) => {
                answer.status = refusal.status.0;
                answer.message = refusal.message.into();
            }
        }
    }

    fn read(answer: &Answer<'_>, keep: &mut dyn FnMut(&str) -> &'static str) -> Self {
        if answer.status == Status::OK.0 {
            return Ok(T::read(answer, keep));
        }
        Err(Refusal::new(Status(answer.status), &*answer.message))
    }
}
