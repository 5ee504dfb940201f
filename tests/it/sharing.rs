//! Values and tensors that hooks of two plugins exchange.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

/// What the taker saw, with the giver's priority and how long it keeps.
fn taken(keep: &str, giver: &str, taker: &str) -> Vec<Value> {
    let place = Workplace::new(&["sconce-fixture-giver", "sconce-fixture-taker"]);
    let hooks = json!([
        {"hook": "taker", "priority": taker},
        {"hook": "giver", "priority": giver, "config": {"keep": keep}}
    ]);
    place.run(&edit(tiny(), "/hooks", hooks)).expect(0, &[]);
    place.records("taken.jsonl")
}

/// The lessons seen at a point in training, in order.
fn lessons(seen: &[Value], point: &str) -> Vec<Option<u64>> {
    seen.iter()
        .filter(|look| look["point"] == point && look["phase"] == "train")
        .map(|look| look["lesson"].as_u64())
        .collect()
}

#[test]
fn a_later_hook_of_another_plugin_sees_what_an_earlier_one_publishes() {
    let seen = taken("run", "HIGH", "LOW");
    let expected: Vec<Option<u64>> = (1..=6).map(Some).collect();
    assert_eq!(lessons(&seen, "after_loss"), expected);
    let first = (seen.iter())
        .find(|look| look["point"] == "after_loss")
        .expect("a look");
    assert_eq!(
        first["numbers"],
        json!([[2, 3], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    );
}

#[test]
fn in_the_reverse_order_it_sees_the_one_before_or_nothing() {
    let seen = taken("run", "LOW", "HIGH");
    let expected = [None, Some(1), Some(2), Some(3), Some(4), Some(5)];
    assert_eq!(lessons(&seen, "after_loss"), expected);
    let first = (seen.iter())
        .find(|look| look["point"] == "after_loss")
        .expect("a look");
    let error = first["error"].as_str().expect("an error");
    assert!(
        error.contains("no hook has published a tensor `numbers`"),
        "{error}"
    );
}

#[test]
fn values_are_kept_for_the_batch_the_epoch_or_the_run() {
    for (keep, before_iter, before_epoch, after_cycle) in [
        ("batch", [None; 6], [None, None], [None, None]),
        (
            "epoch",
            [None, Some(1), Some(2), None, Some(4), Some(5)],
            [None, None],
            [Some(3), Some(6)],
        ),
        (
            "run",
            [None, Some(1), Some(2), Some(3), Some(4), Some(5)],
            [None, Some(3)],
            [Some(3), Some(6)],
        ),
    ] {
        let seen = taken(keep, "HIGH", "LOW");
        assert_eq!(lessons(&seen, "before_iter"), before_iter, "{keep}");
        assert_eq!(lessons(&seen, "before_epoch"), before_epoch, "{keep}");
        assert_eq!(lessons(&seen, "after_cycle"), after_cycle, "{keep}");
    }
}

#[test]
fn a_strangers_tensor_can_be_read_and_not_written() {
    let place = Workplace::new(&["sconce-fixture-giver", "sconce-fixture-tensors"]);
    let hooks = json!([
        {"hook": "giver", "config": {"keep": "run"}},
        {"hook": "touch", "priority": "LOW", "config": {"at": "after_loss", "what": "strangers"}}
    ]);
    place.run(&edit(tiny(), "/hooks", hooks)).expect(
        4,
        &[
            "`numbers` was published by another hook",
            "hook `touch` failed at `after_loss`",
        ],
    );
}
