//! Signatures of plugins: the four states, the policies, keys that change, and a `trust.json` that is wrong.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use minisign::KeyPair;
use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const CLIP: &str = "examples/clip-in-c/clip.c";

/// Who signs plugins.
struct Signer(KeyPair);

impl Signer {
    fn new() -> Signer {
        Signer(KeyPair::generate_unencrypted_keypair().expect("a pair of keys"))
    }

    fn key(&self) -> String {
        self.0.pk.to_base64()
    }

    /// Writes the signature beside the library.
    fn sign(&self, library: &Path) {
        let bytes = fs::read(library).expect("a library");
        let KeyPair { pk, sk } = &self.0;
        let signed = minisign::sign(
            Some(pk),
            sk,
            Cursor::new(bytes),
            Some("made by a test"),
            None,
        );
        let text = signed.expect("signed").into_string();
        fs::write(signature_of(library), text).expect("written");
    }
}

fn signature_of(library: &Path) -> PathBuf {
    PathBuf::from(format!("{}.minisig", library.display()))
}

/// A place with a small plugin, in C; `None` where there is no compiler.
fn place() -> Option<(Workplace, PathBuf)> {
    let place = Workplace::new(&[]);
    let library = place.add_c_plugin(CLIP, &[])?;
    Some((place, library))
}

fn trust(place: &Workplace, content: Value) {
    fs::create_dir_all(place.path("config-home/sconce")).expect("made");
    place.write_text("config-home/sconce/trust.json", &content.to_string());
}

fn trusting(signer: &Signer) -> Value {
    json!({"keys": [{"name": "lab", "key": signer.key()}]})
}

fn run(place: &Workplace, entry: Value) -> Finished {
    drop(fs::remove_dir_all(place.path("out")));
    place.run(&edit(tiny(), "/hooks", json!([entry])))
}

/// Replaces the plugin's description by another of the same length, as someone who changes code would.
fn alter(library: &Path) {
    let mut bytes = fs::read(library).expect("a library");
    let from = b"Keeps the norm";
    let at = bytes.windows(from.len()).position(|part| part == from);
    bytes[at.expect("the description")] = b'W';
    fs::write(library, bytes).expect("written");
}

#[test]
fn the_four_states_are_shown() {
    let Some((place, library)) = place() else {
        return;
    };
    let (lab, stranger) = (Signer::new(), Signer::new());
    trust(&place, trusting(&lab));
    let copy = |name: &str| {
        let target = place.path(&format!("plugins/{name}.so"));
        fs::copy(&library, &target).expect("copied");
        target
    };
    lab.sign(&copy("known"));
    stranger.sign(&copy("unknown"));
    lab.sign(&copy("altered"));
    alter(&place.path("plugins/altered.so"));
    let listed = place.sconce(&["plugins", "plugins"]);
    let listed = listed.expect(
        3,
        &[
            "plugins/altered.so` is refused: it is altered",
            "gate: signature",
        ],
    );
    for words in [
        "plugins/known.so, signed by `lab`",
        "plugins/unknown.so, signed by an unknown key, ",
        "plugins/libclip.so, unsigned",
    ] {
        assert!(
            listed.stdout.contains(words),
            "no {words:?} in {}",
            listed.stdout
        );
    }
    let inspect = |name: &str| place.sconce(&["inspect", "--json", &format!("plugins/{name}.so")]);
    for (name, expected) in [
        (
            "known",
            json!({"state": "trusted", "name": "lab", "comment": "made by a test"}),
        ),
        ("libclip", json!({"state": "unsigned"})),
    ] {
        let object: Value =
            serde_json::from_str(&inspect(name).expect(0, &[]).stdout).expect("JSON");
        assert_eq!(object["signature"], expected);
    }
    let shown = place
        .sconce(&["inspect", "plugins/known.so"])
        .expect(0, &[])
        .stdout;
    assert!(shown.contains("signed by `lab`: made by a test"), "{shown}");
    let object: Value =
        serde_json::from_str(&inspect("unknown").expect(0, &[]).stdout).expect("JSON");
    assert_eq!(object["signature"]["state"], "unknown-key");
    inspect("altered").expect(
        3,
        &["it is altered", "hint: get library and signature again"],
    );
}

