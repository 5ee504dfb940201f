//! Plugins built against an older and a newer `sconce-plugin-api` than the host's.
//!
//! Each is the outside plugin, built by cargo against a copy of the API whose sources have been
//! changed: to 1.0 without the extensions and points that came later, and to a 1.9 with a mount
//! point and an extension that this host does not know.

use std::fs;
use std::path::{Path, PathBuf};

use sconce_tests::{
    Finished, Workplace, artifacts, cargo_outside, edit, outside_target, tiny, workspace,
};
use serde_json::json;

/// What is built: not the name of the outside plugin's own library, which other tests build in the same place.
const LIBRARY: &str = "libbest_loss_elsewhere.so";

/// A copy of the sources that the outside plugin is built from, in a place of its own.
struct Copy {
    root: PathBuf,
}

impl Copy {
    fn new(name: &str) -> Copy {
        let root = artifacts().directory().join("versions").join(name);
        if root.exists() {
            fs::remove_dir_all(&root).expect("an earlier copy can be removed");
        }
        for part in ["plugin-api", "examples/outside-plugin"] {
            copy(&workspace().join(part), &root.join(part));
        }
        fs::copy(workspace().join("README.md"), root.join("README.md")).expect("copied");
        fs::copy(workspace().join("Cargo.lock"), root.join("Cargo.lock")).expect("copied");
        let manifest = fs::read_to_string(workspace().join("Cargo.toml")).expect("read");
        let (head, rest) = manifest
            .split_once("[workspace.package]")
            .expect("a section");
        assert!(head.contains("members"), "what is replaced");
        let head = "[workspace]\nresolver = \"3\"\nmembers = [\"plugin-api\", \"plugin-api/macros\"]\n\
                    exclude = [\"examples/outside-plugin\"]\n\n[workspace.package]";
        fs::write(root.join("Cargo.toml"), format!("{head}{rest}")).expect("written");
        Copy { root }
    }

    /// Changes a text in a file, which must be there.
    fn change(&self, file: &str, from: &str, to: &str) -> &Copy {
        let path = self.root.join(file);
        let text = fs::read_to_string(&path).expect(file);
        assert!(text.contains(from), "no {from:?} in {file}");
        fs::write(&path, text.replace(from, to)).expect("written");
        self
    }

    /// Sets the version of the API.
    fn version(&self, version: &str) -> &Copy {
        let found = sconce_plugin_api::abi::API_VERSION;
        for file in ["plugin-api/Cargo.toml", "plugin-api/macros/Cargo.toml"] {
            let (from, to) = (
                format!("\nversion = \"{found}\""),
                format!("\nversion = \"{version}\""),
            );
            self.change(file, &from, &to);
        }
        let (from, to) = (
            format!("version = \"{found}\" }}"),
            format!("version = \"{version}\" }}"),
        );
        self.change("Cargo.toml", &from, &to)
    }

    /// Builds the outside plugin; the directory with its library.
    fn build(&self) -> PathBuf {
        let named = "[lib]\nname = \"best_loss_elsewhere\"";
        let example = self.root.join("examples/outside-plugin");
        let manifest = fs::read_to_string(example.join("Cargo.toml")).expect("its manifest");
        // A copy may be built several times.
        if !manifest.contains(named) {
            self.change("examples/outside-plugin/Cargo.toml", "[lib]", named);
        }
        let output = cargo_outside(&example)
            .args(["build", "--quiet"])
            .output()
            .expect("cargo can be run");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "the changed plugin builds:\n{errors}"
        );
        // The next copy is built into the same directory, to save its dependencies' time.
        let plugins = self.root.join("plugins");
        fs::create_dir(&plugins).expect("a directory");
        let built = outside_target().join("debug").join(LIBRARY);
        fs::copy(built, plugins.join(LIBRARY)).expect("it is there");
        plugins
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_file() {
            fs::copy(entry.path(), target).expect("copied");
        } else if entry.file_name() != "target" {
            copy(&entry.path(), &target);
        }
    }
}

