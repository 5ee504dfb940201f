//! What the hook asks for and reads, compared with what its metadata list.
//!
//! Sconce's own trainer serves everything. Another loop refuses a hook before the run by those lists, so one that is not in
//! them would fail in the middle of somebody else's run: here it fails its author's test.

use std::cell::RefCell;

use sconce_plugin_api::ext::{Collection, Readable, Request};
use sconce_plugin_api::metadata::HookMetadata;

/// A list of the metadata, and what the hook has declared at its creation in its place.
#[derive(Default)]
struct List {
    /// `None`: not known, so everything is allowed.
    of_metadata: Option<Vec<String>>,
    declared: RefCell<Option<Vec<String>>>,
}

/// What the hook says that it uses, and what it has used beyond that.
#[derive(Default)]
pub(super) struct Uses {
    asks: List,
    reads: List,
    /// The first use that is not listed.
    unlisted: RefCell<Option<String>>,
}

impl Uses {
    pub(super) fn of(metadata: Option<&HookMetadata>) -> Uses {
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
    pub(super) fn begin_creation(&self) {
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
    pub(super) fn take_unlisted(&self) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use sconce_plugin_api::ext::Collection;
    use sconce_plugin_api::moment::Stops;
    use sconce_plugin_api::prelude::*;
    use serde_json::json;

    use crate::{Failed, ScriptedRun};

    /// What the hook does in functions outside of its block, and what it declares at its creation.
    #[derive(Default, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Deeds {
        stops: bool,
        saves: bool,
        tensor: Option<(u32, String)>,
        declares: Option<Vec<String>>,
    }

    struct Doer(Deeds);

    #[hook(name = "doer", about = "Does what it is told.", asks = stop, reads = inputs)]
    impl Hook for Doer {
        type Config = Deeds;

        fn new(deeds: Deeds, setup: &Setup<'_>) -> Result<Self> {
            if let Some(names) = &deeds.declares {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                setup.asks(&names)?;
            }
            Ok(Doer(deeds))
        }

        fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
            if self.0.saves {
                // That is listed: it is in the block.
                task.checkpoint("a").save()?;
            }
            self.look(task);
            self.stop(task)
        }
    }

    impl Doer {
        fn stop(&self, task: &mut At<'_, impl Stops>) -> Result<()> {
            if self.0.stops {
                task.stop("it is told to")?;
            }
            Ok(())
        }

        /// Errors make no difference: what is read counts.
        fn look(&self, task: &TaskView<'_>) {
            if let Some((number, name)) = &self.0.tensor
                && let Some(collection) = Collection::from_number(*number)
            {
                drop(task.tensors(collection).named(name));
            }
        }
    }

    fn drive(deeds: serde_json::Value) -> Result<(), String> {
        let run = ScriptedRun::new().epochs(1).iterations(1);
        let driven = run.drive::<Doer>(deeds);
        driven.map(drop).map_err(|failed: Failed| failed.message)
    }

    #[test]
    fn what_is_listed_or_in_the_block_is_allowed() {
        assert_eq!(drive(json!({"stops": true, "saves": true})), Ok(()));
        let published = Collection::Published as u32;
        assert_eq!(drive(json!({"tensor": [published, "a"]})), Ok(()));
    }

    #[test]
    fn what_is_not_listed_fails_and_the_message_has_the_key() {
        for (collection, name) in [
            (Collection::Gradients, "gradients"),
            (Collection::Optimizer, "optimizer"),
            (Collection::Batch, "batch"),
        ] {
            let told = drive(json!({"tensor": [collection as u32, "a"]})).expect_err(name);
            let advice = format!("add it by `reads = [{name}]` in `#[hook(…)]`");
            assert!(told.ends_with(&advice), "{told}");
        }
    }

    #[test]
    fn what_is_declared_at_creation_takes_the_place_of_the_list() {
        let one = |declares: &[&str]| drive(json!({"stops": true, "declares": declares}));
        assert_eq!(one(&["stop"]), Ok(()));
        let told = one(&["save_checkpoint"]).expect_err("it stops");
        assert!(told.contains("which it has not declared"), "{told}");
        let told = one(&["freeze"]).expect_err("that is not listed");
        assert!(
            told.contains("declares `freeze`, which its metadata don't list"),
            "{told}"
        );
        let told = one(&["tea"]).expect_err("there is none");
        assert!(
            told.contains("there is no request `tea` to declare"),
            "{told}"
        );
    }
}