#[test]
fn without_trusted_keys_nothing_is_said_of_signatures() {
    let Some((place, _)) = place() else {
        return;
    };
    let listed = place.sconce(&["plugins", "plugins"]).expect(0, &[]).stdout;
    assert!(!listed.contains("signed"), "{listed}");
    run(&place, json!("clip")).expect(0, &[]);
}

#[test]
fn one_changed_byte_in_file_or_signature_refuses_the_plugin() {
    let Some((place, library)) = place() else {
        return;
    };
    let lab = Signer::new();
    trust(&place, trusting(&lab));
    lab.sign(&library);
    run(&place, json!("clip")).expect(0, &[]);
    let signed = fs::read(signature_of(&library)).expect("a signature");
    let lines: Vec<usize> = (0..signed.len())
        .filter(|&at| signed[at] == b'\n')
        .collect();
    // In the algorithm, the key's id, the signature, the trusted comment and its signature.
    for at in [
        lines[0] + 2,
        lines[0] + 6,
        lines[0] + 40,
        lines[1] + 20,
        lines[2] + 9,
    ] {
        let mut changed = signed.clone();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        fs::write(signature_of(&library), changed).expect("written");
        run(&place, json!("clip")).expect(3, &["`plugins/libclip.so`: it is altered: "]);
        assert!(!place.path("out").exists(), "nothing is trained");
    }
    fs::write(signature_of(&library), &signed[..100]).expect("written");
    run(&place, json!("clip")).expect(3, &["its signature is damaged"]);
    fs::write(signature_of(&library), &signed).expect("written");
    alter(&library);
    // Whatever the policy is, and though the manifest demands nothing.
    for unsigned in ["allow", "warn", "refuse"] {
        let content = edit(trusting(&lab), "/unsigned", json!(unsigned));
        let content = edit(content, "/except", json!([place.directory()]));
        trust(&place, content);
        run(&place, json!("clip")).expect(
            3,
            &["it is altered: its bytes or its signature were changed"],
        );
        let entry = json!({"hook": "clip", "library": "plugins/libclip.so"});
        run(&place, entry).expect(
            3,
            &[
                "`plugins/libclip.so` is refused: it is altered",
                "gate: signature",
            ],
        );
    }
    let validated = place.sconce(&["validate", "plugins/libclip.so", "--only", "file.structure"]);
    assert_eq!(validated.code, 3, "{}", validated.stdout);
}

#[test]
fn the_policy_decides_about_plugins_that_no_trusted_key_has_signed() {
    let Some((place, library)) = place() else {
        return;
    };
    let (lab, stranger) = (Signer::new(), Signer::new());
    let policy = |unsigned: &str| trust(&place, edit(trusting(&lab), "/unsigned", json!(unsigned)));
    let warning = "warning: the plugin `plugins/libclip.so` is unsigned";
    policy("warn");
    let warned = run(&place, json!("clip")).expect(0, &[warning]);
    assert_eq!(
        warned.stderr.matches(warning).count(),
        1,
        "{}",
        warned.stderr
    );
    policy("refuse");
    let words = [
        "it is unsigned, and `trust.json` refuses",
        "sconce trust add NAME KEY",
    ];
    run(&place, json!("clip")).expect(3, &words);
    stranger.sign(&library);
    run(&place, json!("clip")).expect(3, &["it is signed by an unknown key, "]);
    let content = edit(trusting(&lab), "/unsigned", json!("refuse"));
    trust(
        &place,
        edit(content, "/except", json!([place.path("plugins")])),
    );
    run(&place, json!("clip")).expect(0, &[]);
    policy("refuse");
    lab.sign(&library);
    let finished = run(&place, json!("clip")).expect(0, &[]);
    assert!(!finished.stderr.contains("signed"), "{}", finished.stderr);
}

