//! The data kind `jsonl`.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{gpt2, json_of, tokenizer_of, write};
use crate::tokens::rows::{JsonlConfig, load_in};
use crate::tokens::tokenizer::Tokenizer;
use crate::{DataError, Dataset, Targets, TokenTargets};

fn lines(rows: &[Value]) -> String {
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    rows.join("\n") + "\n"
}

fn rows(
    kept: &Path,
    file: &Path,
    tokenizer: Tokenizer,
    keys: &Value,
) -> Result<Arc<dyn Dataset>, DataError> {
    let mut config = json!({"file": file, "tokenizer": "", "context": 8});
    for (key, value) in keys.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let config: JsonlConfig = serde_json::from_value(config).expect("a config");
    let fitted = load_in(kept, &Arc::new(tokenizer), &config, Path::new(""), 1)?;
    Ok(fitted.train)
}

#[test]
fn completions_are_learnt_and_prompts_are_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let content = lines(&[
        json!({"prompt": "ab", "completion": "cd", "other": [1]}),
        json!({"prompt": "qqqqqqqqq", "completion": "x"}),
        json!({"prompt": "qqqqqqq", "completion": "zzzzz"}),
    ]);
    let file = write(directory.path(), "a.jsonl", content);
    let data = rows(directory.path(), &file, gpt2(), &json!({})).expect("rows");
    let targets = TokenTargets {
        vocabulary: 320,
        are_masked: true,
    };
    assert_eq!(data.targets(), &Targets::TokenPerPosition(targets));
    assert_eq!(
        data.len(),
        2,
        "of the second the prompt alone fills all positions"
    );
    let batch = data.gather(&[0, 1], 0).expect("a batch");
    let tokenizer = gpt2();
    let ids = |text: &str| tokenizer.encode(text, false).expect("tokens");
    let (inputs, targets): (Vec<Vec<u32>>, Vec<Vec<u32>>) = (
        batch.inputs.to_vec2().expect("tokens"),
        batch.targets.to_vec2().expect("tokens"),
    );
    let (prompt, completion) = (ids("ab"), ids("cd"));
    let all = [&prompt[..], &completion, &[0]].concat();
    assert_eq!(inputs[0][..all.len() - 1], all[..all.len() - 1]);
    for (position, &target) in targets[0].iter().enumerate() {
        let expected = match all.get(position + 1) {
            Some(&next) if position + 1 >= prompt.len() => next,
            _ => TokenTargets::IGNORED,
        };
        assert_eq!(target, expected, "{position}");
    }
    let described = data.describe().join("\n");
    assert!(
        described.contains("1 were longer and are cut, 1 dropped"),
        "{described}"
    );
}

#[test]
fn texts_have_the_classes_of_their_labels() {
    let directory = tempfile::tempdir().expect("a directory");
    let content = lines(&[
        json!({"s": "speak", "label": 10}),
        json!({"s": "all all all all all all", "label": 9}),
        json!({"s": "", "label": 10}),
    ]);
    let file = write(directory.path(), "a.jsonl", content);
    let bert = || tokenizer_of(&json_of("bert")).expect("a tokenizer");
    let data = rows(directory.path(), &file, bert(), &json!({"text": "s"})).expect("rows");
    assert_eq!(data.class_names(), ["9", "10"]);
    let batch = data.gather(&[0, 1, 2], 0).expect("a batch");
    let inputs: Vec<Vec<u32>> = batch.inputs.to_vec2().expect("tokens");
    assert_eq!(batch.targets.to_vec1::<u32>().expect("classes"), [1, 0, 1]);
    // `[CLS]`, as much as fits, `[SEP]`.
    assert_eq!((inputs[1][0], inputs[1][7]), (2, 3));
    assert_eq!(inputs[2], [2, 3, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn bad_rows_are_reported_with_their_lines() {
    let directory = tempfile::tempdir().expect("a directory");
    let good = lines(&[json!({"prompt": "a", "completion": "b"})]);
    for (content, keys, words) in [
        (String::new(), json!({}), "line 1: there are no rows"),
        (
            "{\"x\": 1}".to_owned(),
            json!({}),
            "the first row has `x`, neither",
        ),
        (
            format!("{good}\n{{\"prompt\": \"a\"}}"),
            json!({}),
            "line 3: there is no `completion`, but `prompt`",
        ),
        (
            format!("{good}{{\"prompt\": 1, \"completion\": \"\"}}"),
            json!({}),
            "line 2: `prompt` is not a text",
        ),
        (format!("{good}{{"), json!({}), "line 2: this is not JSON"),
        (
            format!("{good}[]"),
            json!({}),
            "line 2: this is not a JSON object",
        ),
        (
            good.clone(),
            json!({"text": "a", "prompt": "b"}),
            "one of these",
        ),
        (good.clone(), json!({"end": "<none>"}), "no token `<none>`"),
        (
            lines(&[json!({"text": "a", "label": 0.5})]),
            json!({}),
            "neither a text nor a whole number",
        ),
    ] {
        let file = write(directory.path(), "a.jsonl", &content);
        let error = rows(directory.path(), &file, gpt2(), &keys);
        let error = error.err().expect(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn answers_of_conversations_are_learnt() {
    let directory = tempfile::tempdir().expect("a directory");
    // Of Qwen's kind, with a method of Python's.
    let template = "{%- for m in messages %}\n{{- '<|' + m.role + '|>' + m['content'].strip() + '\n' }}\n{%- endfor %}\n\
                    {%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";
    let config =
        |template: &str| json!({"chat_template": template, "eos_token": {"content": "</s>"}});
    write(directory.path(), "chat.json", config(template).to_string());
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    let content = lines(&[
        json!({"messages": [message("user", " a "), message("assistant", "b"), message("user", "c"),
                            message("assistant", "d"), message("user", "e")]}),
        json!({"messages": [message("user", "nothing to learn")]}),
    ]);
    let file = write(directory.path(), "a.jsonl", content);
    let keys = |name: &str| json!({"template": directory.path().join(name), "context": 200});
    let data = rows(directory.path(), &file, gpt2(), &keys("chat.json")).expect("rows");
    assert_eq!(data.len(), 1);
    let batch = data.gather(&[0], 0).expect("a batch");
    let (inputs, targets): (Vec<Vec<u32>>, Vec<Vec<u32>>) = (
        batch.inputs.to_vec2().expect("tokens"),
        batch.targets.to_vec2().expect("tokens"),
    );
    let tokenizer = gpt2();
    let text = tokenizer.decode(&inputs[0], true).expect("text");
    assert_eq!(
        text,
        "<|user|>a\n<|assistant|>b\n<|user|>c\n<|assistant|>d\n"
    );
    let learnt: Vec<u32> = (targets[0].iter().copied())
        .filter(|&target| target != TokenTargets::IGNORED)
        .collect();
    assert_eq!(tokenizer.decode(&learnt, true).as_deref(), Ok("b\nd\n"));

    let endless =
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    for (template, words) in [
        ("{{ raise_exception('no system') }}", "no system"),
        (endless, "fuel"),
        ("{{ messages | length }}", "changes the text before it"),
        ("{% if %}", "not valid"),
    ] {
        write(directory.path(), "bad.json", config(template).to_string());
        let error = rows(directory.path(), &file, gpt2(), &keys("bad.json"));
        let error = error.err().expect(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    write(directory.path(), "bad.json", "{}");
    let error = rows(directory.path(), &file, gpt2(), &keys("bad.json"));
    assert!(
        error
            .err()
            .expect("none")
            .to_string()
            .contains("no `chat_template`")
    );
}
