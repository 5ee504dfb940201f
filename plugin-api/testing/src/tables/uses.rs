//! What the hook asks for and reads, compared with what its metadata list.
//!
//! Sconce's own trainer serves everything. Another loop refuses a hook before the run by those lists, so one that is not in
//! them would fail in the middle of somebody else's run: here it fails its author's test.

use std::cell::RefCell;

use sconce_plugin_api::ext::{Collection, Readable, Request};
use sconce_plugin_api::metadata::HookMetadata;

use super::super::stage::FakeRun;

/// A list of the metadata, and what the hook has declared at its creation in its place.
#[derive(Default)]
struct List {
    /// `None`: not known, so everything is allowed.
    of_metadata: Option<Vec<String>>,
    declared: RefCell<Option<Vec<String>>>,
}

/// What the hook says that it uses, and what it has used beyond that.
#[derive(Default)]
pub(in super::super) struct Uses {
    asks: List,
    reads: List,
    /// The first use that is not listed.
    unlisted: RefCell<Option<String>>,
}

impl Uses {
    pub(in super::super) fn of(metadata: Option<&HookMetadata>) -> Uses {
        let list = |names: fn(&HookMetadata) -> &Option<Vec<String>>| List {
            of_metadata: metadata.and_then(|metadata| names(metadata).clone()),
            declared: RefCell::default(),
        };
        Uses {
            asks: list(|metadata| &metadata.asks),
            reads: list(|metadata| &metadata.reads),
            unlisted: RefCell::default(),
        }
    }

    /// Forgets what an earlier instance of the hook has declared.
    pub(in super::super) fn begin_creation(&self) {
        self.asks.declared.take();
        self.reads.declared.take();
    }

    /// Notes that the hook makes a request.
    pub(super) fn asks(&self, request: Request) {
        if request.is_listed() {
            self.note("asks", &self.asks, &[request.name()]);
        }
    }

    /// Notes that the hook uses a part of the loop.
    pub(super) fn reads(&self, part: Readable) {
        self.note("reads", &self.reads, &[part.name()]);
    }

    /// Notes that the hook takes a whole collection.
    pub(super) fn takes(&self, collection: Collection) {
        if let Some(part) = Readable::of(collection) {
            self.reads(part);
        }
    }

    /// Notes that the hook takes the tensor of this name.
    pub(super) fn takes_one(&self, collection: Collection, name: &str) {
        match Readable::of_tensor(collection, name) {
            None => {}
            Some(part) if collection == Collection::Batch => {
                let names = [part.name(), Readable::Batch.name()];
                self.note("reads", &self.reads, &names);
            }
            Some(part) => self.reads(part),
        }
    }

    pub(super) fn declare_asks(&self, names: &[String]) -> Result<(), String> {
        declare("asks", &self.asks, names)
    }

    pub(super) fn declare_reads(&self, names: &[String]) -> Result<(), String> {
        declare("reads", &self.reads, names)
    }

    /// What the hook has used that is not listed; says so once.
    pub(in super::super) fn take_unlisted(&self) -> Option<String> {
        self.unlisted.take()
    }

    /// Notes a use that any of these names in the list allows; the first is the one to add.
    fn note(&self, key: &str, list: &List, names: &[&str]) {
        let has_one = |listed: &Vec<String>| listed.iter().any(|one| names.contains(&&**one));
        let Some(name) = names.first() else { return };
        let verb = if key == "asks" { "asks for" } else { "reads" };
        let message = if !list.of_metadata.as_ref().is_none_or(has_one) {
            format!(
                "the hook {verb} `{name}`, which its metadata don't list: add it by `{key} = [{name}]` in `#[hook(…)]`"
            )
        } else if !list.declared.borrow().as_ref().is_none_or(has_one) {
            format!(
                "the hook {verb} `{name}`, which it has not declared at its creation: add it where `new` calls \
                 `setup.{key}(&[…])`"
            )
        } else {
            return;
        };
        self.unlisted.borrow_mut().get_or_insert(message);
    }
}

/// Takes what the hook declares, none of which may be beyond its metadata.
fn declare(key: &str, list: &List, names: &[String]) -> Result<(), String> {
    let listed = list.of_metadata.as_ref();
    let more = listed.and_then(|listed| names.iter().find(|name| !listed.contains(*name)));
    if let Some(name) = more {
        return Err(format!(
            "the hook declares `{name}`, which its metadata don't list: add it by `{key} = [{name}]` in `#[hook(…)]`"
        ));
    }
    *list.declared.borrow_mut() = Some(names.to_vec());
    Ok(())
}

impl FakeRun {
    /// Notes that the hook takes the tensor at an index.
    pub(super) fn takes_at(&self, collection: Collection) {
        // Whoever takes one of the batch by its index has found it by its name.
        if collection != Collection::Batch {
            self.uses.takes(collection);
        }
    }
}