/// A plugin that has another library loaded from beside itself, which writes a file as soon as it is opened.
fn place_with_neighbour(flags: &[&str]) -> Option<(Workplace, PathBuf)> {
    let place = Workplace::new(&[]);
    let source = format!(
        "#include <stdio.h>\n__attribute__((constructor)) static void loaded(void) {{ FILE *file = fopen(\"{}\", \"w\"); \
         if (file) fclose(file); }}\nint neighbour(void) {{ return 1; }}\n",
        place.path("loaded").display()
    );
    let source = place.write_text("neighbour.c", &source);
    let neighbour = place.path("plugins/libneighbour.so");
    let built = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&neighbour, &source])
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "a C compiler is there: it builds plugins"
    );
    let beside = format!("-L{}", place.path("plugins").display());
    let more = [
        &[beside.as_str(), "-Wl,--no-as-needed", "-lneighbour"],
        flags,
    ]
    .concat();
    let library = place.add_c_plugin(CLIP, &more)?;
    Some((place, library))
}

#[test]
fn where_signatures_are_demanded_nothing_is_loaded_from_beside_a_plugin() {
    let lab = Signer::new();
    let Some((place, library)) = place_with_neighbour(&["-Wl,-rpath,$ORIGIN"]) else {
        return;
    };
    lab.sign(&library);
    let policy = |unsigned: &str| trust(&place, edit(trusting(&lab), "/unsigned", json!(unsigned)));
    policy("refuse");
    let words = [
        "it has other libraries loaded from outside of the system's directories, by `$ORIGIN`",
        "link them into the plugin",
    ];
    run(&place, json!("clip")).expect(3, &words);
    policy("allow");
    let demanded = json!({"hook": "clip", "signed_by": "lab"});
    run(&place, demanded).expect(3, &[words[0]]);
    assert!(!place.path("loaded").exists(), "its code has run");
    // What is not demanded is allowed, with a warning where that is wanted.
    run(&place, json!("clip")).expect(0, &[]);
    assert!(
        place.path("loaded").exists(),
        "the attack works where it may"
    );
    policy("warn");
    let warning = "is signed by `lab`, but has other libraries loaded that no signature covers";
    run(&place, json!("clip")).expect(0, &[warning]);
    let content = edit(trusting(&lab), "/unsigned", json!("refuse"));
    let excepted = json!([place.path("plugins")]);
    trust(&place, edit(content, "/except", excepted));
    run(&place, json!("clip")).expect(0, &[]);
}

#[test]
fn an_absolute_path_of_libraries_is_as_unsigned_as_a_relative_one() {
    let lab = Signer::new();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let flag = format!("-Wl,-rpath,/usr/lib:{}", elsewhere.path().display());
    let Some((place, library)) = place_with_neighbour(&[&flag]) else {
        return;
    };
    lab.sign(&library);
    trust(&place, edit(trusting(&lab), "/unsigned", json!("refuse")));
    let by = format!("by `{}`, where no signature", elsewhere.path().display());
    run(&place, json!("clip")).expect(3, &[&by]);
}

#[test]
fn an_entry_may_demand_a_signer_and_nothing_less() {
    let Some((place, library)) = place() else {
        return;
    };
    let (lab, other) = (Signer::new(), Signer::new());
    let keys = json!([{"name": "lab", "key": lab.key()}, {"name": "other", "key": other.key()}]);
    trust(&place, json!({"keys": keys}));
    let demands = |name: &str| run(&place, json!({"hook": "clip", "signed_by": name}));
    demands("lab").expect(
        3,
        &[
            "it is unsigned, and the manifest wants it signed by `lab`",
            "at hooks[0]",
        ],
    );
    other.sign(&library);
    demands("lab").expect(
        3,
        &["it is signed by `other`, and the manifest wants it signed by `lab`"],
    );
    demands("labb").expect(3, &["trust.json has no key `labb`; did you mean `lab`?"]);
    demands("nobody").expect(3, &["add it by `sconce trust add nobody KEY`"]);
    lab.sign(&library);
    demands("lab").expect(0, &[]);
    let schema = place
        .sconce(&["schema", "--plugins", "plugins"])
        .expect(0, &[])
        .stdout;
    assert!(schema.contains("\"signed_by\""), "{schema}");
}

