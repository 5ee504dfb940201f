//! Parts have the requested sizes, are disjoint, and keep class proportions if stratified.

use super::*;

#[test]
fn parts_have_their_sizes_and_share_nothing() {
    let parts = split(1, 100, Taken::Count(20), Taken::Count(10)).expect("parts");
    assert_eq!(
        (parts.train.len(), parts.val.len(), parts.test.len()),
        (70, 20, 10)
    );
    let mut all = [parts.train.clone(), parts.val.clone(), parts.test.clone()].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 100);
    assert_eq!(
        parts,
        split(1, 100, Taken::Count(20), Taken::Count(10)).expect("parts")
    );
    assert_ne!(
        parts.val,
        split(2, 100, Taken::Count(20), Taken::Count(10))
            .expect("parts")
            .val
    );
    let error = split(1, 100, Taken::Count(60), Taken::Count(40))
        .expect_err("nothing left")
        .to_string();
    assert!(error.contains("nothing is left to train on"), "{error}");
    assert!(split(1, 100, Taken::Count(usize::MAX), Taken::Count(1)).is_err());
}

/// Changing the split changes every user's results: the parts for seed 1 are the start of its permutation.
#[test]
fn a_seed_keeps_its_split() {
    let order = random::stream(1, "split", 0, 0).permutation(10);
    let parts = split(1, 10, Taken::Count(3), Taken::Count(2)).expect("parts");
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
    let parts = stratified(3, &classes, Taken::Count(20), Taken::Count(10)).expect("parts");
    assert_eq!(counts(&classes, &parts.val), [10, 6, 4]);
    assert_eq!(counts(&classes, &parts.test), [5, 3, 2]);
    assert_eq!(counts(&classes, &parts.train), [35, 21, 14]);
    assert_eq!(
        parts,
        stratified(3, &classes, Taken::Count(20), Taken::Count(10)).expect("parts")
    );
    assert_ne!(
        parts,
        stratified(4, &classes, Taken::Count(20), Taken::Count(10)).expect("parts")
    );
}

#[test]
fn shares_that_are_no_whole_numbers_go_to_the_largest_remainders() {
    let classes: Vec<u32> = [(0, 7), (1, 2), (2, 1)]
        .into_iter()
        .flat_map(|(class, count)| std::iter::repeat_n(class, count))
        .collect();
    // Of 3: 2.1, 0.6, 0.3. Then of 2, from 5, 1, 1: 1.43, 0.29, 0.29, so that the first gets the remainder.
    let parts = stratified(1, &classes, Taken::Count(3), Taken::Count(2)).expect("parts");
    assert_eq!(counts(&classes, &parts.val), [2, 1, 0]);
    assert_eq!(counts(&classes, &parts.test), [2, 0, 0]);
    // Classes with one sample each: as many as there are seats, none twice.
    let alone: Vec<u32> = (0..9).collect();
    let parts = stratified(1, &alone, Taken::Count(4), Taken::Count(4)).expect("parts");
    assert_eq!(
        (parts.val.len(), parts.test.len(), parts.train.len()),
        (4, 4, 1)
    );
}