fn run(plugins: &Path) -> (Workplace, Finished) {
    let place = Workplace::new(&[]);
    let manifest = edit(tiny(), "/plugins", json!([plugins]));
    let hooks = json!([{"hook": "best-loss", "config": {"accuracy": 0.0}}]);
    let finished = place.run(&edit(manifest, "/hooks", hooks));
    (place, finished)
}

fn inspected(plugins: &Path) -> String {
    let place = Workplace::new(&[]);
    let library = plugins.join(LIBRARY);
    let finished = place.sconce(&["inspect".as_ref(), library.as_os_str()]);
    finished.expect(0, &[]).stdout
}

/// One test, so that the builds, which share a target directory, come one after the other.
#[cfg(target_os = "linux")]
#[test]
fn older_and_newer_plugins_fit_and_what_is_missing_is_reported() {
    let older = Copy::new("older");
    older.version("1.0.0");
    // What came with 1.1: an old plugin asks for none of it.
    older
        .change(
            "plugin-api/src/ext/mod.rs",
            "fn query<T: Extension>(host: &HostRoot) -> Option<&'static T> {\n",
            "fn query<T: Extension>(host: &HostRoot) -> Option<&'static T> {\n    \
             if matches!(T::ID, \"sconce.task/1\" | \"sconce.values/1\") {\n        return None;\n    }\n",
        )
        .change(
            "plugin-api/macros/src/points.rs",
            "    with(14, \"module_forward\", \"module\"),\n",
            "",
        )
        .change(
            "plugin-api/macros/src/points.rs",
            "    with(17, \"after_save_checkpoint\", \"checkpoint\"),\n",
            "",
        );
    let plugins = older.build();
    let told = inspected(&plugins);
    assert!(told.contains("1.0.0 (ABI epoch 1)"), "{told}");
    let (place, finished) = run(&plugins);
    finished.expect(0, &[]);
    assert!(
        place.read("out/best.txt").contains("epoch"),
        "it did its work"
    );

    let newer = Copy::new("newer");
    newer.version("1.9.0");
    newer
        .change(
            "plugin-api/src/point.rs",
            "    OnException = 20, \"on_exception\";",
            "    OnException = 20, \"on_exception\";\n    /// New.\n    AfterTea = 21, \"after_tea\";",
        )
        .change(
            "plugin-api/macros/src/points.rs",
            "    with(20, \"on_exception\", \"failure\"),",
            "    with(20, \"on_exception\", \"failure\"),\n    point(21, \"after_tea\"),",
        )
        .change(
            "plugin-api/src/hook.rs",
            "    /// Once, first: model and data are there",
            "    /// New.\n    fn after_tea(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {\n        let _ = task;\n        Ok(())\n    }\n\n    /// Once, first: model and data are there",
        )
        .change(
            "examples/outside-plugin/src/lib.rs",
            "    // Called after each pass",
            "    fn after_tea(&mut self, _task: &mut AfterEpoch<'_>) -> Result<()> {\n        bail!(\"nobody calls this\")\n    }\n\n    // Called after each pass",
        );
    let plugins = newer.build();
    let told = inspected(&plugins);
    assert!(told.contains("1.9.0 (ABI epoch 1)"), "{told}");
    let (place, finished) = run(&plugins);
    finished.expect(
        0,
        &["the hook `best-loss` wants to be called at `after_tea`, which this host doesn't know"],
    );
    assert!(
        place.read("out/best.txt").contains("epoch"),
        "it did its work"
    );

    newer.change(
        "examples/outside-plugin/src/lib.rs",
        "    publishes = [\"best_loss\"]",
        "    publishes = [\"best_loss\"],\n    requires = [\"sconce.tea/1\"]",
    );
    fs::remove_dir_all(newer.root.join("plugins")).expect("the first build goes");
    let (_place, finished) = run(&newer.build());
    finished.expect(
        3,
        &[
            "`sconce.tea/1`",
            &format!("sconce-plugin-api {}", sconce_plugin_api::abi::API_VERSION),
            "sconce-plugin-api 1.9.0",
            "update this host",
        ],
    );
}