#[test]
fn keys_are_added_listed_changed_and_removed() {
    let Some((place, library)) = place() else {
        return;
    };
    let (old, new) = (Signer::new(), Signer::new());
    let demands = || run(&place, json!({"hook": "clip", "signed_by": "lab"}));
    let sconce = |arguments: &[&str]| place.sconce(&[&["trust"], arguments].concat());
    let listed = sconce(&["list"]).expect(0, &[]).stdout;
    assert!(
        listed.contains("no key is trusted") && listed.contains("trust.json"),
        "{listed}"
    );
    // As a key file, then as text.
    let file = format!("untrusted comment: the lab's\n{}\n", old.key());
    place.write_text("lab.pub", &file);
    let added = sconce(&["add", "lab", "lab.pub"]).expect(0, &[]).stdout;
    assert!(
        added.contains("trusts plugins signed by `lab`, key "),
        "{added}"
    );
    old.sign(&library);
    demands().expect(0, &[]);
    // The signer changes keys: both are trusted for a while, then the new one alone.
    new.sign(&library);
    demands().expect(3, &["it is signed by an unknown key"]);
    sconce(&["add", "lab", &new.key()]).expect(0, &[]);
    demands().expect(0, &[]);
    let listed: Value =
        serde_json::from_str(&sconce(&["list", "--json"]).expect(0, &[]).stdout).expect("JSON");
    assert_eq!(listed["keys"][0]["key"], old.key());
    assert_eq!(listed["keys"][1]["key"], new.key());
    let old_id = listed["keys"][0]["id"].as_str().expect("an id");
    sconce(&["remove", old_id]).expect(0, &[]);
    demands().expect(0, &[]);
    old.sign(&library);
    demands().expect(3, &["signed by an unknown key"]);
    let removed = sconce(&["remove", "lab"]).expect(0, &[]).stdout;
    assert!(
        removed.contains("no longer trusts `lab`: 1 key removed"),
        "{removed}"
    );
    for (arguments, words) in [
        (&["remove", "lab"][..], "no trusted key is called `lab`"),
        (&["add", "a b", &new.key()], "is not a name for a key"),
        (
            &["add", "lab", "nowhere.pub"],
            "`nowhere.pub` is not a file, and it is not a public key",
        ),
        (
            &["add", "lab", "manifest.json"],
            "`manifest.json`: it is not a public key",
        ),
    ] {
        sconce(arguments).expect(2, &[words]);
    }
    sconce(&["add", "lab", &new.key()]).expect(0, &[]);
    sconce(&["add", "other", &new.key()]).expect(2, &["is trusted already, as `lab`"]);
}

#[test]
fn a_wrong_trust_file_is_an_error_with_line_and_advice() {
    let Some((place, _)) = place() else {
        return;
    };
    fs::create_dir_all(place.path("config-home/sconce")).expect("made");
    for (text, words) in [
        (
            "{\n  \"keys\": [\n}",
            &[
                "is not valid JSON",
                "trust.json:3:1",
                "hint: mend the file there",
            ][..],
        ),
        (
            "{\n  \"keys\": [{\"name\": \"lab\", \"key\": \"RWQ\"}]\n}",
            &[
                "not a public key of minisign",
                "trust.json:2:",
                "keys[0].key",
                "`.pub` file",
            ],
        ),
        (
            "{\n  \"unsinged\": \"refuse\"\n}",
            &["unsinged", "did you mean `unsigned`?", "trust.json:2:"],
        ),
        ("{\"unsigned\": \"forbid\"}", &["at unsigned", "refuse"]),
        (
            "{\"except\": [\"plugins\"]}",
            &[
                "`plugins` is not an absolute path",
                "except[0]",
                "begin it with `/` or `~/`",
            ],
        ),
    ] {
        place.write_text("config-home/sconce/trust.json", text);
        run(&place, json!("clip")).expect(2, words);
        for arguments in [
            &["plugins", "plugins"][..],
            &["inspect", "plugins/libclip.so"],
            &["schema"],
            &["validate", "plugins/libclip.so"],
            &["trust", "list"],
        ] {
            place.sconce(arguments).expect(2, words);
        }
    }
    // Another file, which must be there.
    place.write_text("other.json", "{\"unsigned\": \"refuse\"}");
    let other = [("SCONCE_TRUST", "other.json")];
    let arguments = ["inspect", "plugins/libclip.so"];
    place
        .sconce_in(&arguments, &other)
        .expect(3, &["it is unsigned"]);
    let missing = [("SCONCE_TRUST", "missing.json")];
    place.sconce_in(&arguments, &missing).expect(
        2,
        &["`missing.json` can't be read", "`SCONCE_TRUST` names it"],
    );
}

