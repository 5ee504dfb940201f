//! Mixed images: the same bits after an interruption and on ranks, in training alone.

use sconce_tests::{Workplace, tiny};
use serde_json::{Value, json};

/// 40 images of 6 × 6 pixels in four classes, as IDX files.
fn place() -> Workplace {
    let place = Workplace::new(&["sconce-plugin-sockets", "sconce-fixture-faults"]);
    let header = |magic: [u8; 4], sizes: &[u32]| {
        let sizes = sizes.iter().flat_map(|size| size.to_be_bytes());
        magic.into_iter().chain(sizes).collect::<Vec<u8>>()
    };
    let pixels = (0..40 * 36_u32).map(|i| (i * 37 % 251) as u8 / (1 + (i / 36 % 4) as u8));
    let mut images = header([0, 0, 8, 3], &[40, 6, 6]);
    images.extend(pixels);
    let mut labels = header([0, 0, 8, 1], &[40]);
    labels.extend((0..40_u8).map(|image| image % 4));
    std::fs::write(place.path("images"), images).expect("written");
    std::fs::write(place.path("labels"), labels).expect("written");
    place
}

fn manifest(augment: &Value) -> Value {
    let mut manifest = tiny();
    manifest["data"] = json!({"kind": "idx", "images": "images", "labels": "labels", "classes": ["a", "b", "c", "d"],
        "val": {"count": 10}, "augment": augment});
    manifest["loss"] = json!({"kind": "cross-entropy", "class_weights": [1, 2, 3, 4]});
    manifest["train"] = json!({"epochs": 4, "batch_size": 8, "accumulate": 2});
    manifest["distributed"] = json!({"batches": "update"});
    manifest
}

fn both() -> Value {
    json!({"mixup": {"alpha": 0.5}, "cutmix": {}})
}

fn weights(place: &Workplace) -> Vec<u8> {
    std::fs::read(place.path("out/weights.safetensors")).expect("weights")
}

fn trained(augment: &Value) -> Vec<u8> {
    let place = place();
    place.run(&manifest(augment)).expect(0, &[]);
    weights(&place)
}

#[test]
fn mixed_images_train_to_the_same_bits_again_resumed_and_on_ranks() {
    let expected = trained(&both());
    assert!(trained(&both()) == expected, "again");
    for other in [json!({}), json!({"mixup": {}}), json!({"cutmix": {}})] {
        assert!(trained(&other) != expected, "{other}");
    }
    let asker = |what: &str, text: &str| {
        json!({"hook": "asker", "config":
            {"at": "after_iter", "phase": "train", "what": what, "text": text, "after_iteration": 6, "once": true}})
    };
    let mut stopped = manifest(&both());
    stopped["hooks"] = json!([asker("save_checkpoint", "here"), asker("stop", "enough")]);
    let place = place();
    place.run(&stopped).expect(0, &[]);
    place.write(&manifest(&both()));
    let resume = [
        "run",
        "manifest.json",
        "--resume",
        "here",
        "--allow-changes",
    ];
    place.sconce(&resume).expect(0, &["resumes from"]);
    assert!(weights(&place) == expected, "resumed");
    let launch = ["launch", "-n", "3", "manifest.json", "--output", "ranks"];
    place.sconce(&launch).expect(0, &[]);
    let on_ranks = std::fs::read(place.path("ranks/weights.safetensors")).expect("weights");
    assert!(on_ranks == expected, "on ranks");
}

#[test]
fn evaluations_and_predictions_have_no_mixtures_and_options_have_ranges() {
    let place = place();
    place.run(&manifest(&both())).expect(0, &[]);
    let predict = |more: &[&str]| {
        let arguments = ["predict", "out", "--phase", "train"];
        place
            .sconce(&[&arguments, more].concat())
            .expect(0, &[])
            .stdout
    };
    let without = ["--set", "data.augment={}"];
    assert_eq!(predict(&[]), predict(&without));
    let wrong = manifest(&json!({"mixup": {"alpha": 0}}));
    place.write(&wrong);
    place
        .sconce(&["check", "manifest.json"])
        .expect(2, &["alpha"]);
}
