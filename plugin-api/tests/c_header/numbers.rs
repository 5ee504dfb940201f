//! The numbers of the interface, under their names in `sconce.h`.

use sconce_plugin_api::abi::{ABI_EPOCH, Status, ViewAbi};
use sconce_plugin_api::ext::{Collection, Keep, Level, Request, ResumeTable, TensorAbi};
use sconce_plugin_api::{Phase, Point};

/// All numbers that `sconce.h` defines, with their names there.
pub(crate) fn numbers() -> Vec<(String, u64)> {
    let mut all = vec![named("ABI_EPOCH", u64::from(ABI_EPOCH))];
    all.extend(statuses().map(|(name, status)| named(name, u64::from(status.0))));
    all.extend(flags().map(|(name, flag)| named(name, flag)));
    all.extend(Phase::ALL.map(|phase| named(phase.name(), u64::from(phase.number()))));
    all.extend((Point::ALL.iter()).map(|point| named(point.name(), u64::from(point.number()))));
    all.extend(Request::ALL.map(|request| named(request.name(), request as u64)));
    all.extend(Collection::ALL.map(|kind| named(&format!("{kind:?}"), kind as u64)));
    all.extend(
        [Level::Warn, Level::Info, Level::Debug].map(|level| named(name_of(level), level as u64)),
    );
    let keeps = (0..).map_while(Keep::from_number);
    all.extend(keeps.map(|keep| named(&format!("KEEP_{keep:?}"), keep as u64)));
    all
}

/// The statuses, by their names in `abi/error.rs`.
pub(crate) fn statuses() -> std::array::IntoIter<(&'static str, Status), 9> {
    [
        ("OK", Status::OK),
        ("ERROR", Status::ERROR),
        ("PANIC", Status::PANIC),
        ("CONFIG", Status::CONFIG),
        ("NO_SUCH_KIND", Status::NO_SUCH_KIND),
        ("NOT_FOUND", Status::NOT_FOUND),
        ("NOT_LEGAL_HERE", Status::NOT_LEGAL_HERE),
        ("INVALID", Status::INVALID),
        ("UNSUPPORTED", Status::UNSUPPORTED),
    ]
    .into_iter()
}

/// The bits of flags, whose names end as the constants' in Rust.
pub(crate) fn flags() -> std::array::IntoIter<(&'static str, u64), 8> {
    [
        ("VIEW_HAS_LOSS", ViewAbi::HAS_LOSS),
        ("VIEW_INITIAL", ViewAbi::INITIAL),
        ("VIEW_UPDATES", ViewAbi::UPDATES),
        ("TENSOR_WRITABLE", TensorAbi::WRITABLE),
        ("TENSOR_BUFFER", TensorAbi::BUFFER),
        ("RESUMED", ResumeTable::RESUMED),
        ("KNOWN", ResumeTable::KNOWN),
        ("RELOADED", ResumeTable::RELOADED),
    ]
    .into_iter()
}

/// A level that is left out of the list above does not compile here.
fn name_of(level: Level) -> &'static str {
    match level {
        Level::Warn => "WARN",
        Level::Info => "INFO",
        Level::Debug => "DEBUG",
    }
}

fn named(name: &str, number: u64) -> (String, u64) {
    (format!("SCONCE_{}", name.to_uppercase()), number)
}
