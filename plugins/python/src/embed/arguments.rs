//! Arguments of Python's calls, converted as the method's signature says.

use std::ptr;

use super::raise::raise;
use super::symbols::{Object, Python};
use crate::task::{Argument, Arguments, MOST_ARGUMENTS, Method};

/// Converts arguments as the method's signature says; `None` with an exception set if they don't fit.
pub(super) fn read<'call>(
    python: &Python,
    method: &Method,
    arguments: &'call [Object],
) -> Option<Arguments<'call>> {
    let (required, optional) = method
        .signature
        .split_once('|')
        .unwrap_or((method.signature, ""));
    let most = required.len() + optional.len();
    if arguments.len() < required.len() || arguments.len() > most {
        raise(
            python,
            python.type_error,
            &wrong_count(method, required.len(), most, arguments.len()),
        );
        return None;
    }
    let mut read = [Argument::Missing; MOST_ARGUMENTS];
    let letters = required.bytes().chain(optional.bytes());
    for ((place, letter), &object) in read.iter_mut().zip(letters).zip(arguments) {
        // SAFETY: Python has the lock, and the argument is alive for the call.
        *place = unsafe { read_one(python, letter, object) }.or_else(|| {
            let name = method.name.to_string_lossy();
            let expected = match letter {
                b't' => "a text",
                b'o' => "a text or None",
                b'y' => "bytes",
                b'i' => "a whole number",
                _ => "a number",
            };
            raise(
                python,
                python.type_error,
                &format!("{name}() expects {expected}"),
            );
            None
        })?;
    }
    Some(Arguments(read))
}

/// The message about a wrong number of arguments.
#[cold]
fn wrong_count(method: &Method, least: usize, most: usize, found: usize) -> String {
    let name = method.name.to_string_lossy();
    let count = match (least, most) {
        (1, 1) => "1 argument".to_owned(),
        _ if least == most => format!("{most} arguments"),
        _ => format!("{least} to {most} arguments"),
    };
    let names = match names_of(&name) {
        Some("") | None => String::new(),
        Some(names) => format!(" ({names})"),
    };
    format!("{name}() takes {count}{names}, found {found}")
}

/// A method's arguments as the stubs have them: `metric: str, value: float`.
fn names_of(method: &str) -> Option<&'static str> {
    let stubs = include_str!("../../sconce/__init__.pyi");
    let (_, of_task) = stubs.split_once("class Task:")?;
    let (_, rest) = of_task.split_once(&format!(" def {method}(self"))?;
    let (arguments, _) = rest.split_once(") ->")?;
    Some(
        arguments
            .trim_start_matches(", ")
            .trim_end_matches('/')
            .trim_end_matches(", "),
    )
}

/// Converts one argument; `None` if it is of another type.
///
/// # Safety
///
/// The thread must have the interpreter's lock, and the object must be alive for `'call`.
unsafe fn read_one<'call>(python: &Python, letter: u8, object: Object) -> Option<Argument<'call>> {
    // SAFETY: the caller has the lock and keeps the object alive; texts and bytes belong to it.
    let argument = unsafe {
        match letter {
            b'o' if object == python.none => Some(Argument::Missing),
            b't' | b'o' => {
                let mut length = 0;
                let data = (python.PyUnicode_AsUTF8AndSize)(object, &raw mut length).cast::<u8>();
                let length = usize::try_from(length).unwrap_or_default();
                (!data.is_null())
                    .then(|| std::slice::from_raw_parts(data, length))
                    .and_then(|bytes| std::str::from_utf8(bytes).ok().map(Argument::Text))
            }
            b'y' => {
                let (mut data, mut length) = (ptr::null_mut(), 0);
                let status =
                    (python.PyBytes_AsStringAndSize)(object, &raw mut data, &raw mut length);
                let length = usize::try_from(length).unwrap_or_default();
                (status == 0)
                    .then(|| Argument::Bytes(std::slice::from_raw_parts(data.cast::<u8>(), length)))
            }
            b'i' => Some(Argument::Integer((python.PyLong_AsLongLong)(object))),
            b'b' => Some(Argument::Bool((python.PyObject_IsTrue)(object) == 1)),
            _ => Some(Argument::Number((python.PyFloat_AsDouble)(object))),
        }
    };
    // SAFETY: the caller has the lock.
    let is_wrong = unsafe { !(python.PyErr_Occurred)().is_null() };
    if is_wrong {
        // SAFETY: the caller has the lock. Another exception says which method it was.
        unsafe { (python.PyErr_Clear)() };
        return None;
    }
    argument
}