#[test]
fn a_split_says_one_thing() {
    let of = |amount| Split {
        amount,
        ..Split::default()
    };
    let count = |count| {
        of(Amount {
            count: Some(count),
            ..Amount::default()
        })
    };
    let fraction = |fraction| {
        of(Amount {
            fraction: Some(fraction),
            ..Amount::default()
        })
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
    both.amount.fraction = Some(0.5);
    let half = Split {
        images: Some("images".into()),
        ..Split::default()
    };
    for (split, words) in [
        (both, "`data.val` must have exactly one of"),
        (
            half,
            "`fraction`, `fold` with `folds`, or `images` with `labels`",
        ),
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
    assert_eq!(own.taken(), Taken::Count(0));
    let mut both = file;
    both.amount.count = Some(3);
    for portions in [both, Portion::default()] {
        let error = portion(Some(&portions), "test", 10).expect_err("too much or too little");
        assert_eq!(
            error.to_string(),
            "`data.test` must have exactly one of `count`, `fraction`, `fold` with `folds`, or `file`"
        );
    }
}

#[test]
fn folds_share_nothing_have_everything_and_keep_classes() {
    let classes: Vec<u32> = (0..103).map(|i| [0, 0, 1, 2, 1][i % 5]).collect();
    let fold = |fold| {
        let fold = Taken::Fold(Fold { fold, folds: 4 });
        stratified(5, &classes, fold, Taken::Count(3)).expect("parts")
    };
    let folds = [1, 2, 3, 4].map(fold);
    let mut all: Vec<u32> = folds.iter().flat_map(|parts| parts.val.clone()).collect();
    all.sort_unstable();
    let mut expected = folds[0].train.clone();
    expected.extend(&folds[0].val);
    expected.sort_unstable();
    assert_eq!(all, expected, "each sample once, those of the test never");
    for parts in &folds {
        assert_eq!(parts.val.len() + parts.train.len(), 100);
        assert_eq!((parts.val.len(), &parts.test), (25, &folds[0].test));
        for (class, count) in counts(&classes, &parts.val).iter().enumerate() {
            let others = counts(&classes, &folds[0].val)[class];
            assert!(
                count.abs_diff(others) <= 1,
                "class {class}: {count} and {others}"
            );
        }
    }
}

#[test]
fn a_fold_has_both_of_its_numbers_in_range_and_is_for_validations() {
    let of = |phase, fold, folds| {
        let amount = Amount {
            fold,
            folds,
            ..Amount::default()
        };
        one_of(phase, 10, amount, OwnFiles::<()>::Unsaid, "`file`")
            .map_err(|error| error.to_string())
    };
    assert!(of("val", Some(2), Some(2)).is_ok());
    for (phase, fold, folds, words) in [
        ("val", Some(1), None, "`{\"fold\": 1, \"folds\": 5}`"),
        ("test", Some(1), Some(2), "folds are for `data.val`"),
        ("val", Some(0), Some(2), "`data.val.fold` must be from 1"),
        ("val", Some(3), Some(2), "`data.val.fold` must be from 1"),
        (
            "val",
            Some(1),
            Some(1),
            "`data.val.folds` must be at least 2",
        ),
    ] {
        let error = of(phase, fold, folds).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
    let count = Amount {
        count: Some(1),
        fold: Some(1),
        folds: Some(2),
        ..Amount::default()
    };
    assert!(one_of("val", 10, count, OwnFiles::<()>::Unsaid, "`file`").is_err());
    let all = Taken::Fold(Fold { fold: 1, folds: 2 });
    assert!(
        split(1, 1, all, Taken::Count(0)).is_err(),
        "nothing is left to train on"
    );
}

/// Ten groups of 1 to 10 samples; the class is that of the group's number.
fn groups_and_classes() -> (Vec<u32>, Vec<u32>) {
    let groups: Vec<u32> = (0..10_u32)
        .flat_map(|group| std::iter::repeat_n(group, group as usize + 1))
        .collect();
    let classes = groups.iter().map(|group| group % 2).collect();
    (groups, classes)
}

fn groups_of(part: &[u32], groups: &[u32]) -> std::collections::BTreeSet<u32> {
    part.iter().map(|&sample| groups[sample as usize]).collect()
}

#[test]
fn groups_stay_together_in_parts_and_folds() {
    let (groups, classes) = groups_and_classes();
    for seed in 0..20 {
        let taken = (Taken::Count(10), Taken::Count(8));
        let parts = grouped(seed, &groups, None, taken).expect("parts");
        let [train, val, test] = [&parts.train, &parts.val, &parts.test];
        assert_eq!(train.len() + val.len() + test.len(), 55);
        let of: Vec<_> = [train, val, test]
            .map(|part| groups_of(part, &groups))
            .into();
        assert!(
            of[0].is_disjoint(&of[1]) && of[0].is_disjoint(&of[2]) && of[1].is_disjoint(&of[2])
        );
        // The next group would be further away than half of the largest.
        assert!(
            val.len().abs_diff(10) <= 5 && test.len().abs_diff(8) <= 5,
            "{} {}",
            val.len(),
            test.len()
        );
        for classes in [None, Some(classes.as_slice())] {
            let mut all = std::collections::BTreeSet::new();
            for fold in 1..=5 {
                let val = Taken::Fold(Fold { fold, folds: 5 });
                let parts = grouped(seed, &groups, classes, (val, Taken::Count(0))).expect("parts");
                // GroupKFold(5) has folds of 11 of these groups; with their classes in balance they are less equal.
                let spread = if classes.is_some() { 5 } else { 0 };
                assert!(
                    parts.val.len().abs_diff(11) <= spread,
                    "{}",
                    parts.val.len()
                );
                for group in groups_of(&parts.val, &groups) {
                    assert!(all.insert(group), "group {group} twice");
                }
                assert!(
                    groups_of(&parts.train, &groups).is_disjoint(&groups_of(&parts.val, &groups))
                );
            }
            assert_eq!(all.len(), 10);
        }
    }
}

#[test]
fn groups_that_leave_nothing_or_are_too_few_are_errors() {
    let one_group = [7; 10];
    let error =
        grouped(1, &one_group, None, (Taken::Count(2), Taken::Count(0))).expect_err("one group");
    assert!(
        error.to_string().contains("nothing is left to train on"),
        "{error}"
    );
    let fold = Taken::Fold(Fold { fold: 1, folds: 3 });
    let error = grouped(1, &[0, 0, 1], None, (fold, Taken::Count(0))).expect_err("few groups");
    assert!(error.to_string().contains("2 groups"), "{error}");
}

/// Folds of groups and classes hold each class in like numbers: 20 groups of 5, four classes.
#[test]
fn stratified_folds_of_groups_keep_the_classes() {
    let groups: Vec<u32> = (0..100).map(|sample| sample / 5).collect();
    let classes: Vec<u32> = groups.iter().map(|group| group / 5).collect();
    for fold in 1..=5 {
        let val = Taken::Fold(Fold { fold, folds: 5 });
        let parts = grouped(3, &groups, Some(&classes), (val, Taken::Count(0))).expect("parts");
        assert_eq!(counts(&classes, &parts.val), [5, 5, 5, 5], "fold {fold}");
    }
}
