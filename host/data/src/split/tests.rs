//! Parts have the requested sizes, are disjoint, and keep class proportions if stratified.

use super::*;

#[test]
fn parts_have_their_sizes_and_share_nothing() {
    let parts = split(1, 100, 20, 10).expect("parts");
    assert_eq!(
        (parts.train.len(), parts.val.len(), parts.test.len()),
        (70, 20, 10)
    );
    let mut all = [parts.train.clone(), parts.val.clone(), parts.test.clone()].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 100);
    assert_eq!(parts, split(1, 100, 20, 10).expect("parts"));
    assert_ne!(parts.val, split(2, 100, 20, 10).expect("parts").val);
    let error = split(1, 100, 60, 40).expect_err("nothing left").to_string();
    assert!(error.contains("nothing is left to train on"), "{error}");
    assert!(split(1, 100, usize::MAX, 1).is_err());
}

/// Changing the split changes every user's results: the parts for seed 1 are the start of its permutation.
#[test]
fn a_seed_keeps_its_split() {
    let order = random::stream(1, "split", 0, 0).permutation(10);
    let parts = split(1, 10, 3, 2).expect("parts");
    let sorted = |part: &[u32]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part
    };
    assert_eq!(parts.val, sorted(&order[..3]));
    assert_eq!(parts.test, sorted(&order[3..5]));
    assert_eq!(parts.train, sorted(&order[5..]));
}

fn counts(classes: &[u32], part: &[u32]) -> Vec<usize> {
    let largest = classes.iter().max().map_or(0, |&class| class as usize);
    let mut counts = vec![0; largest + 1];
    for &sample in part {
        counts[classes[sample as usize] as usize] += 1;
    }
    counts
}

#[test]
fn classes_keep_their_shares() {
    // 50, 30 and 20 of 100.
    let classes: Vec<u32> = (0..100)
        .map(|i| [0, 0, 0, 0, 0, 1, 1, 1, 2, 2][i % 10])
        .collect();
    let parts = stratified(3, &classes, 20, 10).expect("parts");
    assert_eq!(counts(&classes, &parts.val), [10, 6, 4]);
    assert_eq!(counts(&classes, &parts.test), [5, 3, 2]);
    assert_eq!(counts(&classes, &parts.train), [35, 21, 14]);
    assert_eq!(parts, stratified(3, &classes, 20, 10).expect("parts"));
    assert_ne!(parts, stratified(4, &classes, 20, 10).expect("parts"));
}

#[test]
fn shares_that_are_no_whole_numbers_go_to_the_largest_remainders() {
    let classes: Vec<u32> = [(0, 7), (1, 2), (2, 1)]
        .into_iter()
        .flat_map(|(class, count)| std::iter::repeat_n(class, count))
        .collect();
    // Of 3: 2.1, 0.6, 0.3. Then of 2, from 5, 1, 1: 1.43, 0.29, 0.29, so that the first gets the remainder.
    let parts = stratified(1, &classes, 3, 2).expect("parts");
    assert_eq!(counts(&classes, &parts.val), [2, 1, 0]);
    assert_eq!(counts(&classes, &parts.test), [2, 0, 0]);
    // Classes with one sample each: as many as there are seats, none twice.
    let alone: Vec<u32> = (0..9).collect();
    let parts = stratified(1, &alone, 4, 4).expect("parts");
    assert_eq!(
        (parts.val.len(), parts.test.len(), parts.train.len()),
        (4, 4, 1)
    );
}

#[test]
fn a_split_says_one_thing() {
    let count = |count| Split {
        count: Some(count),
        ..Split::default()
    };
    let fraction = |fraction| Split {
        fraction: Some(fraction),
        ..Split::default()
    };
    assert_eq!(part(None, "val", 10).expect("none"), Part::Nothing);
    assert_eq!(
        part(Some(&count(3)), "val", 10).expect("count"),
        Part::Count(3)
    );
    assert_eq!(
        part(Some(&fraction(0.25)), "val", 10).expect("fraction"),
        Part::Count(3)
    );
    let mut both = count(3);
    both.fraction = Some(0.5);
    let half = Split {
        images: Some("images".into()),
        ..Split::default()
    };
    for (split, words) in [
        (both, "`data.val` must have exactly one of"),
        (half, "`fraction`, or `images` with `labels`"),
        (Split::default(), "`data.val` must have exactly one of"),
        (count(0), "`data.val.count` must be at least 1"),
        (
            fraction(1.0),
            "`data.val.fraction` must be above 0 and below 1",
        ),
        (fraction(f64::NAN), "`data.val.fraction`"),
    ] {
        let error = part(Some(&split), "val", 10).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_portion_says_one_thing() {
    let file = Portion {
        file: Some("own".into()),
        ..Portion::default()
    };
    assert_eq!(portion(None, "test", 10).expect("none"), Part::Nothing);
    let own = portion(Some(&file), "test", 10).expect("a file");
    assert_eq!(own, Part::Own(Path::new("own")));
    assert_eq!(own.taken(), 0);
    let both = Portion {
        count: Some(3),
        ..file
    };
    for portions in [both, Portion::default()] {
        let error = portion(Some(&portions), "test", 10).expect_err("too much or too little");
        assert_eq!(
            error.to_string(),
            "`data.test` must have exactly one of `count`, `fraction`, or `file`"
        );
    }
}
