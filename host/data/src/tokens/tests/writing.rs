//! Token files made of texts.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{gpt2, write};
use crate::tokens::cached::directory_in;
use crate::tokens::tokenizer::pieces::pieces;
use crate::{TokenizeOptions, TokenizedSource, tokenize};

fn options(output: &Path, threads: usize) -> TokenizeOptions {
    TokenizeOptions {
        output: output.to_owned(),
        field: "text".to_owned(),
        end: Some(0),
        threads,
    }
}

fn run(files: &[std::path::PathBuf], options: &TokenizeOptions) -> Vec<TokenizedSource> {
    let mut done = Vec::new();
    tokenize(&gpt2(), files, options, |_, source| done.push(source)).expect("tokens");
    done
}

fn tokens(file: &Path) -> Vec<u32> {
    let bytes = fs::read(file).expect("tokens");
    let (numbers, rest) = bytes.as_chunks::<2>();
    assert!(rest.is_empty());
    numbers
        .iter()
        .map(|&n| u16::from_le_bytes(n).into())
        .collect()
}

#[test]
fn tokens_are_the_same_from_any_number_of_threads() {
    let directory = tempfile::tempdir().expect("a directory");
    let text =
        "Speak, speak.\n\nAll: you are resolved rather to die than to famish? ä東\n".repeat(3000);
    let lines = [
        json!({"text": "All: speak", "id": 1}),
        json!({"text": ""}),
        json!({"text": text}),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let files = [
        write(directory.path(), "a.txt", &text),
        write(directory.path(), "b.jsonl", lines.join("\n\n")),
        write(directory.path(), "empty.txt", ""),
    ];
    let tokenizer = gpt2();
    let mut expected = Vec::new();
    for piece in pieces(&text) {
        expected.extend(tokenizer.encode(piece, false).expect("tokens"));
    }
    expected.push(0);
    for threads in [1, 3] {
        let output = directory.path().join(threads.to_string());
        let done = run(&files, &options(&output, threads));
        let all = tokens(&output.join("a.bin"));
        assert_eq!(all, expected);
        let counted = TokenizedSource {
            bytes: text.len() as u64,
            tokens: all.len() as u64,
            was_there: false,
        };
        assert_eq!(done[0], counted);
        assert_eq!(tokenizer.decode(&all, true).expect("text"), text);
        let mut documents = tokenizer.encode("All: speak", false).expect("tokens");
        documents.extend([0, 0]);
        documents.extend(&expected);
        assert_eq!(tokens(&output.join("b.bin")), documents);
        assert_eq!(
            tokens(&output.join("empty.bin")),
            [0],
            "a document without text"
        );
        assert_eq!(
            fs::read(output.join("tokenizer.json")).expect("it"),
            tokenizer.source()
        );
    }
}

#[test]
fn a_run_continues_where_it_was_interrupted() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = directory.path().join("tokens");
    let mut files = vec![
        write(directory.path(), "one.txt", "Speak"),
        write(directory.path(), "two.txt", "All"),
    ];
    let options = options(&output, 2);
    run(&files, &options);
    files.push(write(directory.path(), "three.txt", "famish"));
    write(directory.path(), "two.txt", "Before all");
    // As if the run had been killed in the middle of this source.
    write(&output, "three.bin.partial", "x");
    let done = run(&files, &options);
    let there: Vec<bool> = done.iter().map(|source| source.was_there).collect();
    assert_eq!(there, [true, false, false]);
    let two = gpt2().decode(&tokens(&output.join("two.bin")), true);
    assert_eq!(two.as_deref(), Ok("Before all"));
    let done = run(&files, &options);
    assert!(done.iter().all(|source| source.was_there));
    // Truncated since.
    fs::write(output.join("one.bin"), b"").expect("written");
    assert!(!run(&files, &options)[0].was_there);

    let other = TokenizeOptions {
        end: None,
        ..options
    };
    let error = tokenize(&gpt2(), &files, &other, |_, _| ()).expect_err("another end");
    assert!(
        error.to_string().contains("another end of documents"),
        "{error}"
    );
}

#[test]
fn sources_of_one_name_and_bad_texts() {
    let directory = tempfile::tempdir().expect("a directory");
    let sub = directory.path().join("sub");
    fs::create_dir(&sub).expect("made");
    let files = [
        write(directory.path(), "a.txt", "x"),
        write(&sub, "a.txt", "y"),
    ];
    let output = directory.path().join("tokens");
    run(&files, &options(&output, 1));
    assert!(output.join("a-2.bin").is_file());

    for (name, content, words) in [
        (
            "latin.txt",
            &b"one\ntwo\xe9"[..],
            vec!["latin.txt", "line 2", "not UTF-8"],
        ),
        (
            "b.jsonl",
            b"{\"text\": \"x\"}\n\n{\"body\": 1}",
            vec!["line 3", "no `text`", "`body`", "--field"],
        ),
        ("c.jsonl", b"{\"text\": 5}", vec!["line 1", "not a text"]),
        ("d.jsonl", b"{\"text\": ", vec!["line 1", "not JSON"]),
        ("e.jsonl", b"[]", vec!["not a JSON object"]),
        ("packed.txt", b"\x1f\x8b\x08\0\0\0\0\0", vec!["gzipped"]),
        ("nowhere/x.txt", b"", vec!["no such file"]),
    ] {
        let file = if name.starts_with("nowhere") {
            directory.path().join(name)
        } else {
            write(directory.path(), name, content)
        };
        let output = directory
            .path()
            .join(format!("of-{}", name.replace('/', "-")));
        let error = tokenize(&gpt2(), &[file], &options(&output, 1), |_, _| ());
        let error = error.expect_err(name).to_string();
        for word in words {
            assert!(error.contains(word), "{name}: {error}");
        }
    }
}

#[test]
fn tokens_of_a_text_are_kept_until_it_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let (kept, tokenizer) = (directory.path().join("kept"), gpt2());
    let text = write(directory.path(), "a.txt", "Speak");
    let made = || directory_in(&kept, &text, &tokenizer, None).expect("tokens");
    let first = made();
    assert_eq!(first, made());
    write(directory.path(), "a.txt", "Speak, speak");
    let second = made();
    assert_ne!(first, second);
    let found = tokens(&second.join("a.bin"));
    assert_eq!(
        tokenizer.decode(&found, false).as_deref(),
        Ok("Speak, speak")
    );
    assert_eq!(fs::read_dir(&kept).expect("listed").count(), 2);
}