#[test]
fn installed_plugins_keep_their_signatures() {
    let Some((place, library)) = place() else {
        return;
    };
    let lab = Signer::new();
    trust(&place, trusting(&lab));
    lab.sign(&library);
    let install = || {
        place.sconce(&[
            "install-plugins",
            "--from",
            "plugins/libclip.so",
            "--to",
            "installed",
        ])
    };
    install().expect(0, &[]);
    let installed = place.path("installed/libclip.so");
    let inspect = || {
        place
            .sconce(&["inspect", "installed/libclip.so"])
            .expect(0, &[])
            .stdout
    };
    assert!(inspect().contains("signed by `lab`"));
    // A new build without a signature: the old one's must not make it an altered plugin.
    fs::remove_file(signature_of(&library)).expect("removed");
    alter(&library);
    install().expect(0, &[]);
    assert!(inspect().contains("unsigned"));
    lab.sign(&library);
    install().expect(0, &[]);
    assert!(
        inspect().contains("signed by `lab`"),
        "the signature came later"
    );
    let arguments = ["install-plugins", "--remove", "clip", "--to", "installed"];
    place.sconce(&arguments).expect(0, &[]);
    assert!(!installed.exists() && !signature_of(&installed).exists());
}

#[test]
fn what_a_signed_plugin_opens_by_itself_is_refused_where_signatures_are_demanded() {
    let place = Workplace::new(&[]);
    place.write_text("other.c", "int other = 1;\n");
    let Some(other) = place.add_c_plugin(&place.path("other.c").to_string_lossy(), &[]) else {
        return;
    };
    let hidden = place.path("other.so");
    fs::rename(&other, &hidden).expect("moved");
    let opens = format!(
        "#include <dlfcn.h>\n__attribute__((constructor)) static void open_it(void) {{\n    \
         (void)dlopen(\"{}\", RTLD_NOW);\n}}\n",
        hidden.display()
    );
    let source = fs::read_to_string(sconce_tests::workspace().join(CLIP)).expect("a source");
    place.write_text("clip.c", &format!("{source}\n{opens}"));
    let library = place.add_c_plugin(&place.path("clip.c").to_string_lossy(), &[]);
    let library = library.expect("a compiler");
    let lab = Signer::new();
    lab.sign(&library);
    let entry = || json!("clip");
    let mut trusted = trusting(&lab);
    trust(&place, trusted.clone());
    run(&place, entry()).expect(0, &[]);
    trusted["unsigned"] = json!("refuse");
    trust(&place, trusted.clone());
    let words = [
        "it has loaded what no signature covers",
        "other.so",
        "its code has run in this process by now",
    ];
    run(&place, entry()).expect(3, &words);
    // And what the environment adds is named.
    trusted["except"] = json!([place.path("plugins")]);
    trust(&place, trusted);
    let checked = place.sconce_in(&["check", "manifest.json"], &[("LD_LIBRARY_PATH", "/tmp")]);
    checked.expect(0, &["`LD_LIBRARY_PATH` in the environment"]);
}
