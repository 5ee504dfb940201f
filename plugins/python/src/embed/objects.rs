//! The type behind Python's `task`: attributes and methods of [`crate::task`] as functions that Python calls.
//!
//! Its objects hold nothing; what they stand for is [`current`].

use std::ffi::c_void;
use std::ptr;

use sconce_plugin_api::ext::Level;
use sconce_plugin_api::{At, HookError};

use super::arguments::read;
use super::current::{self, Current};
use super::functions::hook_error;
use super::gil::{Gil, Ref};
use super::raise::raise;
use super::symbols::{FAST_CALL, FastCall, GetSetDef, MethodDef, Object, python};
use super::tensor;
use super::types::new_type;
use crate::task::{ATTRIBUTES, Answer, Argument, Arguments, METHODS, Method, Run};

/// Creates the type `Task`. Its tables live as long as the process.
pub(super) fn task_type(gil: &Gil) -> Option<Ref> {
    let getters = ATTRIBUTES
        .iter()
        .enumerate()
        .map(|(index, attribute)| GetSetDef {
            name: attribute.name.as_ptr(),
            get: Some(get_attribute),
            set: ptr::null(),
            doc: ptr::null(),
            closure: ptr::without_provenance_mut(index),
        });
    let methods = METHODS
        .iter()
        .zip(TRAMPOLINES)
        .map(|(method, call)| MethodDef {
            name: method.name.as_ptr(),
            method: Some(*call),
            flags: FAST_CALL,
            doc: ptr::null(),
        });
    new_type(
        gil,
        c"sconce._native.Task",
        0,
        methods.collect(),
        getters.collect(),
        None,
    )
}

unsafe extern "C" fn get_attribute(_task: Object, closure: *mut c_void) -> Object {
    let Some(attribute) = ATTRIBUTES.get(closure.addr()) else {
        return ptr::null_mut();
    };
    let answer = current::current(|current| match current {
        Some(Current::Task(task)) => Ok((attribute.get)(&At::any(task))),
        _ => Err(not_available()),
    });
    // SAFETY: Python calls getters with the lock.
    unsafe { give(answer) }
}

#[cold]
fn not_available() -> HookError {
    HookError::new(
        "the task is only available during a call of the hook, on the thread of the call",
    )
}

/// The result of a function that Python has called: a new reference, or null with an exception set.
///
/// # Safety
///
/// Python must be calling, on this thread.
unsafe fn give(answer: Result<Answer, HookError>) -> Object {
    // SAFETY: the caller guarantees that Python is calling.
    let Some(gil) = (unsafe { Gil::held() }) else {
        return ptr::null_mut();
    };
    let object = match answer {
        Ok(answer) => convert(&gil, answer),
        Err(error) => {
            raise(gil.python(), hook_error(), error.message());
            None
        }
    };
    object.map_or(ptr::null_mut(), Ref::into_pointer)
}

fn convert(gil: &Gil, answer: Answer) -> Option<Ref> {
    match answer {
        Answer::None => gil.none(),
        Answer::Bool(value) => gil.boolean(value),
        Answer::Count(number) => gil.integer(number),
        Answer::Number(number) => gil.float(number),
        Answer::Name(text) => gil.text(text),
        Answer::Text(text) => gil.text(&text),
        Answer::Numbers(numbers) => {
            // SAFETY: this thread has the lock.
            let all = gil.own(unsafe { (gil.python().PyDict_New)() })?;
            for (name, number) in numbers {
                let (name, number) = (gil.text(&name)?, gil.float(number)?);
                // SAFETY: this thread has the lock; the dictionary takes references of its own.
                unsafe {
                    (gil.python().PyDict_SetItem)(all.pointer(), name.pointer(), number.pointer());
                }
            }
            Some(all)
        }
        Answer::Tensor(held) => tensor::new(gil, held),
    }
}

/// A function for each method, since Python doesn't say which one it calls.
unsafe extern "C" fn trampoline<const INDEX: usize>(
    _task: Object,
    arguments: *const Object,
    count: isize,
) -> Object {
    let (Some(method), Some(python)) = (METHODS.get(INDEX), python()) else {
        return ptr::null_mut();
    };
    let arguments = match usize::try_from(count) {
        Ok(count) if count > 0 => {
            // SAFETY: Python passes that many arguments, which it keeps alive for the call.
            unsafe { std::slice::from_raw_parts(arguments, count) }
        }
        _ => &[],
    };
    match read(python, method, arguments) {
        // SAFETY: Python calls methods with the lock.
        Some(arguments) => unsafe { give(run(method, &arguments)) },
        None => ptr::null_mut(),
    }
}

fn run(method: &Method, arguments: &Arguments<'_>) -> Result<Answer, HookError> {
    match method.run {
        Run::Task(run) => current::current(|current| match current {
            Some(Current::Task(task)) => run(&mut At::any(task), arguments),
            _ => Err(not_available()),
        }),
        Run::Setup(run) => current::current(|current| match current {
            Some(Current::Setup(setup)) => run(setup, arguments),
            _ => Err(HookError::new(
                "the setup is only available while the hook is created",
            )),
        }),
        Run::Log => {
            if let [Argument::Integer(level), Argument::Text(line), ..] = arguments.0 {
                let level = Level::from_number(u32::try_from(level).unwrap_or(2));
                current::log(level, line.to_owned());
            }
            Ok(Answer::None)
        }
    }
}

macro_rules! trampolines {
    ($($index:literal)*) => { &[$(trampoline::<$index> as FastCall,)*] };
}

/// As many as there are methods; [`METHODS`] is zipped with it, and a test compares the lengths.
static TRAMPOLINES: &[FastCall] = trampolines! {
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42
    43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::MOST_ARGUMENTS;

    #[test]
    fn every_method_has_a_function_and_room_for_its_arguments() {
        assert!(METHODS.len() <= TRAMPOLINES.len(), "{}", METHODS.len());
        for method in METHODS {
            let letters = method.signature.replace('|', "");
            assert!(letters.len() <= MOST_ARGUMENTS, "{:?}", method.name);
            assert!(letters.chars().all(|letter| "toyifb".contains(letter)));
        }
    }
}
